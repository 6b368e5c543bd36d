# SPDX-License-Identifier: Apache-2.0
"""``placement capacity show``, and what it counts on openstack-placement."""

from __future__ import annotations

import json
import random
import uuid
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.search import placing
from osc_placement.workflows.answers.capacity import count
from tests.support.candidates import cloud_builder, comparison
from tests.support.capacity import brute_force
from tests.support.functional_cloud import AGGREGATE, allocate, create
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack

SHOW = "placement capacity show"
REQUEST = ("--resource", "VCPU=2", "--resource", "DISK_GB=10")


@pytest.fixture
def hosts(openstack: OpenStack) -> dict[str, str]:
    """A flat host, a host with NUMA nodes, and one with shared disk."""
    uuids = {
        "flat": create(openstack, "flat", VCPU=8, DISK_GB=45),
        "numa": create(openstack, "numa", DISK_GB=100),
        "diskless": create(openstack, "diskless", VCPU=9),
        "nfs": create(openstack, "nfs", DISK_GB=35),
    }
    for number in range(2):
        create(openstack, f"numa-{number}", parent="numa", VCPU=3)
    openstack("resource provider trait set", "nfs", "--trait", "MISC_SHARES_VIA_AGGREGATE")
    for name in ("diskless", "nfs"):
        openstack("resource provider aggregate add", name, "--aggregate", AGGREGATE)
    allocate(openstack, uuids["flat"], "VCPU=1")
    return uuids


def claim_all(target: targets.Target, query: str) -> int:
    """Claim candidates until there is none; the number of claims."""
    number = 0
    while True:
        found = target.ask("GET", f"/allocation_candidates?{query}&limit=1")
        if not found["allocation_requests"]:
            return number
        allocations = found["allocation_requests"][0]["allocations"]
        put(target, str(uuid.uuid4()), allocations)
        number += 1


def put(target: targets.Target, consumer: str, allocations: Any, version: str = "1.28") -> None:
    target.ask("PUT", f"/allocations/{consumer}", body_of(allocations), version)


def body_of(allocations: Any) -> dict[str, Any]:
    return {
        "allocations": allocations,
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
    }


def allocations_of(option: placing.Option) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (provider, name), amount in option.amounts.items():
        found.setdefault(provider, {"resources": {}})["resources"][name] = amount
    return found


def test_so_many_requests_can_be_claimed_and_no_more(
    openstack: OpenStack, target: targets.Target, hosts: dict[str, str]
) -> None:
    (row,) = openstack(SHOW, *REQUEST)
    assert (row["fits"], row["exact"], row["hosts"]) == (3 + 2 + 3, True, 3)
    assert row["fits"] == claim_all(target, "resources=VCPU:2,DISK_GB:10")
    (after,) = openstack(SHOW, *REQUEST)
    assert (after["fits"], after["hosts"]) == (0, 0)


def test_added_hosts_are_counted_as_if_they_were_there(
    openstack: OpenStack, target: targets.Target, hosts: dict[str, str]
) -> None:
    options = ("--add-hosts", "like=numa:2", "--add-hosts", f"like={hosts['diskless']}:1")
    before, after = openstack(SHOW, *REQUEST, *options)
    assert [(row["state"], row["fits"]) for row in (before, after)] == [
        ("before", 8),
        ("after", 12),
    ]
    for number in range(2):
        name = f"numa of {number}"
        create(openstack, name, DISK_GB=100)
        for child in range(2):
            create(openstack, f"numa-{child} of {number}", parent=name, VCPU=3)
    create(openstack, "another", VCPU=9)
    openstack("resource provider aggregate add", "another", "--aggregate", AGGREGATE)
    (row,) = openstack(SHOW, *REQUEST)
    assert (row["fits"], row["hosts"]) == (after["fits"], after["hosts"])
    assert claim_all(target, "resources=VCPU:2,DISK_GB:10") == after["fits"]


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ("like=nohost:4", 1, "nohost"),
        ("like=nfs:1", 1, "nfs is no host"),
        ("like=flat:0", 2, "0 is less than 1"),
        ("like=flat:-3", 2, "-3 is less than 1"),
        ("like=flat:many", 2, "invalid int value: 'many'"),
        ("like=flat:1000000", 2, "at most 10000 hosts can be added"),
        ("like=flat", 2, "'like=flat' is not like=<host>:<count>"),
        ("like=:4", 2, "is not like=<host>:<count>"),
        ("flat:4", 2, "is not like=<host>:<count>"),
        ("", 2, "is not like=<host>:<count>"),
    ],
)
def test_a_wrong_addition_of_hosts_is_named(
    value: str, code: int, words: str, openstack: OpenStack, hosts: dict[str, str]
) -> None:
    found, stderr = openstack.fails(SHOW, *REQUEST, f"--add-hosts={value}")
    assert (found, words in " ".join(stderr.split())) == (code, True), stderr


def test_each_host_is_counted_alone(openstack: OpenStack, hosts: dict[str, str]) -> None:
    rows = openstack(SHOW, *REQUEST, "--by", "host")
    assert {row["part"]: row["fits"] for row in rows} == {"diskless": 3, "flat": 3, "numa": 2}
    rows = openstack(SHOW, *REQUEST, "--by", "host", "--without", "numa-1")
    assert {row["part"]: row["fits"] for row in rows} == {"diskless": 3, "flat": 3}


def test_the_classes_show_what_remains(openstack: OpenStack, hosts: dict[str, str]) -> None:
    (row,) = openstack(SHOW, "--resource", "VCPU=2")
    assert row["classes"] == [
        {
            "class": "VCPU",
            "requested": 2,
            "capacity": 8 + 6 + 9,
            "used": 1,
            "free": 22,
            "fits": 3 + 2 + 4,
            "left": 4,
            "fragmented": 4,
        }
    ]


def test_the_units_of_inventories_count(openstack: OpenStack) -> None:
    fields = {"max_unit": 2, "step_size": 2, "min_unit": 3}
    for name, value in fields.items():
        host = create(openstack, name)
        amounts = ("--resource", "VCPU=8", "--resource", f"VCPU:{name}={value}")
        openstack("resource provider inventory set", host, *amounts)
    rows = openstack(SHOW, "--resource", "VCPU=3", "--by", "host")
    found = {row["part"]: row["fits"] for row in rows}
    assert found == {"max_unit": 0, "min_unit": 2, "step_size": 0}


@pytest.mark.parametrize("number", range(8))
def test_a_random_cloud_takes_the_counted_requests(
    number: int, real_placement: targets.RealPlacement
) -> None:
    target = real_placement
    target.reset()
    draw = random.Random(f"claims {number}")
    base = brute_force.small_state(draw)
    roots = [each for each, found in base.providers.items() if found.root_uuid == each]
    comparison.seed(base, target)
    request = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
    found = count.Counter(base, request).count(roots)
    chosen = [(allocations_of(option), times) for option, times in found.count.chosen]
    for allocations, times in chosen:
        for _ in range(times):
            put(target, str(uuid.uuid4()), allocations)
    for allocations, _ in chosen:
        path, body = f"/allocations/{uuid.uuid4()}", body_of(allocations)
        one_more = target.request("PUT", path, body, "1.28")
        assert (one_more.status_code, "exceed" in one_more.text) == (409, True), one_more.text
    query = cloud_builder.query_string(request)
    left = target.ask("GET", f"/allocation_candidates?{query}")
    assert left["allocation_requests"] == []


def test_the_tables_fit_80_characters_in_a_large_cloud(openstack: OpenStack) -> None:
    most, name = str(2**31 - 1), "MEM_ENCRYPTION_CONTEXT"
    for host in ("one", "two"):
        create(openstack, host)
        for each in (name, "MEMORY_MB"):
            fields = ("--resource", f"{each}={most}", "--resource", f"{each}:allocation_ratio=16")
            openstack.do("resource provider inventory set", host, "--amend", *fields)
    request = ("--resource", f"{name}=1234567", "--resource", "MEMORY_MB=1048576")
    outcome = openstack.run(SHOW, *request, "--max-width", "80")
    lines = outcome.stdout.splitlines()
    assert (outcome.code, max(map(len, lines)) <= 80) == (0, True), outcome
    (heading,) = (line.split() for line in lines if "requested" in line)
    assert {"class", "requested", "free", "fits", "left"} <= {*heading}
    assert "--max-width" in outcome.messages


def test_a_plan_is_applied_to_a_copy(openstack: OpenStack, hosts: dict[str, str]) -> None:
    amend = ("resource provider inventory amend", "--resource", "VCPU:allocation_ratio=2")
    openstack(*amend, "--name-glob", "flat", "--dry-run", "--plan-out", "plan.json")
    rows = openstack(SHOW, "--resource", "VCPU=2", "--after", "plan.json")
    assert [(row["state"], row["fits"]) for row in rows] == [("before", 9), ("after", 13)]
    assert openstack(SHOW, "--resource", "VCPU=2")[0]["fits"] == 9


def test_hosts_in_reserve_keep_room_for_their_servers(
    openstack: OpenStack, target: targets.Target
) -> None:
    for number in range(3):
        host = create(openstack, f"host{number}", VCPU=8)
        allocate(openstack, host, "VCPU=2")
    (row,) = openstack(SHOW, "--resource", "VCPU=2", "--keep", "1")
    # Two hosts have room for eight servers, and three exist.
    assert (row["fits"], row["with_failures"], row["with_failures_at_most"]) == (9, 5, 5)
    assert json.dumps(row["unsafe_hosts"]) == "[]"
