# SPDX-License-Identifier: Apache-2.0
"""The fewest legs that empty the most hosts, beside brute force over all of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Hashable, Iterator, Sequence

import pytest

from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.search import placing
from osc_placement.workflows.cloud import nova_servers, servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import legs, places, reserve_plan, steps
from tests.support.candidates import clouds
from tests.support.candidates.clouds import provider
from tests.support.capacity import brute_force, cases, drains
from tests.unit.workflows.moving.test_reserve_plan import survives

#: Enough for every small cloud.
EFFORT = 1_000_000
#: States of which brute force tries all sequences of legs.
MOST_STATES = 300


class Refill(drains.Pack):
    """Hosts that wait come last, in the order of their names."""

    def __init__(self, waiting: Collection[str]) -> None:
        self._waiting = waiting

    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: steps.Amounts
    ) -> tuple[str, ...]:
        return ("1" if option.root_uuid in self._waiting else "0", option.root_uuid)


def preference(
    moves: places.Moves, stopped: Collection[str], waiting: Collection[str]
) -> steps.Targets:
    return Refill(waiting)


class TooMany(Exception):
    """Brute force would take too long."""


class BruteForce:
    """Every set of hosts, every order of their moves, every target."""

    def __init__(
        self,
        rules: legs.LegRules,
        groups: drains.Groups,
        safe: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self._rules, self._groups, self._safe = rules, groups, safe

    def _on(self, base: state.CloudState, roots: Sequence[str]) -> list[servers.PlacedServer]:
        return [
            server
            for server in drains.placed(base, groups=self._groups.values())
            if server.root_uuid in roots
        ]

    def ends(self, base: state.CloudState, roots: Sequence[str]) -> Iterator[state.CloudState]:
        """Each state in which the servers of some hosts are elsewhere."""
        elsewhere = brute_force.without_trees(base, roots)
        seen: set[Hashable] = set()
        reached = [base]
        while reached:
            current = reached.pop()
            if drains.places(current) in seen:
                continue
            seen.add(drains.places(current))
            if len(seen) > MOST_STATES:
                raise TooMany
            waiting = self._on(current, roots)
            if not waiting:
                yield current
            for server in waiting:
                for target in drains.targets_of(current, server, elsewhere, self._groups):
                    reached.append(drains.move(current, server, target))

    def allows(self, roots: Sequence[str]) -> bool:
        zones = [self._rules.zone_of.get(root, "") for root in roots]
        is_small = not self._rules.at_once or len(roots) <= self._rules.at_once
        limit = self._rules.per_zone
        return is_small and (not limit or all(zones.count(zone) <= limit for zone in zones))

    def is_safe(self, base: state.CloudState, stopped: Sequence[str]) -> bool:
        return all(
            survives(base, failed, stopped, self._groups)
            for failed in self._safe
            if set(failed).isdisjoint(stopped)
        )

    def best(self, base: state.CloudState, roots: Sequence[str]) -> tuple[int, int]:
        """``(the most hosts that are emptied, the fewest legs)``"""
        best = 0, 0
        reached = {(frozenset[str](), drains.places(base)): base}
        for depth in itertools.count(1):
            after = {}
            for (done, _), current in reached.items():
                waiting = [root for root in roots if root not in done]
                for size in range(1, len(waiting) + 1):
                    for chosen in itertools.combinations(waiting, size):
                        if not self.allows(chosen):
                            continue
                        for end in self.ends(current, chosen):
                            if self.is_safe(end, chosen):
                                after[done.union(chosen), drains.places(end)] = end
                        if len(after) > MOST_STATES:
                            raise TooMany
            if not after:
                return best
            reached = after
            most = max(len(done) for done, _ in reached)
            if most > best[0]:
                best = most, depth
        raise AssertionError


def draw_rules(draw: random.Random, hosts: Sequence[str]) -> legs.LegRules:
    zones = {root: draw.choice("ab") for root in hosts}
    return legs.LegRules(draw.choice((1, 1, 2, 3, 0)), draw.choice((0, 0, 1, 2)), zones)


def check(
    base: state.CloudState,
    answer: legs.Legs,
    force: BruteForce,
    groups: drains.Groups,
    safe: Sequence[tuple[str, ...]] = (),
) -> None:
    """Claim each step with nova's doubled allocations, and look at each moment."""
    emptied: list[str] = []
    for leg in answer.legs:
        assert force.allows(leg.roots)
        for step in leg.steps:
            base = drains.follow(base, [step], leg.roots, groups)
            for failed in safe:
                if set(failed).isdisjoint(leg.roots):
                    assert survives(base, failed, leg.roots, groups)
        left = drains.placed(base, groups=groups.values())
        assert not [server for server in left if server.root_uuid in leg.roots]
        emptied += leg.roots
    assert len(set(emptied)) == len(emptied)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("failures", [0, 1])
@pytest.mark.seeds(15, long=400)
def test_the_most_hosts_are_emptied_in_the_fewest_legs(failures: int, seed: int) -> None:
    draw = random.Random(f"legs {failures} {seed}")
    base = clouds.draw_state(draw, "flat" if failures else draw.choice(("pools", "flat", "flat")))
    groups = drains.draw_groups(draw, base) if draw.random() < 0.4 else {}
    hosts = hosts_of(base)
    roots = draw.sample(hosts, draw.randint(1, len(hosts)))
    rules = draw_rules(draw, hosts)
    placed = drains.placed(base, groups=groups.values())
    moves = drains.moves_of(base, placed, groups=groups.values())
    server_cases = nova_servers.ServerCases(groups=cases.members(base, groups.values()))
    possible = [*itertools.combinations(hosts, failures)] if failures else []
    safe = [failed for failed in possible if survives(base, failed, (), groups)]
    reserve = None
    if failures:
        budget = budgets.SearchBudget()
        compute = cases.compute_of(base)
        reserve = reserve_plan.FailureReserve(base, server_cases, compute, failures, budget, ())
    answer = legs.find(moves, roots, rules, preference, reserve=reserve, effort=EFFORT)
    force = BruteForce(rules, groups, safe)
    check(base, answer, force, groups, safe)
    emptied = [root for leg in answer.legs for root in leg.roots]
    assert sorted([*answer.left, *emptied]) == sorted(roots)
    try:
        expected = force.best(base, roots)
    except TooMany:
        return
    assert answer.is_proven
    assert (len(emptied), len(answer.legs)) == expected


def test_only_the_servers_of_the_first_leg_move_twice() -> None:
    hosts = [provider(name, VCPU=4) for name in "abcd"]
    base = clouds.cloud(*hosts, servers={f"on {name}": f"{name} 2" for name in "abcd"})
    answer = legs.find(drains.moves_of(base), "abcd", legs.LegRules(at_once=1), preference)
    moves = {
        leg.roots: [(it.server.uuid, it.option.root_uuid) for it in leg.steps]
        for leg in answer.legs
    }
    assert moves == {
        ("a",): [("on a", "b")],
        ("c",): [("on c", "a")],
        ("d",): [("on d", "a")],
        ("b",): [("on b", "c"), ("on a", "c")],
    }
    assert (answer.left, answer.is_proven) == ((), True)


@pytest.mark.parametrize(
    ("at_once", "per_zone", "expected"),
    [(1, 0, 5), (2, 0, 3), (0, 1, 3), (0, 2, 2), (0, 0, 1), (4, 2, 2), (2, 1, 3), (1, 3, 5)],
)
def test_the_rules_say_how_few_legs_can_have_all_hosts(
    at_once: int, per_zone: int, expected: int
) -> None:
    rules = legs.LegRules(at_once, per_zone, dict(zip("abcde", "xxxyy", strict=True)))
    assert rules.least_legs("abcde") == expected


def test_a_host_that_cannot_be_emptied_is_left_and_the_others_are_not() -> None:
    hosts = provider("a", VCPU=8), provider("b", VCPU=4), provider("c", VCPU=4)
    base = clouds.cloud(*hosts, servers={"large": "a 6", "small": "b 2"})
    answer = legs.find(drains.moves_of(base), "abc", legs.LegRules(at_once=1), preference)
    assert [leg.roots for leg in answer.legs] == [("c",), ("b",)]
    assert (answer.left, answer.is_proven) == (("a",), True)


#: ``{(VCPU of each host, hosts that are being emptied): {effort: (legs, left, is it proven)}}``.
SEARCHED: dict[tuple[str, str], dict[int, tuple[int, tuple[str, ...], bool]]] = {
    # More legs than the rules ask for.
    ("444", ""): {EFFORT: (3, (), True), 0: (3, (), False)},
    # More hosts than leg after leg, also if a host that is being emptied cannot be.
    ("254", ""): {EFFORT: (3, (), True), 0: (2, ("b",), False)},
    ("2549", "d"): {EFFORT: (3, ("d",), True)},
    # No leg may have all hosts that are being emptied.
    ("254", "abc"): {EFFORT: (2, ("b",), False)},
}


@pytest.mark.parametrize(("vcpus", "first"), SEARCHED)
def test_a_search_finds_better_legs_and_proves_them(vcpus: str, first: str) -> None:
    capacity = dict(zip("abcd", map(int, vcpus), strict=False))
    used = {f"on {name}": f"{name} {8 if name == 'd' else 3}" for name in capacity if name != "c"}
    base = clouds.cloud(*(provider(name, VCPU=it) for name, it in capacity.items()), servers=used)
    for effort, expected in SEARCHED[vcpus, first].items():
        moves, rules = drains.moves_of(base), legs.LegRules(at_once=2)
        answer = legs.find(moves, [*capacity], rules, preference, first=first, effort=effort)
        assert (len(answer.legs), answer.left, answer.is_proven) == expected
