# SPDX-License-Identifier: Apache-2.0
"""How often a request fits with hosts in reserve: bounds of what brute force finds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Hashable, Sequence

import pytest

from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import candidate
from osc_placement.search import placing
from osc_placement.workflows import compute_nodes
from osc_placement.workflows.capacity import count, moves as capacity_moves, reserve, servers
from tests.support.candidates import cloud_builder, clouds
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force
from tests.support.clouds import compute_services


def moves_for(
    base: state.CloudState, request: candidate.CandidateQuery, refused: Collection[str] = ()
) -> capacity_moves.Moves:
    known = servers.servers_on(base, count.hosts_of(base))
    return capacity_moves.Moves(base, known, budgets.SearchBudget(), [request], refused=refused)


def brute_keep(
    moves: capacity_moves.Moves, request: candidate.CandidateQuery, failures: int
) -> int:
    """The largest number with a placement that survives, by trying every placement; -1 for none."""
    choices = moves.options_of(servers.kind_of(request), ())
    best = -1
    for number in range(12):
        placements = itertools.combinations_with_replacement(choices, number)
        if not any(survives(moves, request, failures, each) for each in placements):
            break
        best = number
    return best


def survives(
    moves: capacity_moves.Moves,
    request: candidate.CandidateQuery,
    failures: int,
    placed: Sequence[placing.Option],
) -> bool:
    left = moves.free((), ())
    for option in placed:
        left = {slot: left[slot] - option.amounts.get(slot, 0) for slot in left}
    if any(left[slot] < 0 for option in placed for slot in option.amounts):
        return False
    hosts = count.hosts_of(moves.base)
    for failed in itertools.combinations(hosts, min(failures, len(hosts))):
        trees = [
            {moves.base.providers[uuid].root_uuid for uuid, _ in option.amounts}
            for option in placed
        ]
        stay = [each for each, used in zip(placed, trees, strict=True) if not used & set(failed)]
        lost = len(placed) - len(stay)
        if moves.place(failed, None, [request] * lost, stay) is None:
            return False
    return True


@pytest.mark.parametrize("number", range(80))
def test_the_number_with_hosts_in_reserve_is_within_its_bounds(number: int) -> None:
    draw = random.Random(f"keep {number}")
    base = brute_force.small_state(draw)
    queries = [cloud_builder.draw_query(draw, base, microversion.MAXIMUM) for _ in range(4)]
    base, _ = brute_force.with_servers(draw, base, queries)
    request = queries[0]
    moves = moves_for(base, request)
    failures = draw.randint(1, 2)
    found = reserve.capacity_with_failures(moves, request, count.hosts_of(base), failures)
    expected = brute_keep(moves, request, failures)
    assert found.least <= max(expected, 0) <= found.most
    assert bool(found.unsafe) == (expected < 0)


def accepted_only(moves: capacity_moves.Moves, accepted: Collection[str]) -> capacity_moves.Moves:
    """The moves with the options on some hosts only, by their definition: a filter of all."""
    of_all = moves.options_of

    def of_accepted(kind: Hashable, stopped: Collection[str]) -> list[placing.Option]:
        return [each for each in of_all(kind, stopped) if each.root_uuid in accepted]

    moves.options_of = of_accepted  # type: ignore[method-assign]
    return moves


@pytest.mark.seeds(30, long=500)
def test_hosts_that_the_compute_filter_refuses_are_no_reserve(seed: int) -> None:
    draw = random.Random(f"keep with services {seed}")
    base = brute_force.small_state(draw)
    queries = [cloud_builder.draw_query(draw, base, microversion.MAXIMUM) for _ in range(4)]
    base, _ = brute_force.with_servers(draw, base, queries)
    request, hosts = queries[0], count.hosts_of(base)
    states = compute_services.draw_states(draw, hosts)
    accepted = compute_services.accepted(states)
    refused = compute_nodes.read_server_hosts(compute_services.nova(states)).refused(base.tree)
    moves = moves_for(base, request, refused=refused)
    failures = draw.randint(1, 2)
    kept = reserve.capacity_with_failures(moves, request, hosts, failures)
    # The same servers, with the options of the accepted hosts only.
    expected = brute_keep(accepted_only(moves_for(base, request), accepted), request, failures)
    assert kept.least <= max(expected, 0) <= kept.most
    assert bool(kept.unsafe) == (expected < 0)


def test_servers_of_one_size_give_an_exact_number() -> None:
    base = clouds.cloud(*(provider(f"h{n}", VCPU=8) for n in range(4)))
    base = brute_force.claim(base, "s0", {"h0": {"VCPU": 2}})
    base = brute_force.claim(base, "s1", {"h1": {"VCPU": 2}})
    request = query(group(VCPU=2))
    found = reserve.capacity_with_failures(
        moves_for(base, request), request, count.hosts_of(base), 1
    )
    # Three hosts have room for twelve servers, and two exist.
    assert found == reserve.Reserve(1, 10, 10)


def test_a_host_whose_servers_find_no_room_is_named() -> None:
    base = clouds.cloud(provider("a", VCPU=8), provider("b", VCPU=2))
    base = brute_force.claim(base, "s", {"a": {"VCPU": 4}})
    request = query(group(VCPU=1))
    found = reserve.capacity_with_failures(
        moves_for(base, request), request, count.hosts_of(base), 1
    )
    assert found == reserve.Reserve(1, 0, 0, unsafe=("a",))


def test_without_time_the_number_is_an_upper_bound() -> None:
    base = clouds.cloud(*(provider(f"h{n}", VCPU=8) for n in range(40)))
    request = query(group(VCPU=2))
    moves = moves_for(base, request)
    moves.budget = budgets.SearchBudget(0.0)
    found = reserve.capacity_with_failures(moves, request, count.hosts_of(base), 3)
    assert (found.least, found.is_complete) == (0, False)
    assert found.most >= 4 * 37
