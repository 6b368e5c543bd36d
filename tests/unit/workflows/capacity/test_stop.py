# SPDX-License-Identifier: Apache-2.0
"""Which hosts may stop: equal to the moves that brute force finds."""

from __future__ import annotations

import random

import pytest

from osc_placement import microversion
from osc_placement.engine import allocation, draft, state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.workflows import compute_nodes
from osc_placement.workflows.capacity import count, moves as capacity_moves, servers, stop
from osc_placement.workflows.capacity.stop import Answer
from tests.support.candidates import cloud_builder, clouds
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force
from tests.support.clouds import compute_services


def draw_cloud(draw: random.Random) -> state.CloudState:
    base = brute_force.small_state(draw)
    queries = [cloud_builder.draw_query(draw, base, microversion.MAXIMUM) for _ in range(6)]
    return brute_force.with_servers(draw, base, queries)[0]


def moves_of(base: state.CloudState, seconds: float | None = None) -> capacity_moves.Moves:
    found = servers.servers_on(base, count.hosts_of(base))
    return capacity_moves.Moves(base, found, budgets.SearchBudget(seconds))


def brute_may_stop(
    base: state.CloudState, moves: capacity_moves.Moves, hosts: tuple[str, ...]
) -> bool:
    queries = [server.query for server in moves.servers_on(hosts)]
    return brute_force.fit(moves.released(hosts), queries, brute_force.without_trees(base, hosts))


@pytest.mark.parametrize("number", range(200))
def test_hosts_may_stop_exactly_if_brute_force_moves_their_servers(number: int) -> None:
    draw = random.Random(f"stop {number}")
    base = draw_cloud(draw)
    hosts = count.hosts_of(base)
    chosen = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    moves = moves_of(base)
    found = stop.may_stop(moves, chosen)
    expected = brute_may_stop(base, moves, chosen)
    assert found.answer is (Answer.YES if expected else Answer.NO)
    if expected:
        carry_out(base, moves, found)
    else:
        left_out = {each.server.key for each in found.unplaced}
        assert left_out
        kept = [each for each in moves.servers_on(chosen) if each.key not in left_out]
        assert moves.place(chosen, kept) is not None


def carry_out(base: state.CloudState, moves: capacity_moves.Moves, found: stop.Verdict) -> None:
    """Move all servers at once; the engine checks the new allocations."""
    moved = moves.servers_on(found.hosts)
    assert found.placement.keys() == {server.key for server in moved}
    claims = []
    for server in moved:
        allocations: dict[str, dict[str, int]] = {}
        for (uuid, name), amount in found.placement[server.key].amounts.items():
            assert base.providers[uuid].root_uuid not in found.hosts
            allocations.setdefault(uuid, {})[name] = amount
        claims.append(allocation.Claim(server.uuid, allocations))
    allocation.write(draft.Draft(base, now=0.0), claims)


@pytest.mark.parametrize("number", range(40))
def test_the_conditions_of_novas_requests_apply(number: int) -> None:
    draw = random.Random(f"stop with nova {number}")
    base = draw_cloud(draw)
    version = microversion.MAXIMUM
    asked = {uuid: cloud_builder.draw_query(draw, base, version) for uuid in base.consumers}
    hosts = count.hosts_of(base)
    chosen = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    found = servers.servers_on(base, hosts, asked)
    moves = capacity_moves.Moves(base, found, budgets.SearchBudget())
    expected = brute_may_stop(base, moves, chosen)
    verdict = stop.may_stop(moves, chosen)
    assert verdict.answer is (Answer.YES if expected else Answer.NO)
    if expected:
        carry_out(base, moves, verdict)


@pytest.mark.parametrize("number", range(80))
def test_a_largest_set_is_as_large_as_that_of_brute_force(number: int) -> None:
    draw = random.Random(f"largest {number}")
    base = draw_cloud(draw)
    hosts = count.hosts_of(base)
    moves = moves_of(base)
    limit = draw.randint(1, 4)
    found = stop.largest(moves, hosts, limit)
    sizes = [
        size
        for size in range(min(limit, len(hosts)) + 1)
        if any(brute_may_stop(base, moves, each) for each in brute_force.subsets(hosts, size))
    ]
    if max(sizes) == 0:
        assert found.answer is Answer.NO or not hosts
    else:
        assert (found.answer, len(found.hosts)) == (Answer.YES, max(sizes))
        carry_out(base, moves, found)


@pytest.mark.seeds(60, long=1200)
def test_no_server_moves_to_a_host_that_the_compute_filter_refuses(seed: int) -> None:
    draw = random.Random(f"stop with services {seed}")
    base = draw_cloud(draw)
    hosts = count.hosts_of(base)
    states = compute_services.draw_states(draw, hosts)
    chosen = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    compute = compute_nodes.read_server_hosts(compute_services.nova(states))
    known = servers.servers_on(base, hosts)
    refused = compute.refused(base.tree)
    moves = capacity_moves.Moves(base, known, budgets.SearchBudget(), refused=refused)
    found = stop.may_stop(moves, chosen)
    queries = [server.query for server in moves.servers_on(chosen)]
    elsewhere = brute_force.without_trees(base, chosen)
    accepted = compute_services.accepted(states)
    expected = brute_force.fit(
        moves.released(chosen),
        queries,
        lambda each: elsewhere(each) and each.root_uuid in accepted,
    )
    assert found.answer is (Answer.YES if expected else Answer.NO)
    assert {option.root_uuid for option in found.placement.values()} <= accepted
    assert accepted.isdisjoint(moves.not_counted)


def with_server(
    base: state.CloudState, name: str, **allocations: dict[str, int]
) -> state.CloudState:
    return brute_force.claim(base, name, allocations)


def test_the_constraint_that_prevents_a_move_is_named() -> None:
    base = clouds.cloud(provider("a", VCPU=4), provider("b", VCPU=4, traits="T"))
    base = with_server(base, "s", a={"VCPU": 2})
    known = {"s": query(group(VCPU=2, forbidden="T"))}
    found = servers.servers_on(base, ["a"], known)
    verdict = stop.may_stop(capacity_moves.Moves(base, found, budgets.SearchBudget()), ["a"])
    assert verdict.answer is Answer.NO
    assert [each.reasons for each in verdict.unplaced] == [
        ("no other host has room with required=!T",)
    ]


def test_servers_that_do_not_fit_together_are_named_with_the_class() -> None:
    base = clouds.cloud(provider("a", VCPU=4), provider("b", VCPU=3))
    base = with_server(base, "small", a={"VCPU": 1})
    base = with_server(base, "large", a={"VCPU": 3})
    verdict = stop.may_stop(moves_of(base), ["a"])
    assert verdict.answer is Answer.NO
    assert [each.server.uuid for each in verdict.unplaced] == ["large"]
    assert verdict.reason == "4 VCPU are needed, and there is room for 3"


def test_a_server_keeps_the_groups_of_its_providers() -> None:
    base = clouds.cloud(
        provider("a", VCPU=4),
        provider("a-pf", "a", VGPU=2),
        provider("nfs", traits=clouds.SHARES, aggregates="A", DISK_GB=10),
    )
    base = with_server(base, "s", a={"VCPU": 1}, **{"a-pf": {"VGPU": 1}, "nfs": {"DISK_GB": 2}})
    (found,) = servers.servers_on(base, ["a"])
    assert found.query.groups == (group(DISK_GB=2, VCPU=1), group("1", VGPU=1))
    assert found.query.root_forbidden == {servers.DISABLED}


def test_without_time_the_answer_is_unknown() -> None:
    # Amounts of two classes that almost fill the other hosts: a proof would take very long.
    draw = random.Random("hard")
    base = clouds.cloud(
        *(provider(f"old{n}", VCPU=1000, DISK_GB=1000) for n in range(2)),
        *(
            provider(f"h{n}", VCPU=draw.randint(40, 60), DISK_GB=draw.randint(40, 60))
            for n in range(9)
        ),
    )
    left = {
        name: sum(base.providers[f"h{n}"].inventories[name].capacity for n in range(9))
        for name in ("VCPU", "DISK_GB")
    }
    number = 0
    while True:
        amounts = {name: draw.randint(7, 23) for name in left}
        left = {name: amount - amounts[name] for name, amount in left.items()}
        if min(left.values()) < 2:
            break
        base = with_server(base, f"s{number}", **{f"old{number % 2}": amounts})
        number += 1
    verdict = stop.may_stop(moves_of(base, 0.001), ["old0", "old1"])
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.reason == "The search took more than 0.001 seconds."
