# SPDX-License-Identifier: Apache-2.0
"""``placement aggregate mirror`` on every target; the unit tests have a case of each decision."""

from __future__ import annotations

import pytest

from osc_placement import testing
from osc_placement.testing import uuid_of
from tests.support.peer import fixtures, shell
from tests.support.rows import Row, State, checked, one_line

MIRROR = "placement aggregate mirror"
RUN = f"{MIRROR} --allow recorded-nova"
UNDO = "placement plan undo undo.json --allow recorded-nova"

#: In Placement, ``one`` is in az2 in place of az1, ``two`` is in an aggregate that nova has deleted
#: too, and ``share`` is in az1. ``bare`` has no provider, and ``ghost`` no compute node.
DRIFTED = testing.Cloud("nova-{}").compute("one", VCPU=8, aggregates=["az2"])
DRIFTED.compute("two", VCPU=8, aggregates=["az1", "old"]).node("bare")
DRIFTED.host("share", DISK_GB=8, aggregates=["az1"])
DRIFTED.aggregate("az1", ["one", "two"]).aggregate("az2", ["bare", "ghost"]).aggregate("empty", [])
AZ1, AZ2, OLD = map(uuid_of, ("az1", "az2", "old"))
STATES = {
    "drifted": State(DRIFTED),
    "mirrored": State(DRIFTED, before=[RUN]),
    "pruned": State(DRIFTED, before=[f"{RUN} --prune --provider share --undo-out undo.json"]),
    "planned": State(DRIFTED, before=[f"{MIRROR} --dry-run --plan-out plan.json"]),
    "with ratios": State(
        testing.Cloud("nova-{}")
        .compute("one", "two", VCPU=8)
        .aggregate("az1", ["one", "two"], cpu_allocation_ratio="8")
        .aggregate("ssd", ["two"], cpu_allocation_ratio="4.5")
        .aggregate("pool", ["one"], ram_allocation_ratio="much")
    ),
    "without nova": State(testing.Cloud().host("one", VCPU=8)),
}
NOT_MIRRORED = [
    {"name": "bare", "status": "refused", "code": "no-provider"},
    {"name": "empty", "status": "skipped", "code": "empty-aggregate"},
    {"name": "ghost", "status": "refused", "code": "unknown-host"},
]
STALE = {"name": "one", "status": "skipped", "code": "stale-member"}
SHARE = {"name": "share", "status": "skipped", "code": "not-a-compute-node"}
TWO = {"name": "two", "status": "unchanged", "reason": "in az1"}


def moved(status: str, reason: str = "to az1") -> dict[str, str]:
    return {"name": "one", "status": status, "reason": reason}


def members(uuid: str) -> str:
    return f"resource provider list --member-of {uuid} -f value -c name"


TABLE = [
    Row(f"{MIRROR} --dry-run --detailed-exitcode", "drifted", 6,
        [*NOT_MIRRORED, moved("planned"), STALE, SHARE, TWO], unchanged=True),
    Row(RUN, "drifted", 6, [*NOT_MIRRORED, moved("applied"), STALE, SHARE, TWO]),
    Row(members(AZ1), "mirrored", 0, {"one", "two", "share"}),
    Row(members(AZ2), "mirrored", 0, {"one"}),
    # Without --prune, a member too many is drift.
    Row(f"{MIRROR} --dry-run --detailed-exitcode --host nova-one", "mirrored", 3, [STALE]),
    Row(f"{MIRROR} --dry-run --detailed-exitcode --host-aggregate az1 --host nova-two", "drifted",
        0, [TWO]),
    Row(f"{MIRROR} --dry-run --prune", "drifted", 0,
        [*NOT_MIRRORED, moved("planned", "to az1; out of az2"), SHARE, TWO]),
    Row(members(AZ1), "pruned", 0, {"one", "two"}),
    Row(members(AZ2), "pruned", 0, set()),
    Row(f"{UNDO}\n{members(AZ1)}", "pruned", 0, {"two", "share"}),
    Row(f"{RUN} --forget {OLD} --host nova-two", "drifted", 0,
        [{"name": "two", "status": "applied", "reason": f"out of {OLD}"}]),
    Row("placement plan show plan.json", "planned", 0, (),
        (MIRROR, "nova's responses come from nova.json")),
    Row(f"{RUN} --ratios", "with ratios", 6,
        [{"name": "one", "status": "applied", "after": {"VCPU:allocation_ratio": 8.0}},
         {"name": "pool", "status": "refused", "code": "invalid-value"},
         {"name": "two", "status": "applied", "after": {"VCPU:allocation_ratio": 4.5}}]),
    Row(f"{MIRROR} --ratios --dry-run --host-aggregate ssd", "with ratios", 0,
        [{"name": "two", "status": "planned", "reason": ("VCPU from ssd; VCPU capacity 8 -> 36",)}],
        unchanged=True),
    Row(MIRROR, "without nova", 1, "nova"),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


@pytest.mark.parametrize(
    ("options", "planned", "now", "why"),
    [
        ("", ("one",), (), "nova does not have one in the host aggregate ssd any more"),
        ("--prune --allow many", (), ("one",), "nova has one in the host aggregate ssd now"),
        ("--ratios", ("one",), (), "cpu_allocation_ratio is none, it was 2.0"),
    ],
)
@fixtures.ON_ONE_TARGET
def test_a_stored_plan_is_not_made_where_nova_has_changed_the_host_aggregate(
    openstack: shell.OpenStack,
    options: str,
    planned: tuple[str, ...],
    now: tuple[str, ...],
    why: str,
) -> None:
    member = [] if planned else ["ssd"]

    def cloud(hosts: tuple[str, ...]) -> State:
        built = testing.Cloud().compute("one", VCPU=8, aggregates=member)
        return State(built.aggregate("ssd", hosts, cpu_allocation_ratio="2.0"))

    cloud(planned).arrange(openstack)
    save = f"{MIRROR} {options} --allow recorded-nova --dry-run --plan-out plan.json"
    assert cloud(planned).run(openstack, save).code == 0
    before = openstack.target.state()
    apply = "placement plan apply plan.json --allow recorded-nova"
    outcome = cloud(now).run(openstack, apply)
    assert outcome.code == 7, outcome
    assert why in one_line(outcome.stdout), outcome
    assert openstack.target.state() == before
    assert cloud(planned).run(openstack, apply).code == 0
    assert openstack.target.state() != before


@fixtures.ON_ONE_TARGET
def test_a_stored_plan_removes_no_provider_of_which_nova_has_a_node_now(
    openstack: shell.OpenStack,
) -> None:
    def cloud(*, is_node: bool) -> State:
        built = testing.Cloud().compute("one", VCPU=8).host("two", VCPU=8, aggregates=["ssd"])
        return State((built.node("two") if is_node else built).aggregate("ssd", ["one"]))

    cloud(is_node=False).arrange(openstack)
    options = "--prune --provider two --allow many --allow recorded-nova --dry-run"
    save = f"{MIRROR} {options} --plan-out plan.json"
    assert cloud(is_node=False).run(openstack, save).code == 0
    apply = "placement plan apply plan.json --allow recorded-nova"
    outcome = cloud(is_node=True).run(openstack, apply)
    assert outcome.code == 7, outcome
    assert "nova has a compute node of it now" in one_line(outcome.stdout), outcome
