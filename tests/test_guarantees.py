# SPDX-License-Identifier: Apache-2.0
"""The page "Guarantees": its limits are those of the code, and its options and tests exist."""

from __future__ import annotations

import argparse
import ast
import pathlib
import re

import pytest

from osc_placement import plugin
from osc_placement.client import retry, transport
from osc_placement.model import yaml_lines
from osc_placement.plan import guards, workers
from osc_placement.plan.kinds import allocations
from osc_placement.server import context, options, run, validation
from osc_placement.v1 import audit, reshape
from osc_placement.workflows.reshape import consumers

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "doc" / "source" / "user" / "reference" / "guarantees.rst").read_text("utf-8")
ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     - (.+)\n     - ``(.+)``$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
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
    "Attempts at a write of a batch": f"{retry.WRITES}",
    "Time from the first to the last attempt at a read or a change": f"{retry.LIMIT:g} s",
    "Pause that ``Retry-After`` can request": f"{retry.MAX_RETRY_AFTER:g} s",
    "Concurrent requests": f"{workers.DEFAULT}",
    "Consumers in one write": f"{allocations.TYPE.bulk_size}",
    "Part of what exists that an audit, a mirror or a migration removes": f"{guards.MAX_PERCENT} %",
    "Nodes that aliases add to a YAML document": f"{yaml_lines.MAX_ADDED}",
    "Time to search for an assignment": f"{consumers.TIMEOUT:g} s",
    "Size of a body": f"{run.MAX_BODY // MIB} MiB",
    "Values in a body": f"{context.MAX_VALUES}",
    "Size of the request line and the headers": f"{run.MAX_HEADERS // KIB} KiB",
    "Time until an idle connection is closed": f"{run.IDLE_SECONDS} s",
    "Connections": f"{run.MAX_CONNECTIONS}",
    "Unread responses of a client": f"{run.MAX_UNREAD // MIB} MiB",
    "Time of a search for allocation candidates": f"{context.Limits.search_seconds:g} s",
    "Searches at the same time; further ones that wait": (
        f"{context.Limits.searches}; {context.Limits.waiting}"
    ),
    "Time that a search waits for its turn": f"{context.Limits.wait_seconds:g} s",
    "Size of a response with allocation candidates": f"{context.Limits.response_bytes // MIB} MiB",
    "Candidates of a query without ``limit``": f"{context.Limits.candidates}",
    "Characters of a document that an error quotes": f"{validation.MAX_QUOTED}",
    "Time for requests in progress when the server stops": f"{run.DRAIN_SECONDS:g} s",
}


def test_every_limit_of_the_page_is_that_of_the_code() -> None:
    assert {name: default for name, default, _, _ in ROWS} == LIMITS


def test_every_option_of_the_page_exists() -> None:
    parsers = [
        plugin.build_option_parser(argparse.ArgumentParser()),
        reshape.Reshape(None, None).get_parser("openstack"),  # type: ignore[arg-type]
        audit.AuditAllocations(None, None).get_parser("openstack"),  # type: ignore[arg-type]
        options.parser(),
    ]
    known = {name for parser in parsers for name in parser._option_string_actions}
    named = {option.strip("`") for _, _, option, _ in ROWS} - {"\\"}
    assert named
    assert named <= known


@pytest.mark.parametrize("test", sorted(set(re.findall(r"tests/\S+::\w+", PAGE))))
def test_every_test_of_the_page_exists(test: str) -> None:
    path, name = test.split("::")
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    assert name in {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
