# SPDX-License-Identifier: Apache-2.0
"""Recorded queries on snapshots, against the embedded server and openstack-placement."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator

import pytest
import requests

from osc_placement.workflows.snapshot import proxy
from tests.support.peer import shell, target as targets

CLOUD = "cloud.sqlite"
ON_FILE = ["--os-placement-database", CLOUD]
HOST = "cmp-0001.lab.example.org"
TRAIT = "HW_CPU_X86_AVX2"

#: ``{query: whether it needs the trait}``
QUERIES = {
    "resources=VCPU:1": False,
    f"resources=VCPU:1&required={TRAIT}": True,
    f"resources=MEMORY_MB:512&required={TRAIT}&limit=5": True,
    f"resources=VCPU:1&required=!{TRAIT}": False,
    "resources=VGPU:1": False,
    "resources=DISK_GB:1&limit=2": False,
}

#: A proxy needs a Placement on a port.
SERVED = pytest.mark.parametrize("target", ["loopback", "placement"], indirect=True)


def rows(outcome: shell.Outcome) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(outcome.stdout)
    return found


@pytest.fixture
def sample(target: targets.Target, openstack: shell.OpenStack) -> targets.Target:
    """The sample cloud, saved in CLOUD, and the queries in a file."""
    target.load("12-hosts")
    openstack("placement snapshot save", CLOUD)
    pathlib.Path("queries.txt").write_text("\n".join(QUERIES) + "\n")
    return target


def test_a_plan_that_removes_a_trait_affects_exactly_the_queries_for_it(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    remove = f"resource provider trait remove --trait {TRAIT} {HOST} --allow standard-traits"
    openstack.run(remove, "--dry-run", "--plan-out", "plan.json")
    replay = ("placement query replay", CLOUD, "--queries", "queries.txt")
    outcome = openstack.run(*replay, "--after", "plan.json", "-f", "json")
    assert outcome.code == 3, outcome.stderr
    assert {row["query"] for row in rows(outcome)} == {
        text for text, needs_trait in QUERIES.items() if needs_trait
    }
    assert all(row["lost"] == [HOST] for row in rows(outcome))
    assert openstack.run("placement snapshot diff", CLOUD, "live").code == 0

    few = openstack.run(*replay, "--after", "plan.json", "--percent", "50", "-f", "json")
    assert (few.code, rows(few)) == (0, [])
    everything = openstack.run(*replay, "--after", "plan.json", "--all", "-f", "json")
    assert len(rows(everything)) == len(QUERIES)


def test_two_snapshots_are_compared(openstack: shell.OpenStack, sample: targets.Target) -> None:
    vgpu = "resource provider inventory amend --all --resource VGPU:reserved=8"
    openstack.do(vgpu, "--allow", "over-capacity")
    openstack("placement snapshot save", "later.sqlite")
    outcome = openstack.run(
        *("placement query replay", CLOUD, "later.sqlite", "--queries", "queries.txt"),
        *("-f", "json"),
    )
    (row,) = rows(outcome)
    assert outcome.code == 3
    assert (row["query"], row["after"], row["lost_percent"]) == ("resources=VGPU:1", 0, 100.0)
    assert "Lost all candidates: 1." in outcome.stderr


def test_queries_without_answers_need_a_second_state(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    outcome = openstack.run("placement query replay", CLOUD, "--queries", "queries.txt")
    assert outcome.code == 2
    assert "has no recorded answers" in outcome.stderr
    same = openstack.run("placement query replay", CLOUD, CLOUD, "--queries", "queries.txt")
    assert (same.code, "are one file" in same.stderr) == (2, True)


@pytest.fixture
def recording(sample: targets.OverHttp, tmp_path: pathlib.Path) -> Iterator[proxy.Proxy]:
    """A proxy in front of the sample cloud, which records to recording.jsonl."""
    running = proxy.Proxy(targets.client_at(sample.url, "bob"), tmp_path / "recording.jsonl", 0)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    yield running
    running.stop()
    thread.join(10)


@SERVED
def test_recorded_queries_get_their_recorded_answers_from_the_snapshot(
    openstack: shell.OpenStack, target: targets.Target, recording: proxy.Proxy
) -> None:
    session = requests.Session()
    session.trust_env = False
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement 1.36"}
    for text in QUERIES:
        path = f"/allocation_candidates?{text}"
        answer = session.get(recording.url + path, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["openstack-api-version"] == "placement 1.36"
    assert recording.recorded == len(QUERIES)

    replay = ("placement query replay", CLOUD, "--queries", "recording.jsonl", "--all")
    outcome = openstack.run(*replay, "-f", "json")
    assert outcome.code == 0, outcome.stderr
    found = {row["query"]: row for row in rows(outcome)}
    assert found.keys() == QUERIES.keys()
    for text, row in found.items():
        assert row["lost_percent"] == 0.0
        assert row["microversion"] == "1.36"
        if "limit" in text:
            assert (row["gained"], row["before"] < row["after"]) == (None, True)
        else:
            assert (row["gained"], row["before"]) == (0, row["after"])


@SERVED
def test_the_proxy_sends_no_credentials_of_its_own(
    openstack: shell.OpenStack, target: targets.Target, recording: proxy.Proxy
) -> None:
    session = requests.Session()
    session.trust_env = False
    assert session.get(f"{recording.url}/resource_providers").status_code == 401
    created = session.put(
        f"{recording.url}/traits/CUSTOM_NEW",
        headers={"x-auth-token": "admin", "openstack-api-version": "placement 1.36"},
    )
    assert created.status_code == 201
    assert "CUSTOM_NEW" in target.ask("GET", "/traits")["traits"]


@SERVED
def test_a_port_in_use_is_refused(openstack: shell.OpenStack, recording: proxy.Proxy) -> None:
    port = recording.url.rpartition(":")[2]
    outcome = openstack.run("placement query record", port, "--queries", "other.jsonl")
    assert outcome.code == 1
    assert f"port {port} of 127.0.0.1 cannot be used" in outcome.stderr
