# SPDX-License-Identifier: Apache-2.0
"""The page "Guarantees": its limits are those of the code, and its options and tests exist."""

from __future__ import annotations

import argparse
import pathlib
import re

from osc_placement import plugin
from osc_placement.client import retry, transport
from osc_placement.plan import guards, workers
from osc_placement.plan.kinds import allocations
from osc_placement.server import context, options, run, validation
from osc_placement.v1.repair import audit
from osc_placement.v1.reshape import reshape
from osc_placement.workflows.reshape import assignment

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "doc" / "source" / "about" / "guarantees.rst").read_text("utf-8")
ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     - (.+)$", re.MULTILINE)
ROWS = [row for row in ROW.findall(PAGE) if row[0] != "Limit"]
PROMISE = re.compile(r"^\* (.+)$", re.MULTILINE)
KIB, MIB = 1024, 1024 * 1024

#: The value of each limit in the code.
LIMITS = {
    "Time to connect": f"{transport.CONNECT_TIMEOUT:g} s",
    "Time to wait for a part of a response": f"{transport.READ_TIMEOUT:g} s",
    "Time for a whole response of any service": f"{transport.WITHOUT_TIMEOUT:g} s",
    "Size of a response of any service, after decompression": (
        f"{transport.LARGEST_RESPONSE // 1024**2} MiB"
    ),
    "Redirects of a read": f"{transport.MAX_REDIRECTS}",
    "Attempts at a read": f"{retry.READS}",
    "Failed reads in a row, each after all its attempts, until a command reads nothing more;"
    " one if a service still answers 429": f"{retry.MOST_FAILURES}",
    "Attempts at a write of a batch": f"{retry.WRITES}",
    "Time from the first to the last attempt at a read or a change": f"{retry.LIMIT:g} s",
    "Pause that ``Retry-After`` can request": f"{retry.MAX_RETRY_AFTER:g} s",
    "Concurrent requests": f"{workers.DEFAULT}",
    "Consumers in one write": f"{allocations.TYPE.bulk_size}",
    "Part of what exists that an audit, a mirror or a migration removes": f"{guards.MAX_PERCENT} %",
    "Time to search for an assignment": f"{assignment.TIMEOUT:g} s",
    "Size of a body": f"{run.MAX_BODY // MIB} MiB",
    "Values in a body": f"{context.MAX_VALUES}",
    "Size of the request line and the headers": f"{run.MAX_HEADERS // KIB} KiB",
    "Time until an idle connection is closed": f"{run.IDLE_SECONDS} s",
    "Connections": f"{run.MAX_CONNECTIONS}",
    "Time of a search for allocation candidates": f"{context.Limits.search_seconds:g} s",
    "Requests at the same time": f"{run.THREADS}",
    "Size of a response with allocation candidates": f"{context.Limits.response_bytes // MIB} MiB",
    "Candidates of a query without ``limit``": f"{context.Limits.candidates}",
    "Characters of a document that an error quotes": f"{validation.MAX_QUOTED}",
}


#: The test of each promise, by the first words of its sentence.
PROMISES = {
    "Every request times out": "test_a_silent_service_ends_a_read_with_the_limit_and_no_retry",
    "A write is repeated only after a read": (
        "test_a_relative_value_is_never_added_to_a_concurrent_one"
    ),
    "The report of a run lists each change": (
        "test_a_transient_fault_changes_neither_report_nor_result"
    ),
    "A change that an earlier run made": (
        "test_a_change_of_any_kind_that_an_earlier_run_made_is_read_again"
    ),
    "While others write, a snapshot": ("test_a_file_has_states_of_the_save_or_names_what_it_lacks"),
    "An interrupted or killed run": "test_a_killed_command_is_continued_and_undone",
    "A closed, full or broken stdout": "test_the_outcome_and_the_undo_file_are_reported",
    "Ctrl-C prints one line": "test_an_interrupt_prints_at_most_one_line",
    "The token and the change": "test_no_service_gets_the_token_of_another_origin",
    "An interim or damaged response": (
        "test_an_interim_response_leaves_the_outcome_of_a_write_unknown"
    ),
    "A damaged or forged plan file": (
        "test_a_forged_plan_is_applied_undone_or_refused_with_one_error"
    ),
    "``undo`` restores what": (
        "test_undo_restores_what_the_plan_has_whatever_a_forged_journal_says"
    ),
    "New files and folders": "test_a_new_database_is_private_and_does_not_follow_a_link",
    "Of the address of a service": "test_no_file_and_no_output_has_the_password_of_the_endpoint",
    "Tables, ``value`` output": "test_tables_and_messages_escape_names",
    "While the server handles a request": "test_a_large_request_delays_no_other_client",
    "A request takes at most 256 MiB": "test_a_large_request_delays_no_other_client",
    "An acknowledged write": "test_kills_lose_no_acknowledged_write",
    "A damaged file is refused": "test_a_damaged_file_is_refused_with_table_and_row",
    "Random input": "test_any_bytes",
    "A database file with any wrong value": "test_any_wrong_value_is_refused_or_served",
}


def test_every_limit_of_the_page_is_that_of_the_code() -> None:
    assert {name: default for name, default, _ in ROWS} == LIMITS


def test_every_option_of_the_page_exists() -> None:
    parsers = [
        plugin.build_option_parser(argparse.ArgumentParser()),
        reshape.Reshape(None, None).get_parser("openstack"),  # type: ignore[arg-type]
        audit.AuditAllocations(None, None).get_parser("openstack"),  # type: ignore[arg-type]
        options.parser(),
    ]
    known = {name for parser in parsers for name in parser._option_string_actions}
    named = {option.strip("`") for _, _, option in ROWS} - {"\\"}
    assert named
    assert named <= known


def test_every_promise_of_the_page_has_a_test() -> None:
    sentences = PROMISE.findall(PAGE.partition("What's next")[0])
    assert len(sentences) == len(PROMISES)
    for sentence, start in zip(sentences, PROMISES, strict=True):
        assert sentence.startswith(start)


def test_the_tests_of_promises_exist() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert {*PROMISES.values()} - defined == set()
