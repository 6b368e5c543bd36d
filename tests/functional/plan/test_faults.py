# SPDX-License-Identifier: Apache-2.0
"""Every workflow through a proxy that fails requests: reports are true, and nothing is lost.

A run without faults is the reference. After a transient fault a run has the same rows, exit code
and result. After a lasting fault it reports what it changed and what it did not, and the next run
completes it.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from osc_placement.client import retry
from tests.support.peer import chaos, faults, identity, shell, target as targets
from tests.support.reshape import cloud_builder, interrupted

RECORDED = "--os-nova-recording 12-hosts --allow recorded-nova"
#: Those that write consumers and aggregates but heal_allocations, which would be most of the
#: requests: heal is tested alone.
MIGRATIONS = " ".join(
    f"--migration {name}" for name in ("mirror_host_aggregates", "complete_consumers")
)


class Workflow(NamedTuple):
    """A command that changes many things, and its exit code without faults."""

    command: str
    code: int = 0
    #: The exit code of a run with failed changes.
    failed: int = 6
    cloud: str | dict[str, Any] = "12-hosts"


WORKFLOWS = {
    "amend": Workflow("resource provider inventory amend --all --resource MEMORY_MB:reserved=7"),
    "heal": Workflow(f"placement allocation heal {RECORDED}", 6),
    "audit": Workflow(f"placement allocation audit {RECORDED} --repair", 9),
    "mirror": Workflow(f"placement aggregate mirror {RECORDED}", 6),
    "migrations": Workflow(f"placement migration run {RECORDED} {MIGRATIONS}", failed=2),
    "reshape": Workflow(
        "placement reshape moves.yaml --strategy pack",
        cloud=cloud_builder.state(interrupted.PROVIDERS, interrupted.CONSUMERS),
    ),
}

#: The first write, or the first read, at each URL meets the fault.
WRITES = ("conflict", "refuse", "busy", "html", "truncate", "cut before", "cut after", "lose after")
READS = ("refuse", "html", "truncate")
TRANSIENT = {
    "in turn": {"writes": WRITES, "reads": READS},
    **{f"writes {fate}": {"writes": (fate,)} for fate in WRITES},
    **{f"reads {fate}": {"reads": (fate,)} for fate in READS},
}

#: Every write after the first meets the fault; with ``down`` every read too.
LASTING = {
    "busy": faults.After("busy"),
    "html": faults.After("html"),
    "forbidden": faults.After("forbidden"),
    "down": faults.After("cut before", reads=True),
}


class Ended(NamedTuple):
    """The result of a command, and the state of Placement before and after it."""

    code: int
    rows: list[dict[str, Any]]
    stderr: str
    before: dict[str, Any]
    after: dict[str, Any]


class Cloud:
    """The cloud of a workflow behind a proxy, whose faults a test can change."""

    def __init__(self, name: str, service: identity.Identity | None = None) -> None:
        self.name, self.workflow = name, WORKFLOWS[name]
        self.placement = targets.Loopback(7)
        self.placement.load(self.workflow.cloud)
        self.proxy = chaos.Proxy(self.placement.url, faults.Rates(), service)
        url = self.proxy.url
        self._options = service.options(url) if service else targets.admin_options(url)

    def __enter__(self) -> Cloud:
        self.proxy.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__()
        self.placement.stop()

    def run(self, policy: faults.Faults | None = None, command: str = "", *more: str) -> Ended:
        """Run the workflow, or a command, with these faults."""
        self.proxy.policy = policy or faults.Rates()
        before = self.placement.state()
        words = [*self._options, *more, *(command or self.workflow.command).split(), "-f", "json"]
        outcome = shell.run(words)
        assert "Traceback" not in outcome.stderr
        rows = json.loads(outcome.stdout or "[]")
        return Ended(outcome.code, rows, outcome.stderr, before, self.placement.state())


@functools.cache
def reference(name: str) -> Ended:
    """The run without faults."""
    with Cloud(name) as cloud:
        return cloud.run()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Fewer retries without pauses, in a folder of this test."""
    monkeypatch.setattr(retry, "WRITES", 6)
    for name in ("_FIRST", "_LONGEST", "MAX_RETRY_AFTER"):
        monkeypatch.setattr(retry, name, 0.001)
    for name in [name for name in os.environ if name.startswith(("OS_", "OSC_"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    pathlib.Path("moves.yaml").write_text(interrupted.MOVES)


def undo(cloud: Cloud, ended: Ended) -> None:
    """Undo a run with the command that it prints."""
    (command,) = re.findall(r"To undo: openstack (.*)", ended.stderr)
    assert cloud.run(command=command).code == 0


def pairs(faults: Iterable[str | None], for_all: Collection[str]) -> Iterator[Any]:
    """Workflows and faults: ``for_all`` workflows, and the others for one of them."""
    for name in WORKFLOWS:
        for fault in faults:
            is_short = fault in for_all or name == "amend"
            yield pytest.param(name, fault, marks=() if is_short else pytest.mark.long)


def workflows(*chosen: str) -> list[Any]:
    """All workflows; those that are not chosen only with ``--long``."""
    return [
        pytest.param(name, marks=() if name in chosen else pytest.mark.long) for name in WORKFLOWS
    ]


@pytest.mark.parametrize(("name", "fault"), list(pairs(TRANSIENT, ["in turn"])))
def test_a_transient_fault_changes_neither_report_nor_result(name: str, fault: str) -> None:
    expected = reference(name)
    with Cloud(name) as cloud:
        ended = cloud.run(faults.Once(**TRANSIENT[fault]))
        assert sum(cloud.proxy.faults.values()) > cloud.proxy.faults[""]
        assert (ended.code, ended.rows) == (expected.code, expected.rows), ended.stderr
        assert ended.after == expected.after
        # A consumer's type, which a migration sets, cannot be unset.
        if name != "migrations":
            undo(cloud, ended)
            assert cloud.placement.state() == ended.before


@pytest.mark.parametrize(("name", "fault"), list(pairs(LASTING, ["forbidden", "down"])))
def test_a_lasting_fault_is_reported_and_the_printed_command_completes(
    name: str, fault: str
) -> None:
    with Cloud(name) as cloud:
        failed = cloud.run(copy.copy(LASTING[fault]))
        check_failed_run(cloud, failed)
        check_completed(cloud, reference(name), failed)


@pytest.mark.parametrize("name", workflows("amend", "migrations", "reshape"))
def test_an_expired_token_is_replaced_during_the_run(name: str) -> None:
    service, expected = identity.Identity(), reference(name)
    with Cloud(name, service) as cloud:
        ended = cloud.run(faults.Once(writes=["expired"], count=1))
        assert (ended.code, ended.rows) == (expected.code, expected.rows), ended.stderr
        assert ended.after == expected.after
        assert service.tokens.issued >= 2


@pytest.mark.parametrize("name", workflows("amend", "migrations", "reshape"))
def test_a_token_that_cannot_be_replaced_stops_the_run(name: str) -> None:
    service = identity.Identity(locked=True)
    with Cloud(name, service) as cloud:
        failed = cloud.run(faults.After("expired"))
        check_failed_run(cloud, failed)
        service.locked = False
        check_completed(cloud, reference(name), failed)


@pytest.mark.parametrize("name", workflows("amend", "migrations", "reshape"))
def test_a_write_with_a_slow_answer_is_checked_and_counted(name: str) -> None:
    expected = reference(name)
    with Cloud(name) as cloud:
        slow = faults.Once(writes=["slow"], count=1)
        ended = cloud.run(slow, "", "--os-placement-timeout", str(faults.SLOW / 2))
        assert cloud.proxy.faults["slow"] == 1
        assert (ended.code, ended.rows) == (expected.code, expected.rows), ended.stderr
        assert ended.after == expected.after


#: ``{endpoint of the catalog: a part of the error}``
WRONG_ENDPOINTS = {
    "{proxy}/identity/v3": "not Placement",
    "http://127.0.0.1:9": "http://127.0.0.1:9",
    None: "endpoint for placement service",
}


@pytest.mark.parametrize(("name", "endpoint"), list(pairs(WRONG_ENDPOINTS, ["http://127.0.0.1:9"])))
def test_a_wrong_catalog_is_reported_before_any_change(name: str, endpoint: str | None) -> None:
    service = identity.Identity()
    with Cloud(name, service) as cloud:
        service.endpoint = endpoint and endpoint.format(proxy=cloud.proxy.url)
        ended = cloud.run()
        assert (ended.code, ended.rows) == (1, [])
        assert WRONG_ENDPOINTS[endpoint] in ended.stderr
        assert ended.after == ended.before


def check_failed_run(cloud: Cloud, ended: Ended) -> None:
    """Compare a report with Placement: what it calls applied is, what it does not is unchanged."""
    expected = reference(cloud.name)
    assert ended.code == cloud.workflow.failed, ended.stderr
    if cloud.name == "migrations":
        done = sum(row["done"] for row in ended.rows)
        assert done == len(differences(ended.before, ended.after))
        return
    applied = {row["uuid"] for row in ended.rows if row["status"] == "applied"}
    unknown = {row["uuid"] for row in ended.rows if "is unknown" in row["reason"]}
    assert {row["status"] for row in ended.rows} & {"planned", "failed"}
    for uuid in {row["uuid"] for row in ended.rows}:
        before, after, done = (
            subjects(state).get(uuid) for state in (ended.before, ended.after, expected.after)
        )
        if uuid in applied:
            assert after == done
        elif uuid in unknown:
            assert after in (before, done)
        else:
            assert after == before


def check_completed(cloud: Cloud, expected: Ended, failed: Ended) -> None:
    """Continue with the printed command, without faults: the result is that of a single run."""
    (command,) = re.findall(r"To continue: openstack (.*)", failed.stderr)
    again = cloud.run(command=command)
    assert again.code == expected.code, again.stderr
    assert again.after == expected.after


def subjects(state: dict[str, Any]) -> dict[str, Any]:
    """``{uuid: provider or consumer}``"""
    return {**state["providers"], **state["consumers"]}


def differences(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The UUIDs of the providers and consumers that differ."""
    first, other = subjects(before), subjects(after)
    return {uuid for uuid in first.keys() | other.keys() if first.get(uuid) != other.get(uuid)}
