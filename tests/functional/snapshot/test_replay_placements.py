# SPDX-License-Identifier: Apache-2.0
"""``placement query replay --against`` between two services of openstack-placement.

Each difference is that of a real service: its own policy, its traits, and its time. A proxy with a
delay stands for a slow one, because nothing makes Placement slow by a known time.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.peer import chaos, loading, process, shell, target as targets

TRAIT = "HW_CPU_X86_AVX2"
PLAIN, WITH_TRAIT = "resources=VCPU", "required resources=VCPU"
QUERIES = ("resources=VCPU:1", f"resources=VCPU:1&required={TRAIT}")
LINE = '127.0.0.1 "GET /allocation_candidates?{}" status: 200 len: 1 microversion: 1.36'


class Service(targets.OverHttp):
    """openstack-placement on a database of its own."""

    def __init__(self, url: str) -> None:
        super().__init__("placement", url)

    def load(self, cloud: targets.Cloud) -> None:
        loading.load(targets.document_of(cloud), self.ask)


class Pair:
    """The present service and the new one, which has the same content."""

    def __init__(self, old: str, new: str, policy: pathlib.Path, log: pathlib.Path) -> None:
        self.old, self.new = Service(old), Service(new)
        self.policy, self.log = policy, log

    def replayed(self, *arguments: str, log: str = "") -> shell.Outcome:
        replay = "placement query replay", "--queries", log or str(self.log), *arguments
        return targets.run_at(self.old.url, *replay)

    def shapes(self, code: int, *arguments: str) -> dict[str, dict[str, Any]]:
        outcome = self.replayed(*arguments, "-f", "json")
        assert outcome.code == code, outcome
        return {row["shape"]: row for row in json.loads(outcome.stdout)}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    old, new = (tmp_path_factory.mktemp(name) for name in ("old", "new"))
    with process.running(process.PLACEMENT, old) as url:
        Service(url).load("12-hosts")
        shutil.copy(old / "placement.sqlite", new / "placement.sqlite")
        with process.running(process.PLACEMENT, new) as other:
            log = new / "access.log"
            log.write_text("".join(f"{LINE.format(query)}\n" for query in QUERIES))
            yield Pair(url, other, new / "policy.yaml", log)


@pytest.fixture
def pair(started: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Pair:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return started


def test_a_copy_of_the_database_gives_equal_answers(pair: Pair) -> None:
    for row in pair.shapes(0, "--against", pair.new.url).values():
        assert row["lost"] == row["changed"] == row["errors"] == []
        assert row["median"] > 0
        assert row["median_after"] > 0


def test_a_removed_trait_is_lost_and_back_it_is_a_change(pair: Pair) -> None:
    providers = pair.new.ask("GET", f"/resource_providers?required={TRAIT}")
    tail = f"/resource_providers/{providers['resource_providers'][0]['uuid']}/traits"
    before = pair.new.ask("GET", tail)
    kept = [name for name in before["traits"] if name != TRAIT]
    changed = pair.new.ask("PUT", tail, {**before, "traits": kept})
    try:
        rows = pair.shapes(3, "--against", pair.new.url)
        assert (rows[WITH_TRAIT]["lost"], rows[PLAIN]["lost"]) == ([QUERIES[1]], [])
        back = targets.run_at(
            pair.new.url,
            *("placement query replay", "--queries", str(pair.log), "--against", pair.old.url),
        )
        assert (back.code, "changed: 1" in back.stderr) == (3, True), back
    finally:
        pair.new.ask("PUT", tail, {**changed, "traits": before["traits"]})


def test_a_policy_of_the_new_service_is_found(pair: Pair) -> None:
    empty = pair.policy.read_text()
    pair.policy.write_text('"placement:allocation_candidates:list": "!"\n')
    try:
        for row in pair.shapes(3, "--against", pair.new.url).values():
            assert len(row["lost"]) == row["queries"]
            assert "allocation_candidates:list" in row["errors"][0]
    finally:
        pair.policy.write_text(empty)


@pytest.mark.parametrize(("percent", "code"), [("50", 3), ("1000000", 0)])
def test_a_slower_service_is_found(pair: Pair, percent: str, code: int) -> None:
    with chaos.between(pair.new.url, delay=0.5) as proxy:
        rows = pair.shapes(code, "--against", proxy.url, "--slower", percent)
    assert all(row["median_after"] >= 500 for row in rows.values())


def test_the_same_service_and_a_log_of_another_are_refused(
    pair: Pair, tmp_path: pathlib.Path
) -> None:
    outcome = pair.replayed("--against", f"{pair.old.url}/")
    assert (outcome.code, "to the same service twice" in outcome.stderr) == (1, True), outcome
    other = tmp_path / "nova.log"
    other.write_text('127.0.0.1 "GET /v2.1/servers/detail" status: 200\n')
    outcome = pair.replayed("--against", pair.new.url, log=str(other))
    assert (outcome.code, "has no query of allocation candidates" in outcome.stderr) == (1, True)
