# SPDX-License-Identifier: Apache-2.0
"""``placement capacity show``, and what it counts on openstack-placement."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest

from osc_placement import microversion, testing
from osc_placement.search import placing
from osc_placement.workflows.capacity import count
from tests.support.candidates import clouds, comparison, random_queries
from tests.support.peer import fixtures, target as targets
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, checked, hosts as compute_hosts

SHOW = "placement capacity show"
REQUEST = f"{SHOW} --resource VCPU=2 --resource DISK_GB=10"
LIKE = "--add-hosts like=numa:2 --add-hosts like=diskless:1"
AMEND = "resource provider inventory amend --resource VCPU:allocation_ratio=2 --name-glob flat"
LONG = "MEM_ENCRYPTION_CONTEXT"
LARGE: dict[str, Any] = {
    name: {"total": 2**31 - 1, "allocation_ratio": 16} for name in (LONG, "MEMORY_MB")
}


def hosts() -> testing.Cloud:
    """A flat host, a host with NUMA nodes, and one with shared disk."""
    cloud = testing.Cloud().host("flat", VCPU=8, DISK_GB=45).host("numa", DISK_GB=100)
    for number in range(2):
        cloud.child("numa", f"numa-{number}", VCPU=3)
    cloud.host("diskless", VCPU=9, aggregates=["shared"])
    shares = ["MISC_SHARES_VIA_AGGREGATE"]
    cloud.host("nfs", DISK_GB=35, aggregates=["shared"], traits=shares)
    return cloud.server("one", {"flat": {"VCPU": 1}})


def lopsided() -> State:
    """Three hosts of 8 VCPU in service, one that is disabled, and one of another kind."""
    cloud = compute_hosts("h0", "h1", "h2", "off", off={"status": "disabled"})
    cloud.host("metal", CUSTOM_BM=1).aggregate("rack", ["h0", "h1"], availability_zone="az1")
    for name, host, amount in (("s0", "h0", 4), ("s1", "h0", 2), ("s2", "h1", 2), ("s3", "off", 8)):
        cloud.server(name, {host: {"VCPU": amount}})
    return State(cloud)


def tenants() -> State:
    """Two full hosts, one of them for a project only, and a flavor."""
    cloud = compute_hosts("own", "any").flavor("small", vcpus=2, ram=8)
    cloud.aggregate("tenant", ["own"], filter_tenant_id="acme")
    cloud.guest("s0", "own", 8, ram=8).guest("s1", "any", 8, ram=8)
    conf = "[filter_scheduler]\nenabled_filters = ComputeFilter, AggregateMultiTenancyIsolation\n"
    return State(cloud, files={"nova.conf": conf})


def three(amount: int) -> State:
    """Three hosts of 8 VCPU, each with one server."""
    cloud = testing.Cloud()
    for number in range(3):
        cloud.host(f"h{number}", VCPU=8).server(f"s{number}", {f"h{number}": {"VCPU": amount}})
    return State(cloud)


#: ``cloud`` of "lopsided": 6, 2 and 0 of 8 are used.
SPREAD: dict[str, Any] = {
    "kind": "cloud", "part": None, "class": "VCPU", "hosts": 3, "highest": 75, "lowest": 0,
    "highest_host": "nova-h0", "lowest_host": "nova-h2", "mean": 33.33, "spread": 75,
}  # fmt: skip
STATES = {
    "hosts": State(hosts()),
    "planned": State(hosts(), before=[f"{AMEND} --dry-run --plan-out plan.json"]),
    "units": State(
        testing.Cloud()
        .host("max_unit", VCPU={"total": 8, "max_unit": 2})
        .host("min_unit", VCPU={"total": 8, "min_unit": 3})
        .host("step_size", VCPU={"total": 8, "step_size": 2})
    ),
    "large": State(testing.Cloud().host("one", **LARGE).host("two", **LARGE)),
    "full servers": three(8),
    "lopsided": lopsided(),
    "tenants": tenants(),
    "three servers": three(2),
}
VCPU = {"class": "VCPU", "requested": 2, "capacity": 8 + 6 + 9, "used": 1, "free": 22,
        "fits": 3 + 2 + 4, "left": 4, "fragmented": 4}  # fmt: skip

# fmt: off
TABLE = [
    Row(f"{REQUEST} --by host", "hosts", 0,
        [{"part": "diskless", "fits": 3}, {"part": "flat", "fits": 3},
         {"part": "numa", "fits": 2}]),
    Row(f"{REQUEST} --by host --without numa-1", "hosts", 0,
        [{"part": "diskless", "fits": 3}, {"part": "flat", "fits": 3}]),
    Row(f"{SHOW} --resource VCPU=2 --by aggregate", "lopsided", 0,
        [{"part": "rack", "fits": 4}, {"part": "(none)", "fits": 4}]),
    Row(f"{SHOW} --resource VCPU=2", "hosts", 0, [{"classes": [VCPU]}]),
    Row(f"{REQUEST} {LIKE}", "hosts", 0,
        [{"state": "before", "fits": 8}, {"state": "after", "fits": 12, "hosts": 6}]),
    # Those in the aggregate of another project take none.
    Row(f"{SHOW} --flavor small --project p --nova-conf nova.conf --add-hosts like=own:2"
        " --add-hosts like=any:1", "tenants", 0,
        [{"fits": 0}, {"fits": 4, "hosts": 1, "not_counted": [{}, {}]}]),
    Row(f"{SHOW} --resource VCPU=2 --keep 1 --add-hosts like=any:2", "tenants", 0,
        [{"with_failures": 0, "unsafe_hosts": ["own"]},
         {"with_failures": 4, "unsafe_hosts": []}]),
    Row(f"{SHOW} --resource VCPU=3 --by host", "units", 0,
        [{"part": "max_unit", "fits": 0}, {"part": "min_unit", "fits": 2},
         {"part": "step_size", "fits": 0}]),
    Row(f"{SHOW} --spread", "lopsided", 0, [
        SPREAD | {"at_least": None}, {"kind": "zone", "part": "az1", "spread": 50, "at_least": 1},
        {"kind": "aggregate", "part": "rack", "highest_host": "nova-h0", "at_least": 1}],
        ("Not counted: metal (nova lists no compute node)", "off (nova-compute disabled)")),
    # One of 4 VCPU, or two of 2, must leave and come.
    Row(f"{SHOW} --spread 25%", "lopsided", 0, [SPREAD | {"at_least": 1}, {}, {}]),
    Row(f"{SHOW} --spread 80", "lopsided", 0, [SPREAD | {"at_least": 0}, {}, {}]),
    Row(f"{SHOW} --spread --no-nova", "lopsided", 0, [{"hosts": 4, "highest_host": "off"}]),
    # A plan is applied to a copy.
    Row(f"{SHOW} --resource VCPU=2 --after plan.json", "planned", 0,
        [{"state": "before", "fits": 9}, {"state": "after", "fits": 13}]),
    Row(f"{SHOW} --resource VCPU=2", "planned", 0, [{"fits": 9}]),
    # Two hosts have room for eight servers, and three exist.
    Row(f"{SHOW} --resource VCPU=2 --keep 1", "three servers", 0,
        [{"fits": 9, "with_failures": 5, "with_failures_at_most": 5, "unsafe_hosts": []}]),
    Row(f"{SHOW} --resource VCPU=2 --keep 1", "full servers", 0,
        [{"fits": 0, "with_failures": 0, "unsafe_hosts": ["h0"]}],
        "While any 1 host may fail, 0 VCPU:2 fit: the servers of h0 find no room on the other"),
]
WRONG = [
    Row(f"{REQUEST} --add-hosts={value}", "hosts", code, words)
    for value, code, words in (
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
    )
]
WRONG += [
    Row(f"{SHOW} --spread {words}", "lopsided", 2, text)
    for words, text in (
        ("--by zone", "argument --spread: not allowed with --by"),
        ("--flavor f", "argument --spread: not allowed with --flavor"),
        ("--project p", "argument --project: needs --flavor"),
        ("--nova-release 27", "argument --nova-release: needs --flavor"),
        ("--resource VCPU=1", "argument --spread: not allowed with options of a query"),
        ("--query resources=VCPU:1", "argument --spread: not allowed with options of a query"),
        ("much", "'much' is not a percentage"),
    )
]
# fmt: on


def test_the_last_sentence_is_the_answer_of_keep(openstack: OpenStack) -> None:
    state = STATES["three servers"]
    state.arrange(openstack)
    outcome = state.run(openstack, f"{SHOW} --resource VCPU=2 --keep 1")
    assert outcome.messages.splitlines()[-1] == "While any 1 host may fail, 5 VCPU:2 fit"
    # Of parts of the cloud the table has the numbers.
    by_part = state.run(openstack, f"{SHOW} --resource VCPU=2 --keep 1 --by aggregate")
    assert "may fail" not in by_part.messages


test_capacity_show = checked(TABLE, STATES)

test_a_wrong_option_is_named = fixtures.ON_ONE_TARGET(checked(WRONG, STATES))


def claim_all(target: targets.Target, query: str) -> int:
    """Claim candidates until there is none; the number of claims."""
    number = 0
    while True:
        answer = target.ask("GET", f"/allocation_candidates?{query}&limit=1")
        if not answer["allocation_requests"]:
            return number
        allocations = answer["allocation_requests"][0]["allocations"]
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
    allocations: dict[str, Any] = {}
    for (provider, name), amount in option.amounts.items():
        allocations.setdefault(provider, {"resources": {}})["resources"][name] = amount
    return allocations


def test_so_many_requests_can_be_claimed_and_no_more(
    openstack: OpenStack, target: targets.Target
) -> None:
    STATES["hosts"].arrange(openstack)
    (row,) = openstack(REQUEST)
    assert (row["fits"], row["exact"]) == (8, True)
    assert claim_all(target, "resources=VCPU:2,DISK_GB:10") == 8
    (after,) = openstack(REQUEST)
    assert (after["fits"], after["hosts"]) == (0, 0)


@pytest.mark.parametrize("number", range(8))
def test_a_random_cloud_takes_the_counted_requests(
    number: int, real_placement: targets.RealPlacement
) -> None:
    target = real_placement
    target.reset()
    draw = random.Random(f"claims {number}")
    base = clouds.draw_state(draw, small=True)
    roots = [each for each, found in base.providers.items() if found.root_uuid == each]
    comparison.seed(base, target)
    request = random_queries.draw_query(draw, base, microversion.MAXIMUM)
    found = count.Counter(base, ((request,),)).count(roots)
    chosen = [(allocations_of(option), times) for option, times in found.count.chosen]
    for allocations, times in chosen:
        for _ in range(times):
            put(target, str(uuid.uuid4()), allocations)
    for allocations, _ in chosen:
        path, body = f"/allocations/{uuid.uuid4()}", body_of(allocations)
        one_more = target.request("PUT", path, body, "1.28")
        assert (one_more.status_code, "exceed" in one_more.text) == (409, True), one_more.text
    query = random_queries.query_string(request)
    left = target.ask("GET", f"/allocation_candidates?{query}")
    assert left["allocation_requests"] == []


@fixtures.ON_ONE_TARGET
def test_the_tables_fit_80_characters_in_a_large_cloud(openstack: OpenStack) -> None:
    STATES["large"].arrange(openstack)
    line = f"{SHOW} --resource {LONG}=1234567 --resource MEMORY_MB=1048576 --max-width 80"
    outcome = openstack.run(line)
    lines = outcome.stdout.splitlines()
    assert (outcome.code, max(map(len, lines)) <= 80) == (0, True), outcome
    (heading,) = (line.split() for line in lines if "requested" in line)
    assert {"class", "requested", "free", "fits", "left"} <= {*heading}
    assert "--max-width" in outcome.messages
