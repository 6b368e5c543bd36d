# SPDX-License-Identifier: Apache-2.0
"""The fewest and smallest moves that make room, beside brute force over all sequences of moves."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

import pytest

from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import make_room, places as capacity_moves
from tests.support.candidates import clouds
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force, cases, drains


def fits(base: state.CloudState, asked: candidate.CandidateQuery, number: int) -> bool:
    return brute_force.fit(base, [asked] * number, lambda claimed: drains.is_on_host(base, claimed))


def check(
    base: state.CloudState,
    asked: candidate.CandidateQuery,
    number: int,
    limit: int,
    placed_servers: Sequence[servers.PlacedServer] | None = None,
    groups: drains.Groups = drains.NO_GROUPS,
    hypervisors: drains.Hypervisors = drains.NO_HYPERVISORS,
) -> int:
    """The number of moves, the fewest by brute force; -1 if no moves make room."""
    placed_servers = drains.placed(base) if placed_servers is None else placed_servers
    movable = [server for server in placed_servers if not server.together]
    wanted = cases.wanted(asked)
    moves = drains.moves_of(base, movable, [wanted], groups.values())
    room = make_room.find(moves, wanted, number, movable, limit)
    is_reached = functools.partial(fits, asked=asked, number=number)
    expected = drains.least(base, is_reached, movable, limit, groups, hypervisors)
    if expected is None:
        assert (room.steps, room.at_least) == (None, limit + 1)
        return -1
    assert room.steps is not None
    assert drains.size_of_steps(room.steps) == expected
    assert room.is_proven
    assert fits(drains.follow(base, room.steps, (), groups, hypervisors), asked, number)
    return len(room.steps)


@pytest.mark.seeds(100, long=1000)
def test_no_plan_has_fewer_moves_or_smaller_servers(seed: int) -> None:
    draw = random.Random(f"make room {seed}")
    base, queries = brute_force.cloud_with_servers(draw, 4)
    check(base, draw.choice(queries), draw.choice((1, 1, 2)), 2)


def test_room_is_made_in_flat_clouds_and_in_shared_pools() -> None:
    numbers = []
    for seed in range(60):
        draw = random.Random(f"flat room {seed}")
        if seed % 2:
            base = clouds.draw_state(draw, "pools")
            candidate_query = query(group(VCPU=1, DISK_GB=draw.randint(2, 4)))
        else:
            base = clouds.draw_state(draw, "flat")
            candidate_query = query(group(VCPU=draw.randint(3, 5)))
        numbers.append(check(base, candidate_query, draw.choice((1, 1, 2)), 3))
    assert {-1, 0, 1, 2} <= set(numbers)


@pytest.mark.seeds(60, long=1000)
def test_conditions_of_nova_and_server_groups_are_kept_by_the_fewest_moves(seed: int) -> None:
    draw = random.Random(f"room with nova {seed}")
    base, placed, groups, hypervisors = drains.draw_with_nova(draw)
    asked = draw.choice([server.query for server in placed]) if placed else query(group(VCPU=1))
    check(base, asked, draw.choice((1, 2, 3)), 2, placed, groups, hypervisors)


def steps_for_4_vcpus(
    base: state.CloudState, groups: Sequence[ServerGroup] = ()
) -> list[tuple[str, str]]:
    """``(server, its target)`` for each move that makes room for 4 VCPU."""
    placed_servers = drains.placed(base, groups=groups)
    wanted = cases.wanted(query(group(VCPU=4)))
    moves = drains.moves_of(base, placed_servers, [wanted], groups)
    room = make_room.find(moves, wanted, 1, placed_servers, 3)
    return [(move.server.uuid, move.option.root_uuid) for move in room.steps or ()]


def test_a_server_moves_to_make_room_for_another_one() -> None:
    hosts = provider("a", VCPU=4), provider("b", VCPU=4), provider("c", VCPU=1)
    base = clouds.cloud(*hosts, servers={"s": "a 3", "t": "b 1", "u": "b 1"})
    assert steps_for_4_vcpus(base) == [("t", "a"), ("u", "c")]


def test_a_server_that_leaves_its_host_makes_place_for_another_of_its_group() -> None:
    hosts = provider("a", VCPU=4), provider("b", VCPU=2), provider("c", VCPU=2)
    base = clouds.cloud(*hosts, servers={"s": "a 2", "t": "b 1", "u": "c 1"})
    groups = [ServerGroup("g", "web", "anti-affinity", ("s", "t"))]
    assert steps_for_4_vcpus(base, groups) == [("t", "c"), ("s", "b")]


def test_without_time_the_bound_is_what_was_proven() -> None:
    base = clouds.cloud(
        *(provider(f"h{number}", VCPU=8) for number in range(9)),
        servers={f"s{number}": f"h{number % 9} 2" for number in range(27)},
    )
    placed_servers = servers.servers_on(base, hosts_of(base))
    wanted = cases.wanted(query(group(VCPU=8)))
    moves = capacity_moves.Moves(base, placed_servers, budgets.SearchBudget(0.2), more=[wanted])
    room = make_room.find(moves, wanted, 3, placed_servers, 20)
    assert room.at_least >= 3
    assert not room.is_proven or not room.is_smallest
