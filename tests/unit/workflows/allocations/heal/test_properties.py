# SPDX-License-Identifier: Apache-2.0
"""Invariants of every plan of heal, on generated clouds."""

from __future__ import annotations

import dataclasses

from hypothesis import given, strategies as st

from osc_placement import errors
from osc_placement.client import responses
from osc_placement.nova import values
from osc_placement.plan import plan
from osc_placement.workflows.allocations import expected, heal
from osc_placement.workflows.allocations.heal_request import HealRequest
from osc_placement.workflows.allocations.snapshot import CloudSnapshot, Owner
from tests.support import plans
from tests.support.clouds.small import SMALL, USES, cloud, move, server

STATES = st.sampled_from(
    [
        {},
        {"task_state": "migrating"},
        {"vm_state": "shelved_offloaded", "host": None, "node": None},
        {"vm_state": "error"},
        {"known": False},
        {"image_properties": None},
        {"image_properties": {"hw_cpu_policy": "dedicated"}},
    ]
)
HELD = st.sampled_from([None, {"n-a.": USES}, {"n-c.": {"VCPU": 1}}, {"n-a.": USES, "n-b.": USES}])


@st.composite
def clouds(draw: st.DrawFn) -> CloudSnapshot:
    servers: list[values.Server] = []
    held = {}
    for number in range(draw(st.integers(0, 12))):
        uuid = f"s{number}"
        size = dataclasses.replace(SMALL, vcpus=draw(st.integers(1, 9)))
        state = draw(STATES)
        fields = {"flavor": size, "created": f"20{draw(st.integers(10, 25))}", **state}
        one = server(draw(st.sampled_from("abcz")), uuid)
        servers.append(dataclasses.replace(one, **fields))  # type: ignore[arg-type]
        allocations = draw(HELD)
        if allocations:
            held[uuid] = allocations
    moves = [move("migration", "queued", of="s0")] if draw(st.booleans()) else []
    return cloud(servers, moves, held)


def planned(snapshot: CloudSnapshot) -> plan.Plan:
    """Placement allocations no candidates."""
    candidates: dict[str, responses.Candidates | errors.PlacementError] = {}
    for one in snapshot.servers.values():
        query = expected.query_of(snapshot, one, f"n-{one.host}.")
        if query is not None:
            candidates[query[0]] = responses.Candidates((), {})
    return heal.plan_heal(dataclasses.replace(snapshot, candidates=candidates), HealRequest())


def after(snapshot: CloudSnapshot, first: plan.Plan) -> CloudSnapshot:
    """The snapshot after the plan is applied."""
    held = {uuid: dict(found) for uuid, found in snapshot.allocations.items()}
    owners = dict(snapshot.owners)
    for item in first.changes:
        found: dict[str, dict[str, int]] = {}
        for key, value in plans.after(item).items():
            if isinstance(value, int):
                provider, _, name = key.rpartition(":")
                found.setdefault(provider, {})[name] = value
        held[item.subject.uuid] = found
        owners[item.subject.uuid] = Owner("p", "u", "INSTANCE")
    return dataclasses.replace(snapshot, allocations=held, owners=owners)


@given(clouds())
def test_a_plan_lists_every_server_once_with_a_reason_and_exceeds_no_capacity(
    snapshot: CloudSnapshot,
) -> None:
    first = planned(snapshot)
    assert sorted(item.subject.uuid for item in first.items()) == sorted(snapshot.servers)
    assert all(item.unchanged or item.reason for item in first.skipped)
    for item in first.changes:
        kept = {key: value for key, value in plans.before(item).items() if isinstance(value, int)}
        assert kept.items() <= plans.after(item).items()
    done = after(snapshot, first)
    before = snapshot.used
    for uuid, resources in done.used.items():
        for name, used in resources.items():
            capacity = snapshot.inventories[uuid][name].capacity
            assert used <= max(capacity, before.get(uuid, {}).get(name, 0))
    again = planned(done)
    assert again.changes == ()
    right = {item.subject.uuid for item in again.skipped if item.unchanged}
    assert {item.subject.uuid for item in first.changes} <= right
