# SPDX-License-Identifier: Apache-2.0
"""Hosts whose servers have server groups may stop exactly if brute force finds their places."""

from __future__ import annotations

import collections
import random
from collections.abc import Mapping, Sequence

import pytest

from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.nova.values import ServerGroup
from osc_placement.workflows.capacity import count, moves as capacity_moves, servers, stop
from osc_placement.workflows.capacity.stop import Answer
from tests.support.candidates import cloud_builder, clouds
from tests.support.candidates.clouds import provider
from tests.support.capacity import brute_force

Groups = Sequence[ServerGroup]


def moves_of(base: state.CloudState, groups: Groups) -> capacity_moves.Moves:
    found = servers.servers_on(base, count.hosts_of(base), groups=groups)
    return capacity_moves.Moves(base, found, budgets.SearchBudget(), groups=groups)


def fit(
    base: state.CloudState,
    moved: Sequence[servers.PlacedServer],
    chosen: Sequence[str],
    groups: Groups,
) -> bool:
    """Whether brute force finds a place for each server; no provider shares."""
    if not moved:
        return True
    server, *others = moved
    return any(
        admits(base, server.uuid, base.providers[next(iter(each))].root_uuid, groups)
        and fit(brute_force.claim(base, server.uuid, each), others, chosen, groups)
        for each in brute_force.claims(base, server.query, brute_force.without_trees(base, chosen))
    )


def admits(base: state.CloudState, uuid: str, root: str, groups: Groups) -> bool:
    """Nova's rule: compare the host with those of the other members."""
    for group in groups:
        if uuid in group.members:
            hosts = collections.Counter(
                each
                for member in group.members
                if member != uuid
                for each in servers.hosts_of_server(base, member)
            )
            if group.policy == "affinity":
                return not hosts or root in hosts
            return hosts[root] < group.most_per_host
    return True


def draw_nested_cloud(draw: random.Random) -> state.CloudState:
    """A cloud without sharing providers."""
    while True:
        base = brute_force.small_state(draw)
        queries = [cloud_builder.draw_query(draw, base, microversion.MAXIMUM) for _ in range(6)]
        base, _ = brute_force.with_servers(draw, base, queries)
        if not base.with_trait[clouds.SHARES] and count.hosts_of(base):
            return base


def draw_dense_cloud(draw: random.Random) -> state.CloudState:
    """Flat hosts with room for most servers, so that the server groups decide."""
    base = clouds.cloud(
        *(provider(f"h{n}", VCPU=draw.randint(3, 5)) for n in range(draw.randint(3, 5)))
    )
    for number in range(draw.randint(4, 7)):
        host, amount = draw.choice(list(base.providers)), draw.choice((1, 1, 1, 2))
        if (
            base.used(host).get("VCPU", 0) + amount
            <= base.providers[host].inventories["VCPU"].total
        ):
            base = brute_force.claim(base, f"s{number}", {host: {"VCPU": amount}})
    return base


def draw_groups(draw: random.Random, base: state.CloudState, policies: Sequence[str]) -> Groups:
    """One or two server groups; a server has at most one."""
    numbers = [draw.randrange(3) for _ in base.consumers]
    return [
        ServerGroup(
            f"g{number}",
            f"group {number}",
            draw.choice(policies),
            tuple(uuid for uuid, own in zip(base.consumers, numbers, strict=True) if own == number),
            draw.choice((1, 1, 2)),
        )
        for number in range(draw.randint(1, 2))
    ]


def check(draw: random.Random, base: state.CloudState, policies: Sequence[str]) -> bool:
    """Compare an answer with brute force; whether the server groups decide it."""
    groups = draw_groups(draw, base, policies)
    hosts = count.hosts_of(base)
    chosen = tuple(draw.sample(hosts, draw.randint(1, max(len(hosts) - 1, 1))))
    moves = moves_of(base, groups)
    verdict = stop.may_stop(moves, chosen)
    moved = moves.servers_on(chosen)
    released = moves.released(chosen)
    expected = fit(released, moved, chosen, groups)
    assert verdict.answer is (Answer.YES if expected else Answer.NO)
    if expected:
        after = released
        for server in moved:
            option = verdict.placement[server.key]
            after = brute_force.claim(after, server.uuid, as_allocations(option.amounts, after))
        assert_kept(after, moved, groups)
    else:
        left_out = {each.server.key for each in verdict.unplaced}
        kept = [each for each in moved if each.key not in left_out]
        assert left_out
        assert moves.place(chosen, kept) is not None
    return expected != fit(released, moved, chosen, [])


def as_allocations(
    amounts: Mapping[tuple[str, str], int], base: state.CloudState
) -> dict[str, dict[str, int]]:
    """The allocations of an option, without the places of server groups."""
    found: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in amounts.items():
        if name in base.providers[uuid].inventories:
            found.setdefault(uuid, {})[name] = amount
    return found


def assert_kept(
    after: state.CloudState, moved: Sequence[servers.PlacedServer], groups: Groups
) -> None:
    for server in moved:
        (root,) = servers.hosts_of_server(after, server.uuid)
        assert admits(after, server.uuid, root, groups)


@pytest.mark.seeds(30, long=1000)
def test_groups_are_kept_on_nested_hosts(seed: int) -> None:
    draw = random.Random(f"groups on nested hosts {seed}")
    check(draw, draw_nested_cloud(draw), ("affinity", "anti-affinity"))


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_groups_decide_in_dense_clouds(policy: str) -> None:
    decided = 0
    for seed in range(150):
        draw = random.Random(f"dense {policy} {seed}")
        decided += check(draw, draw_dense_cloud(draw), (policy,))
    assert decided >= 10


@pytest.mark.seeds(30, long=1000)
def test_groups_of_both_policies_are_kept_in_dense_clouds(seed: int) -> None:
    draw = random.Random(f"dense {seed}")
    check(draw, draw_dense_cloud(draw), ("affinity", "anti-affinity"))


def test_a_full_server_group_is_named() -> None:
    base = clouds.cloud(provider("a", VCPU=4), provider("b", VCPU=4))
    base = brute_force.claim(base, "s", {"a": {"VCPU": 1}})
    base = brute_force.claim(base, "t", {"b": {"VCPU": 1}})
    moves = moves_of(base, [ServerGroup("g", "web", "anti-affinity", ("s", "t"))])
    assert [each.reasons for each in stop.may_stop(moves, ["a"]).unplaced] == [
        ("every other host with room has servers of server group web",)
    ]


AFFINITY = [ServerGroup("g", "web", "affinity", ("s", "t"))]


def with_two_servers(*hosts: tuple[str, int]) -> state.CloudState:
    """Hosts with so many VCPU; ``s`` is on a and ``t`` on c."""
    base = clouds.cloud(*(provider(name, VCPU=total) for name, total in hosts))
    base = brute_force.claim(base, "s", {"a": {"VCPU": 1}})
    return brute_force.claim(base, "t", {"c": {"VCPU": 1}})


def test_a_server_with_affinity_goes_to_its_group() -> None:
    moves = moves_of(with_two_servers(("a", 4), ("b", 4), ("c", 4)), AFFINITY)
    found = stop.may_stop(moves, ["a"]).placement
    assert [option.root_uuid for option in found.values()] == ["c"]
    moves = moves_of(with_two_servers(("a", 4), ("b", 4), ("c", 1)), AFFINITY)
    assert [each.reasons for each in stop.may_stop(moves, ["a"]).unplaced] == [
        ("every other host with room has none of the servers of server group web",)
    ]


def test_all_servers_of_a_group_with_affinity_go_to_one_host() -> None:
    base = with_two_servers(("a", 1), ("b", 1), ("c", 1), ("d", 2))
    found = stop.may_stop(moves_of(base, AFFINITY), ["a", "c"]).placement
    assert [option.root_uuid for option in found.values()] == ["d", "d"]
    base = with_two_servers(("a", 1), ("b", 1), ("c", 1), ("d", 1))
    verdict = stop.may_stop(moves_of(base, AFFINITY), ["a", "c"])
    assert verdict.answer is Answer.NO
    assert verdict.reason == "no other host has room for all servers of server group web"
    assert len(verdict.unplaced) == 1


def test_a_largest_set_keeps_groups_together() -> None:
    base = with_two_servers(("a", 1), ("b", 1), ("c", 1), ("d", 1))
    # With one of them, the other one stays on a full host; with both, none has room for both.
    found = stop.largest(moves_of(base, AFFINITY), ["a", "c"], 2)
    assert found.answer is Answer.NO
