"""What is so of every plan that heals, whatever the cloud."""

from __future__ import annotations

import dataclasses

from hypothesis import given, strategies as st

from osc_placement.client import responses
from osc_placement.nova import values
from osc_placement.plan import change, plan
from osc_placement.workflows.allocations import expected, snapshot
from osc_placement.workflows.allocations.heal import plan as heal_plan
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
def clouds(draw: st.DrawFn) -> snapshot.CloudSnapshot:
    servers: list[values.Server] = []
    held = {}
    for number in range(draw(st.integers(0, 12))):
        uuid = f"s{number}"
        size = dataclasses.replace(SMALL, vcpus=draw(st.integers(1, 9)))
        state = draw(STATES)
        fields = {"flavor": size, "created": f"20{draw(st.integers(10, 25))}", **state}
        one = server(draw(st.sampled_from("abcz")), uuid)
        servers.append(dataclasses.replace(one, **fields))  # type: ignore[arg-type]
        has = draw(HELD)
        if has:
            held[uuid] = has
    moves = [move("migration", "queued", of="s0")] if draw(st.booleans()) else []
    return cloud(servers, moves, held)


def planned(seen: snapshot.CloudSnapshot) -> plan.Plan:
    """Where Placement is asked for candidates, it has none."""
    answers = {}
    for one in seen.servers.values():
        query = expected.query_of(seen, one, f"n-{one.host}.")
        if query is not None:
            answers[query[0]] = responses.Candidates((), {})
    return heal_plan.plan_heal(seen, heal_plan.Request(), answers)


def after(seen: snapshot.CloudSnapshot, made: plan.Plan) -> snapshot.CloudSnapshot:
    """The picture when the plan was carried out."""
    held = {uuid: dict(found) for uuid, found in seen.allocations.items()}
    owners = dict(seen.owners)
    for item in made.changes:
        found: dict[str, dict[str, int]] = {}
        for key, value in item.after.items():
            if isinstance(value, int):
                provider, _, name = key.rpartition(":")
                found.setdefault(provider, {})[name] = value
        held[item.subject.uuid] = found
        owners[item.subject.uuid] = snapshot.Owner("p", "u", "INSTANCE")
    return dataclasses.replace(seen, allocations=held, owners=owners)


@given(clouds())
def test_every_server_stands_in_the_plan_once(seen: snapshot.CloudSnapshot) -> None:
    assert sorted(item.subject.uuid for item in planned(seen).items()) == sorted(seen.servers)


@given(clouds())
def test_what_was_healed_needs_no_healing(seen: snapshot.CloudSnapshot) -> None:
    made = planned(seen)
    again = planned(after(seen, made))
    assert again.changes == ()
    right = {item.subject.uuid for item in again.remarks if item.unchanged}
    assert {item.subject.uuid for item in made.changes} <= right


@given(clouds())
def test_nothing_is_taken_away_and_no_provider_gets_fuller_than_it_may(
    seen: snapshot.CloudSnapshot,
) -> None:
    made = planned(seen)
    for item in made.changes:
        assert all(
            change.same(item.after[key], value)
            for key, value in item.before.items()
            if isinstance(value, int)
        )
    before, then = seen.used, after(seen, made).used
    for uuid, resources in then.items():
        for name, used in resources.items():
            capacity = seen.inventories[uuid][name].capacity
            assert used <= max(capacity, before.get(uuid, {}).get(name, 0))


@given(clouds())
def test_who_is_left_alone_is_told_why(seen: snapshot.CloudSnapshot) -> None:
    for item in planned(seen).remarks:
        assert item.unchanged or item.reason
