# SPDX-License-Identifier: Apache-2.0
"""The fewest and smallest moves to even hosts, beside brute force over all sequences of moves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from osc_placement.engine import state
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import balance, evenness
from tests.support.candidates import clouds
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import cases, drains

NEVER = evenness.NEVER
#: Enough for every small cloud.
EFFORT = 10_000_000


def amounts(base: state.CloudState, roots: Sequence[str], name: str) -> dict[str, Fraction]:
    """``{host: the share of a class that is used}``, from the records."""
    shares = {}
    for root in roots:
        own = [uuid for uuid in base.tree[root] if clouds.SHARES not in base.providers[uuid].traits]
        total = sum(
            base.providers[uuid].inventories[name].capacity
            for uuid in own
            if name in base.providers[uuid].inventories
        )
        used = sum(base.used(uuid).get(name, 0) for uuid in own)
        if total:
            shares[root] = Fraction(used, total)
    return shares


def spread(base: state.CloudState, roots: Sequence[str], name: str) -> Fraction:
    shares = amounts(base, roots, name)
    return max(shares.values()) - min(shares.values())


@pytest.mark.seeds(60, long=500)
def test_a_plan_exists_if_one_does_and_has_the_fewest_and_smallest_moves(seed: int) -> None:
    draw = random.Random(f"balance {seed}")
    base, servers, groups, hypervisors = drains.draw_with_nova(draw)
    name = draw.choice(("VCPU", "VCPU", "DISK_GB", "MEMORY_MB"))
    roots = sorted(amounts(base, hosts_of(base), name))
    if len(roots) < 2:
        return
    movable = [it for it in servers if not it.together and it.root_uuid in roots]
    within = draw.choice((Fraction(0), *(Fraction(1, parts) for parts in (10, 5, 4, 3, 2))))
    moves = drains.moves_of(base, servers, (), groups.values())
    part = balance.EvenPart(roots, name, movable)
    answer = balance.find(moves, part, float(within), NEVER, {}, effort=EFFORT)
    expected = drains.least(
        base,
        lambda current: spread(current, roots, name) <= within,
        movable,
        len(movable),
        groups,
        hypervisors,
        only_to=roots,
    )
    after = drains.follow(base, answer.steps, (), groups, hypervisors)
    assert {it.root: Fraction(it.used, it.capacity) for it in answer.after} == amounts(
        after, roots, name
    )
    assert spread(after, roots, name) >= answer.least_spread - evenness.TOLERANCE
    assert answer.is_reached == (expected is not None)
    if expected is not None:
        assert drains.size_of_steps(answer.steps) == expected
        assert (answer.at_least, answer.is_smallest) == (expected[0], True)
        again = drains.moves_of(after, None, (), groups.values())
        movable = [it for it in drains.placed(after) if it.root_uuid in roots]
        part = balance.EvenPart(roots, name, movable)
        assert balance.find(again, part, float(within), NEVER, {}).steps == ()


class Flat:
    """A cloud of flat hosts with two classes, as numbers: much faster to try all moves of."""

    def __init__(self, draw: random.Random) -> None:
        hosts = draw.randint(2, 6)
        self.capacity = [(draw.randint(8, 20), draw.randint(16, 40)) for _ in range(hosts)]
        left = [list(both) for both in self.capacity]
        self.servers: list[tuple[int, int, int]] = []
        weights = [draw.choice((1, 2, 6)) for _ in range(hosts)]
        for _ in range(draw.randint(2, 12)):
            host, amount, memory = (
                draw.choices(range(hosts), weights)[0],
                draw.randint(1, 5),
                draw.randint(1, 8),
            )
            if left[host][0] >= amount and left[host][1] >= memory:
                left[host][0] -= amount
                left[host][1] -= memory
                self.servers.append((host, amount, memory))
        self.flavor = draw.choice((None, (draw.randint(4, 12), draw.randint(4, 20))))
        self.start = tuple((pair[0], pair[1]) for pair in left)

    def base(self) -> state.CloudState:
        return clouds.cloud(
            *(
                provider(f"h{at}", VCPU=vcpus, MEMORY_MB=memory)
                for at, (vcpus, memory) in enumerate(self.capacity)
            ),
            servers={
                f"s{at:02}": {f"h{host}": {"VCPU": amount, "MEMORY_MB": memory}}
                for at, (host, amount, memory) in enumerate(self.servers)
            },
        )

    def is_even(self, left: Sequence[tuple[int, int]], within: Fraction) -> bool:
        shares = [
            Fraction(total[0] - free[0], total[0])
            for total, free in zip(self.capacity, left, strict=True)
        ]
        return max(shares) - min(shares) <= within

    def keeps_last_place(
        self, left: Sequence[tuple[int, int]], host: int, amount: int, memory: int
    ) -> bool:
        if self.flavor is None:
            return True
        fitting = [
            at
            for at, free in enumerate(left)
            if free[0] >= self.flavor[0] and free[1] >= self.flavor[1]
        ]
        there = left[host][0] - amount, left[host][1] - memory
        return fitting != [host] or (there[0] >= self.flavor[0] and there[1] >= self.flavor[1])

    def least(self, within: Fraction, most_states: int) -> tuple[int, int] | int | None:
        """As ``least``; a number if so many moves were tried and there are too many states."""
        reached = {(frozenset[tuple[int, int]](), self.start): 0}
        for depth in range(len(self.servers) + 1):
            sizes = [total for (_, left), total in reached.items() if self.is_even(left, within)]
            if sizes:
                return depth, min(sizes)
            if len(reached) > most_states:
                return depth
            after: dict[tuple[frozenset[tuple[int, int]], tuple[tuple[int, int], ...]], int] = {}
            for (moved, left), total in reached.items():
                gone = {server for server, _ in moved}
                for at, (source, amount, memory) in enumerate(self.servers):
                    if at in gone:
                        continue
                    for host, (vcpus, free) in enumerate(left):
                        if host == source or vcpus < amount or free < memory:
                            continue
                        if not self.keeps_last_place(left, host, amount, memory):
                            continue
                        new = list(left)
                        new[host] = vcpus - amount, free - memory
                        new[source] = new[source][0] + amount, new[source][1] + memory
                        after[moved | {(at, host)}, tuple(new)] = total + amount + memory
            reached = after
        return None


@pytest.mark.seeds(20, long=500)
def test_up_to_twelve_servers_on_six_hosts_move_as_little_as_possible(seed: int) -> None:
    draw = random.Random(f"flat balance {seed}")
    flat = Flat(draw)
    within = draw.choice([Fraction(1, parts) for parts in (20, 10, 5, 4)])
    base = flat.base()
    roots, servers = sorted(base.providers), drains.placed(base)
    vcpus, memory = flat.flavor or (1, 1)
    wanted = cases.wanted(query(group(VCPU=vcpus, MEMORY_MB=memory)))
    moves = drains.moves_of(base, servers, [wanted])
    flavors = {"f": wanted} if flat.flavor else {}
    part = balance.EvenPart(roots, "VCPU", servers)
    expected = flat.least(within, 20_000)
    # A search that is not compared need not end.
    effort = 10_000 if isinstance(expected, int) else EFFORT
    answer = balance.find(moves, part, float(within), NEVER, flavors, effort=effort)
    after = drains.follow(base, answer.steps)
    if isinstance(expected, int):
        assert answer.is_reached == (spread(after, roots, "VCPU") <= within)
        assert not answer.is_reached or len(answer.steps) >= expected
    else:
        assert answer.is_reached == (expected is not None)
    if isinstance(expected, tuple):
        assert drains.size_of_steps(answer.steps) == expected
        assert answer.at_least == expected[0]


def test_without_time_no_moves_are_preferred() -> None:
    hosts = [provider(name, VCPU=4) for name in "abc"]
    base = clouds.cloud(*hosts, servers={"one": "a 2", "two": "a 2"})
    part = balance.EvenPart("abc", "VCPU", drains.placed(base))
    reached = []
    for seconds in (60, -1):
        moves = drains.moves_of(base).limited_to(seconds)
        reached.append(balance.find(moves, part, 0.5, NEVER, {}, effort=0).is_reached)
    assert reached == [True, False]
