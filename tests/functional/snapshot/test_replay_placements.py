# SPDX-License-Identifier: Apache-2.0
"""``placement query replay --against`` between two services of openstack-placement.

Each difference is that of a real service: its own policy, and its traits.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.peer import loading, process, target as targets

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

    def shapes(self, code: int) -> dict[str, dict[str, Any]]:
        replay = ("--queries", str(self.log), "--against", self.new.url, "-f", "json")
        outcome = targets.run_at(self.old.url, "placement query replay", *replay)
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
    for row in pair.shapes(0).values():
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
        rows = pair.shapes(3)
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
        for row in pair.shapes(3).values():
            assert len(row["lost"]) == row["queries"]
            assert "allocation_candidates:list" in row["errors"][0]
    finally:
        pair.policy.write_text(empty)
