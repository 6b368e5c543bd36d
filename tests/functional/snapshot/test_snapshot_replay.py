# SPDX-License-Identifier: Apache-2.0
"""Logged queries on snapshots, against the reference server and openstack-placement."""

from __future__ import annotations

import json
import pathlib

import pytest

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


def rows(outcome: shell.Outcome) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(outcome.stdout)
    return listed


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
    # One of eleven hosts.
    assert all((row["lost"], row["lost_percent"]) == ([HOST], 9.1) for row in rows(outcome))
    assert openstack.run("placement snapshot diff", CLOUD, "live").code == 0

    few = openstack.run(*replay, "--after", "plan.json", "--percent", "50", "-f", "json")
    assert (few.code, rows(few)) == (0, [])
    everything = openstack.run(*replay, "--after", "plan.json", "--all", "-f", "json")
    assert len(rows(everything)) == len(QUERIES)


def test_an_answer_after_a_plan_that_was_applied_in_part_is_unknown(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    amend = f"resource provider inventory amend {HOST} --resource"
    openstack.run(f"{amend} VCPU:reserved+=1", "--dry-run", "--plan-out", "plan.json")
    openstack.do(f"{amend} VCPU:reserved+=1")
    openstack("placement snapshot save", "later.sqlite")
    nova = ("--os-placement-database", "later.sqlite", "--os-nova-recording", "12-hosts")
    for command, options in (
        ("placement query replay later.sqlite --queries queries.txt --after plan.json", ()),
        ("placement capacity show --resource VCPU=1 --no-nova --after plan.json", nova),
        ("placement flavor audit m1.small --after plan.json", nova),
        ("placement plan show plan.json --impact --fail-on flavor-lost", nova),
    ):
        outcome = openstack.run("", *options, *command.split())
        assert "ot applied" in outcome.stderr, outcome
        assert outcome.code == 4, outcome


def test_two_snapshots_are_compared(openstack: shell.OpenStack, sample: targets.Target) -> None:
    vgpu = "resource provider inventory amend --all --resource VGPU:reserved=8"
    openstack.do(vgpu, "--allow", "over-capacity")
    openstack("placement snapshot save", "later.sqlite")
    replay = ("placement query replay", CLOUD, "later.sqlite", "--queries")
    outcome = openstack.run(*replay, "queries.txt", "-f", "json")
    (row,) = rows(outcome)
    assert outcome.code == 3
    assert (row["query"], row["after"], row["lost_percent"]) == ("resources=VGPU:1", 0, 100.0)
    counts = f"Distinct queries: {len(QUERIES)}. Lost all candidates: 1. Lost more than 0 %: 0."
    assert f"{counts} Lines without a query: 0" in outcome.stderr
    pathlib.Path("refused.txt").write_text("resources=CUSTOM_UNKNOWN:1\n")
    refused = openstack.run(*replay, "refused.txt")
    assert (refused.code, "Refused before, and not compared: 1" in refused.stderr) == (4, True)


def test_a_replay_needs_two_states(openstack: shell.OpenStack, sample: targets.Target) -> None:
    outcome = openstack.run("placement query replay", CLOUD, "--queries", "queries.txt")
    assert outcome.code == 2
    assert "give two snapshots, or one snapshot and --after" in outcome.stderr
    same = openstack.run("placement query replay", CLOUD, CLOUD, "--queries", "queries.txt")
    assert (same.code, "are one file" in same.stderr) == (2, True)
