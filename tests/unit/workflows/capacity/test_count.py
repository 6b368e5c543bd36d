# SPDX-License-Identifier: Apache-2.0
"""How often a request fits, and with hosts in reserve: what brute force finds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Hashable, Mapping, Sequence

import pytest

from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets, search
from osc_placement.model import candidate
from osc_placement.search import placing
from osc_placement.workflows.capacity import count
from osc_placement.workflows.cloud import compute_nodes, servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import places as capacity_moves, reserve
from tests.support.candidates import clouds, random_queries
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force, cases
from tests.support.clouds import compute_services


def total(base: state.CloudState, *groups: object, **binding: object) -> count.Capacity:
    roots = [*base.tree]
    return count.Counter(base, cases.wanted(query(*groups, **binding)).queries).count(roots)


@pytest.mark.seeds(30, long=1000)
def test_without_some_trees_only_the_others_count(seed: int) -> None:
    draw = random.Random(f"without {seed}")
    base = clouds.draw_state(draw, small=True)
    request = random_queries.draw_query(draw, base, microversion.MAXIMUM)
    roots = [*base.tree]
    left_out = set(draw.sample(roots, draw.randint(1, len(roots))))
    if not any(request_group.resources for request_group in request.groups):
        return
    capacity = count.Counter(base, ((request,),), left_out).count(set(roots) - left_out)
    others = brute_force.without_trees(base, left_out)
    assert capacity.count.least == brute_force.most(base, request, others)


@pytest.mark.seeds(30, long=600)
def test_only_hosts_that_the_compute_filter_accepts_count(seed: int) -> None:
    draw = random.Random(f"services {seed}")
    base = clouds.draw_state(draw, small=True)
    request = random_queries.draw_query(draw, base, microversion.MAXIMUM)
    if not any(request_group.resources for request_group in request.groups):
        return
    roots = [*base.tree]
    states = compute_services.draw_states(draw, roots)
    accepted = compute_services.accepted(states)
    compute = compute_nodes.read_server_hosts(compute_services.nova(states))
    capacity = count.Counter(base, ((request,),), (), compute.refused(roots)).count(roots)
    of_host = brute_force.without_trees(base, ())
    assert capacity.count.least == brute_force.most(
        base, request, lambda claimed: of_host(claimed) and claimed.root_uuid in accepted
    )
    serving = {each.root_uuid for each in search.search(base, request) if of_host(each)}
    assert set(capacity.refused) >= serving - accepted
    assert accepted.isdisjoint(capacity.refused)
    assert all(capacity.count.least <= class_capacity.fits for class_capacity in capacity.classes)


def test_remaining_amounts_are_counted_in_units_of_the_class() -> None:
    base = clouds.cloud(
        provider("a", VCPU=8, MEMORY_MB=100),
        provider("b", VCPU=3, MEMORY_MB=100),
        provider("c", VCPU=1, MEMORY_MB=4),
        used={"a": {"VCPU": 1}},
    )
    capacity = total(base, group(VCPU=2, MEMORY_MB=10))
    assert (capacity.count.least, capacity.hosts, capacity.scarcest) == (4, 2, "VCPU")
    vcpu, memory = capacity.classes
    assert vcpu == count.ClassCapacity("VCPU", 2, 12, 1, 11, fits=4, left=3, fragmented=3)
    assert memory == count.ClassCapacity("MEMORY_MB", 10, 204, 0, 204, 20, left=164, fragmented=4)


def test_providers_that_the_request_may_not_use_do_not_count() -> None:
    base = clouds.cloud(
        provider("a", VCPU=8, traits="T"), provider("b", VCPU=8), provider("c", VCPU=8, traits="R")
    )
    capacity = total(base, group(VCPU=1, required="T"), root_forbidden=frozenset({"R"}))
    (vcpu,) = capacity.classes
    assert (capacity.count.least, capacity.hosts, vcpu.capacity) == (8, 1, 8)


def test_a_tree_with_too_many_candidates_gives_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osc_placement.workflows.cloud.options.PER_TREE", 1)
    base = clouds.cloud(provider("host"), provider("a", "host", VF=2), provider("b", "host", VF=3))
    capacity = total(base, group("1", VF=1))
    assert (capacity.count.least, capacity.count.most) == (2, 5)


def moves_for(
    base: state.CloudState,
    request: candidate.CandidateQuery,
    refused: Mapping[str, str] | None = None,
) -> capacity_moves.Moves:
    placed_servers = servers.servers_on(base, hosts_of(base))
    more = [cases.wanted(request)]
    return capacity_moves.Moves(base, placed_servers, budgets.SearchBudget(), more, refused=refused)


def brute_keep(
    moves: capacity_moves.Moves, request: candidate.CandidateQuery, failures: int
) -> int:
    """The largest number with a placement that survives, by trying every placement; -1 for none."""
    choices = moves.options_of(cases.wanted(request).kind, ())
    best = -1
    for number in range(12):
        placements = itertools.combinations_with_replacement(choices, number)
        if not any(survives(moves, request, failures, placement) for placement in placements):
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
    hosts = hosts_of(moves.base)
    for failed in itertools.combinations(hosts, min(failures, len(hosts))):
        trees = [
            {moves.base.providers[uuid].root_uuid for uuid, _ in option.amounts}
            for option in placed
        ]
        stay = [each for each, used in zip(placed, trees, strict=True) if not used & set(failed)]
        lost = len(placed) - len(stay)
        if moves.place(failed, None, [cases.wanted(request)] * lost, stay) is None:
            return False
    return True


def accepted_only(moves: capacity_moves.Moves, accepted: Collection[str]) -> capacity_moves.Moves:
    """The moves with the options on some hosts only, by their definition: a filter of all."""
    of_all = moves.options_of

    def of_accepted(kind: Hashable, stopped: Collection[str]) -> list[placing.Option]:
        return [option for option in of_all(kind, stopped) if option.root_uuid in accepted]

    moves.options_of = of_accepted  # type: ignore[method-assign]
    return moves


@pytest.mark.seeds(80, long=500)
def test_the_number_with_hosts_in_reserve_is_within_its_bounds(seed: int) -> None:
    draw = random.Random(f"keep with services {seed}")
    base, queries = brute_force.cloud_with_servers(draw, 4)
    request, hosts = queries[0], hosts_of(base)
    states = compute_services.draw_states(draw, hosts)
    accepted = compute_services.accepted(states)
    refused = compute_nodes.read_server_hosts(compute_services.nova(states)).refused(base.tree)
    moves = moves_for(base, request, refused=refused)
    failures = draw.randint(1, 2)
    kept = reserve.capacity_with_failures(moves, cases.wanted(request), hosts, failures)
    # The same servers, with the options of the accepted hosts only.
    expected = brute_keep(accepted_only(moves_for(base, request), accepted), request, failures)
    assert kept.least <= max(expected, 0) <= kept.most
    assert bool(kept.unsafe) == (expected < 0)


@pytest.mark.parametrize("disks", ["a-disks", "z-disks"])
def test_a_class_on_the_host_and_on_shared_disks_is_requested_twice(disks: str) -> None:
    base = clouds.cloud(
        provider("host", aggregates="A", VCPU=4, DISK_GB=10),
        provider("gpu", "host", VGPU=1),
        provider(disks, traits=clouds.SHARES, aggregates="A", DISK_GB=100),
    )
    allocated = {disks: {"DISK_GB": 50}, "gpu": {"VGPU": 1}, "host": {"VCPU": 1, "DISK_GB": 5}}
    groups = servers.query_of(base, "host", allocated).groups
    assert [(group.suffix, group.resources) for group in groups] == [
        ("", {"DISK_GB": 5, "VCPU": 1}),
        ("1", {"DISK_GB": 50}),
        ("2", {"VGPU": 1}),
    ]


def test_servers_of_one_size_give_an_exact_number() -> None:
    hosts = [provider(f"h{n}", VCPU=8) for n in range(4)]
    base = clouds.cloud(*hosts, servers={"s0": "h0 2", "s1": "h1 2"})
    request = query(group(VCPU=2))
    moves, wanted = moves_for(base, request), cases.wanted(request)
    kept_reserve = reserve.capacity_with_failures(moves, wanted, hosts_of(base), 1)
    # Three hosts have room for twelve servers, and two exist.
    assert kept_reserve == reserve.Reserve(1, 10, 10)


def test_a_request_moves_only_when_its_own_host_fails() -> None:
    base = clouds.cloud(
        *(provider(f"h{n}", VCPU=size) for n, size in enumerate((8, 4, 6, 5))),
        servers={"s0": "h0 3", "s1": "h0 4", "s2": "h2 1", "s3": "h2 5"},
    )
    request = query(group(VCPU=2))
    moves = moves_for(base, request)
    # Beside the servers of h0 it fits on h3 only, beside those of h2 on h1 only.
    kept_reserve = reserve.capacity_with_failures(moves, cases.wanted(request), hosts_of(base), 1)
    assert kept_reserve == reserve.Reserve(1, 0, 1)
    assert brute_keep(moves, request, 1) == 0


def test_a_host_whose_servers_find_no_room_is_named() -> None:
    base = clouds.cloud(provider("a", VCPU=8), provider("b", VCPU=2), servers={"s": "a 4"})
    request = query(group(VCPU=1))
    moves, wanted = moves_for(base, request), cases.wanted(request)
    kept_reserve = reserve.capacity_with_failures(moves, wanted, hosts_of(base), 1)
    assert kept_reserve == reserve.Reserve(1, 0, 0, unsafe=("a",))


def test_without_time_the_number_is_an_upper_bound() -> None:
    base = clouds.cloud(*(provider(f"h{n}", VCPU=8) for n in range(40)))
    request = query(group(VCPU=2))
    moves = moves_for(base, request)
    moves.budget = budgets.SearchBudget(0.0)
    kept_reserve = reserve.capacity_with_failures(moves, cases.wanted(request), hosts_of(base), 3)
    assert (kept_reserve.least, kept_reserve.is_complete) == (0, False)
    assert kept_reserve.most >= 4 * 37
