# SPDX-License-Identifier: Apache-2.0
"""Which hosts may stop, with and without server groups: equal to what brute force finds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.scheduling.answer import Answer
from osc_placement.workflows.cloud import compute_nodes, servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import places as capacity_moves, stop
from tests.support.candidates import clouds, random_queries
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force, cases, drains
from tests.support.clouds import compute_services


def moves_of(
    base: state.CloudState,
    groups: drains.Groups = drains.NO_GROUPS,
    seconds: float | None = None,
    queries: Mapping[str, candidate.CandidateQuery] = MappingProxyType({}),
) -> capacity_moves.Moves:
    """The moves of all servers; ``queries`` are those of nova for some."""
    members = cases.members(base, groups.values())
    of_servers = cases.of_servers(queries)
    placed_servers = servers.servers_on(base, hosts_of(base), of_servers, members)
    budget = budgets.SearchBudget(seconds)
    return capacity_moves.Moves(base, placed_servers, budget, groups=members, root_of=cases.root_of)


def brute_may_stop(
    base: state.CloudState, moves: capacity_moves.Moves, hosts: tuple[str, ...]
) -> bool:
    queries = [server.query for server in moves.servers_on(hosts)]
    return brute_force.fit(moves.released(hosts), queries, brute_force.without_trees(base, hosts))


@pytest.mark.parametrize("has_requests", [False, True])
@pytest.mark.parametrize("number", range(100))
def test_hosts_may_stop_exactly_if_brute_force_moves_their_servers(
    number: int, has_requests: bool
) -> None:
    """By their allocations, and by random requests of nova for them."""
    draw = random.Random(f"stop {number}")
    base = drains.draw_cloud(draw)
    version = microversion.MAXIMUM
    asked = sorted(base.consumers) if has_requests else ()
    queries = {uuid: random_queries.draw_query(draw, base, version) for uuid in asked}
    hosts = hosts_of(base)
    chosen = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    moves = moves_of(base, queries=queries)
    verdict = stop.may_stop(moves, chosen)
    expected = brute_may_stop(base, moves, chosen)
    assert verdict.answer is (Answer.YES if expected else Answer.NO)
    if expected:
        carry_out(base, moves, verdict)
    else:
        left_out = {unplaced.server.key for unplaced in verdict.unplaced}
        assert left_out
        kept = [server for server in moves.servers_on(chosen) if server.key not in left_out]
        assert moves.place(chosen, kept) is not None


def carry_out(base: state.CloudState, moves: capacity_moves.Moves, found: stop.StopVerdict) -> None:
    """Move all servers at once; the engine checks the new allocations."""
    moved = moves.servers_on(found.hosts)
    assert found.placement.keys() == {server.key for server in moved}
    claimed = {it.uuid: drains.allocations_of(found.placement[it.key]) for it in moved}
    roots = {base.providers[uuid].root_uuid for target in claimed.values() for uuid in target}
    assert roots.isdisjoint(found.hosts)
    brute_force.written(base, claimed)


@pytest.mark.parametrize("number", range(80))
def test_a_largest_set_is_as_large_as_that_of_brute_force(number: int) -> None:
    draw = random.Random(f"largest {number}")
    base = drains.draw_cloud(draw)
    hosts = hosts_of(base)
    moves = moves_of(base)
    limit = draw.randint(1, 4)
    verdict = stop.largest(moves, hosts, limit)
    sizes = [
        size
        for size in range(min(limit, len(hosts)) + 1)
        if any(brute_may_stop(base, moves, subset) for subset in brute_force.subsets(hosts, size))
    ]
    if max(sizes) == 0:
        assert verdict.answer is Answer.NO or not hosts
    else:
        assert (verdict.answer, len(verdict.hosts)) == (Answer.YES, max(sizes))
        carry_out(base, moves, verdict)


@pytest.mark.seeds(60, long=1200)
def test_no_server_moves_to_a_host_that_the_compute_filter_refuses(seed: int) -> None:
    draw = random.Random(f"stop with services {seed}")
    base = drains.draw_cloud(draw)
    hosts = hosts_of(base)
    states = compute_services.draw_states(draw, hosts)
    chosen = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    compute = compute_nodes.read_server_hosts(compute_services.nova(states))
    placed_servers = servers.servers_on(base, hosts)
    refused = compute.refused(base.tree)
    moves = capacity_moves.Moves(base, placed_servers, budgets.SearchBudget(), refused=refused)
    verdict = stop.may_stop(moves, chosen)
    queries = [server.query for server in moves.servers_on(chosen)]
    elsewhere = brute_force.without_trees(base, chosen)
    accepted = compute_services.accepted(states)
    expected = brute_force.fit(
        moves.released(chosen), queries, lambda each: elsewhere(each) and each.root_uuid in accepted
    )
    assert verdict.answer is (Answer.YES if expected else Answer.NO)
    assert {option.root_uuid for option in verdict.placement.values()} <= accepted
    assert accepted.isdisjoint(moves.not_counted)


def test_the_constraint_that_prevents_a_move_is_named() -> None:
    hosts = provider("a", VCPU=4), provider("b", VCPU=4, traits="T")
    base = clouds.cloud(*hosts, servers={"s": "a 2"})
    moves = moves_of(base, queries={"s": query(group(VCPU=2, forbidden="T"))})
    verdict = stop.may_stop(moves, ["a"])
    assert verdict.answer is Answer.NO
    assert [unplaced.reasons for unplaced in verdict.unplaced] == [
        ("no other host has room with required=!T",)
    ]


def test_servers_that_do_not_fit_together_are_named_with_the_class() -> None:
    hosts = provider("a", VCPU=4), provider("b", VCPU=3)
    base = clouds.cloud(*hosts, servers={"small": "a 1", "large": "a 3"})
    verdict = stop.may_stop(moves_of(base), ["a"])
    assert verdict.answer is Answer.NO
    assert [unplaced.server.uuid for unplaced in verdict.unplaced] == ["large"]
    assert verdict.reason == "4 VCPU are needed, and there is room for 3"


def test_no_more_servers_are_named_than_do_not_fit() -> None:
    hosts = provider("a", VCPU=10), provider("b", VCPU=3), provider("c", VCPU=4)
    base = clouds.cloud(*hosts, servers={"p": "a 2", "q": "a 2", "r": "a 3", "s": "a 3"})
    verdict = stop.may_stop(moves_of(base), ["a"])
    # The small ones first, one on each host, leave no room for a large one.
    assert [unplaced.server.uuid for unplaced in verdict.unplaced] in (["r"], ["s"])


def test_a_server_keeps_the_groups_of_its_providers() -> None:
    base = clouds.cloud(
        provider("a", VCPU=4),
        provider("a-pf", "a", VGPU=2),
        provider("nfs", traits=clouds.SHARES, aggregates="A", DISK_GB=10),
        servers={"s": {"a": {"VCPU": 1}, "a-pf": {"VGPU": 1}, "nfs": {"DISK_GB": 2}}},
    )
    (server,) = servers.servers_on(base, ["a"])
    assert server.query.groups == (group(DISK_GB=2, VCPU=1), group("1", VGPU=1))
    assert server.query.root_forbidden == {servers.DISABLED}


def test_without_time_the_answer_is_unknown() -> None:
    base = drains.hard(random.Random("hard"), "old0", "old1")
    hosts = ["old0", "old1"]
    for verdict in (
        stop.may_stop(moves_of(base, seconds=0.001), hosts),
        stop.largest(moves_of(base, seconds=0.001), hosts, 2),
    ):
        assert verdict.answer is Answer.UNKNOWN
        assert verdict.reason == "The search took more than 0.001 seconds."


def test_without_all_options_a_no_is_unknown() -> None:
    hosts = provider("a", VCPU=4), provider("b", VCPU=3)
    moves = moves_of(clouds.cloud(*hosts, servers={"large": "a 4"}))
    moves.is_complete = False
    for verdict in (stop.may_stop(moves, ["a"]), stop.largest(moves, ["a", "b"], 2)):
        assert verdict.answer is Answer.UNKNOWN
        assert verdict.reason.endswith("candidates for a server")


def fit(
    base: state.CloudState,
    moved: Sequence[servers.PlacedServer],
    chosen: Sequence[str],
    groups: drains.Groups,
    before: state.CloudState,
) -> bool:
    """Whether brute force finds a place for each server; no provider shares.

    ``before`` is the cloud before all moves.
    """
    if not moved:
        return True
    server, *others = moved
    return any(
        admits(base, server, base.providers[next(iter(target))].root_uuid, groups, before)
        and fit(brute_force.claim(base, server.uuid, target), others, chosen, groups, before)
        for target in brute_force.claims(
            base, server.query, brute_force.without_trees(base, chosen)
        )
    )


def admits(
    base: state.CloudState,
    server: servers.PlacedServer,
    root: str,
    groups: drains.Groups,
    before: state.CloudState,
) -> bool:
    """Nova's rules: anti-affinity compares the host with those of the other members, and affinity
    with those of all members, the present host of the server included.
    """
    return drains.admits(before if server.together else base, server, groups, root)


def draw_nested_cloud(draw: random.Random) -> state.CloudState:
    """A cloud without sharing providers."""
    while True:
        base = drains.draw_cloud(draw)
        if not base.with_trait[clouds.SHARES]:
            return base


def check(draw: random.Random, base: state.CloudState, policies: Sequence[str]) -> bool:
    """Compare an answer with brute force; whether the server groups decide it."""
    groups = drains.draw_groups(draw, base, policies)
    hosts = hosts_of(base)
    chosen = tuple(draw.sample(hosts, draw.randint(1, max(len(hosts) - 1, 1))))
    moves = moves_of(base, groups)
    verdict = stop.may_stop(moves, chosen)
    moved = moves.servers_on(chosen)
    released = moves.released(chosen)
    expected = fit(released, moved, chosen, groups, base)
    assert verdict.answer is (Answer.YES if expected else Answer.NO)
    if expected:
        after = released
        for server in moved:
            target = drains.allocations_of(verdict.placement[server.key])
            after = brute_force.claim(after, server.uuid, target)
        assert_kept(after, moved, groups, base)
    else:
        left_out = {unplaced.server.key for unplaced in verdict.unplaced}
        kept = [placed_server for placed_server in moved if placed_server.key not in left_out]
        assert left_out
        assert moves.place(chosen, kept) is not None
    return expected != fit(released, moved, chosen, drains.NO_GROUPS, base)


def assert_kept(
    after: state.CloudState,
    moved: Sequence[servers.PlacedServer],
    groups: drains.Groups,
    before: state.CloudState,
) -> None:
    for server in moved:
        (root,) = cases.hosts_of_server(after, server.uuid)
        assert admits(brute_force.claim(after, server.uuid, {}), server, root, groups, before)


@pytest.mark.seeds(30, long=1000)
def test_groups_are_kept_on_nested_hosts(seed: int) -> None:
    draw = random.Random(f"groups on nested hosts {seed}")
    check(draw, draw_nested_cloud(draw), ("affinity", "anti-affinity"))


@pytest.mark.parametrize(
    "policies", [("affinity",), ("anti-affinity",), ("affinity", "anti-affinity")]
)
def test_groups_decide_in_dense_clouds(policies: Sequence[str]) -> None:
    decided = 0
    for seed in range(100):
        draw = random.Random(f"dense {policies} {seed}")
        decided += check(draw, clouds.draw_state(draw, "flat"), policies)
    assert decided >= 7


REFUSING = "only hosts that take no server have room: "


def test_a_full_server_group_is_named() -> None:
    hosts = provider("a", VCPU=4), provider("b", VCPU=4)
    base = clouds.cloud(*hosts, servers={"s": "a 1", "t": "b 1"})
    moves = moves_of(base, {"g": ServerGroup("g", "web", "anti-affinity", ("s", "t"))})
    assert [unplaced.reasons for unplaced in stop.may_stop(moves, ["a"]).unplaced] == [
        (f"{REFUSING}b (ServerGroupAntiAffinityFilter: 1 member of server group web)",)
    ]


AFFINITY = {"g": ServerGroup("g", "web", "affinity", ("s", "t"))}


def with_two_servers(last: int = 4) -> state.CloudState:
    """Hosts with 4 VCPU, the last one with so many; ``s`` is on a and ``t`` on c."""
    hosts = provider("a", VCPU=4), provider("b", VCPU=4), provider("c", VCPU=last)
    return clouds.cloud(*hosts, servers={"s": "a 1", "t": "c 1"})


def test_a_server_with_affinity_goes_to_its_group() -> None:
    moves = moves_of(with_two_servers(), AFFINITY)
    options = stop.may_stop(moves, ["a"]).placement
    assert [option.root_uuid for option in options.values()] == ["c"]
    moves = moves_of(with_two_servers(1), AFFINITY)
    assert [unplaced.reasons for unplaced in stop.may_stop(moves, ["a"]).unplaced] == [
        (f"{REFUSING}b (ServerGroupAffinityFilter: server group web is on a, c)",)
    ]


def test_no_server_of_a_group_with_affinity_leaves_the_last_host_of_the_group() -> None:
    base = with_two_servers()
    verdict = stop.may_stop(moves_of(base, AFFINITY), ["a", "c"])
    assert verdict.answer is Answer.NO
    assert {unplaced.reasons for unplaced in verdict.unplaced} == {
        (f"{REFUSING}b (ServerGroupAffinityFilter: server group web is on a, c)",)
    }
    alone = {"g": ServerGroup("g", "web", "affinity", ("s",))}
    assert stop.may_stop(moves_of(base, alone), ["a"]).answer is Answer.NO


def test_a_largest_set_leaves_a_host_for_each_group_with_affinity() -> None:
    verdict = stop.largest(moves_of(with_two_servers(), AFFINITY), ["a", "b", "c"], 3)
    assert (verdict.answer, len(verdict.hosts)) == (Answer.YES, 2)
    assert set(verdict.hosts) != {"a", "c"}
