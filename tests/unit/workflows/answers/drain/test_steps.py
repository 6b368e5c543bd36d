# SPDX-License-Identifier: Apache-2.0
"""The order of moves that empties hosts, beside brute force over all orders."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from osc_placement import microversion
from osc_placement.engine import allocation, draft, state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import allocation as model
from osc_placement.search import placing
from osc_placement.workflows.answers.capacity import count, moves as capacity_moves, servers
from osc_placement.workflows.answers.drain import steps
from tests.support.candidates import cloud_builder, clouds
from tests.support.candidates.clouds import provider
from tests.support.capacity import brute_force


class Pack:
    """The targets in the order of their UUIDs."""

    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: steps.Amounts
    ) -> tuple[str, ...]:
        return (option.root_uuid,)

    def why(
        self,
        server: servers.PlacedServer,
        option: placing.Option,
        left: steps.Amounts,
        possible: int,
    ) -> str:
        return f"{possible} possible"


def moves_of(base: state.CloudState) -> capacity_moves.Moves:
    known = servers.servers_on(base, count.hosts_of(base))
    return capacity_moves.Moves(base, known, budgets.SearchBudget())


def planned(
    base: state.CloudState, stopped: Sequence[str], parallel: int = 1
) -> tuple[capacity_moves.Moves, steps.Schedule]:
    moves = moves_of(base)
    return moves, steps.schedule(moves, stopped, moves.servers_on(stopped), Pack(), parallel)


def holder(server: servers.PlacedServer) -> str:
    """The consumer that holds the source of a server while it moves."""
    return f"migration of {server.key}"


def begin(
    base: state.CloudState, server: servers.PlacedServer, target: model.Allocations
) -> state.CloudState:
    """The server has its target, and its migration the source. Raises the engine's errors."""
    own = base.consumers[server.uuid].allocations
    kept = {uuid: amounts for uuid, amounts in own.items() if uuid not in server.allocations}
    before = {uuid: own[uuid] for uuid in server.allocations}
    changed = draft.Draft(base, now=0.0)
    both = {uuid: {**kept.get(uuid, {}), **amounts} for uuid, amounts in target.items()}
    allocation.write(
        changed,
        [
            allocation.Claim(holder(server), before),
            allocation.Claim(server.uuid, {**kept, **both}),
        ],
    )
    after = base.copy()
    after.apply(changed.changes())
    return after


def end(base: state.CloudState, server: servers.PlacedServer) -> state.CloudState:
    changed = draft.Draft(base, now=0.0)
    allocation.write(changed, [allocation.Claim(holder(server), {})])
    after = base.copy()
    after.apply(changed.changes())
    return after


def has_order(
    base: state.CloudState, waiting: Sequence[servers.PlacedServer], stopped: Sequence[str]
) -> bool:
    """Whether some order of moves, each to any target, moves all of them."""
    failed: set[tuple[frozenset[str], brute_force.Usage]] = set()
    elsewhere = brute_force.without_trees(base, stopped)

    def rest(current: state.CloudState, waiting: tuple[servers.PlacedServer, ...]) -> bool:
        if not waiting:
            return True
        reached = frozenset(each.key for each in waiting), brute_force.usage(current)
        if reached in failed:
            return False
        for server in waiting:
            others = tuple(each for each in waiting if each is not server)
            for target in brute_force.claims(current, server.query, elsewhere):
                if rest(end(begin(current, server, target), server), others):
                    return True
        failed.add(reached)
        return False

    return rest(base, tuple(waiting))


def allocations_of(option: placing.Option) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in option.amounts.items():
        found.setdefault(uuid, {})[name] = amount
    return found


def carry_out(base: state.CloudState, planned_steps: Sequence[steps.DrainStep]) -> state.CloudState:
    """Begin all moves of a wave before the first ends; the engine checks each claim."""
    for wave in sorted({step.wave for step in planned_steps}):
        running = [step for step in planned_steps if step.wave == wave]
        for step in running:
            base = begin(base, step.server, allocations_of(step.option))
        for step in running:
            base = end(base, step.server)
    return base


def draw_cloud(draw: random.Random) -> state.CloudState:
    base = brute_force.small_state(draw)
    queries = [cloud_builder.draw_query(draw, base, microversion.MAXIMUM) for _ in range(6)]
    return brute_force.with_servers(draw, base, queries)[0]


def draw_pools(draw: random.Random) -> state.CloudState:
    """Hosts in one or two of three small shared pools, so that the order decides."""
    pools = [
        provider(f"pool{n}", traits=clouds.SHARES, aggregates=f"A{n}", DISK_GB=draw.randint(4, 7))
        for n in range(3)
    ]
    hosts = [
        provider(
            f"h{n}",
            aggregates=" ".join(draw.sample(["A0", "A1", "A2"], draw.randint(1, 2))),
            VCPU=draw.randint(2, 4),
        )
        for n in range(draw.randint(2, 6))
    ]
    base = clouds.cloud(*pools, *hosts)
    for number in range(draw.randint(2, 7)):
        amounts = clouds.query(clouds.group(VCPU=1, DISK_GB=draw.randint(1, 3)))
        if found := list(brute_force.claims(base, amounts)):
            base = brute_force.claim(base, f"s{number}", draw.choice(found))
    return base


def check(base: state.CloudState, draw: random.Random) -> tuple[bool, bool]:
    """``(whether all servers move, whether they would at once)``, equal to brute force."""
    hosts = count.hosts_of(base)
    stopped = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    parallel = draw.choice((1, 2, 3))
    moves, schedule = planned(base, stopped, parallel)
    waiting = moves.servers_on(stopped)
    expected = has_order(base, waiting, stopped)
    assert (not schedule.left) == expected
    assert schedule.is_proven
    after = carry_out(base, schedule.steps)
    placed = {step.server.key for step in schedule.steps}
    assert placed | {each.key for each in schedule.left} == {each.key for each in waiting}
    for server in waiting:
        stays = not base.tree[server.root_uuid].isdisjoint(after.consumers[server.uuid].allocations)
        assert stays == (server.key not in placed)
    for wave in {step.wave for step in schedule.steps}:
        assert sum(step.wave == wave for step in schedule.steps) <= parallel
    return expected, moves.place(stopped) is not None


@pytest.mark.seeds(100, long=2000)
def test_all_servers_move_exactly_if_some_order_moves_them(seed: int) -> None:
    draw = random.Random(f"drain {seed}")
    check(draw_cloud(draw), draw)


def test_the_order_of_moves_between_shared_pools_is_found() -> None:
    answers = []
    for seed in range(150):
        draw = random.Random(f"pools {seed}")
        answers.append(check(draw_pools(draw), draw))
    # In some clouds all servers fit elsewhere at once, and still no order of moves leads there.
    assert answers.count((False, True)) >= 2
    assert answers.count((True, True)) >= 20


def test_steps_that_need_a_freed_pool_are_in_a_later_wave() -> None:
    base = clouds.cloud(
        provider("pool", traits=clouds.SHARES, aggregates="A", DISK_GB=26),
        provider("a", aggregates="A", VCPU=2),
        provider("b", aggregates="A", VCPU=2),
    )
    for name in ("s", "t"):
        base = brute_force.claim(base, name, {"a": {"VCPU": 1}, "pool": {"DISK_GB": 8}})
    _, schedule = planned(base, ["a"], parallel=5)
    assert [(step.server.uuid, step.wave) for step in schedule.steps] == [("t", 1), ("s", 2)]


def test_without_time_it_is_not_proven_that_servers_stay() -> None:
    draw = random.Random("hard")
    new = [{name: draw.randint(40, 60) for name in ("VCPU", "DISK_GB")} for _ in range(9)]
    base = clouds.cloud(
        provider("old", VCPU=2000, DISK_GB=2000),
        *(provider(f"h{number}", **offers) for number, offers in enumerate(new)),
    )
    left = {name: sum(offers[name] for offers in new) for name in ("VCPU", "DISK_GB")}
    number = 0
    while min(left.values()) > 25:
        amounts = {name: draw.randint(7, 23) for name in left}
        left = {name: amount - amounts[name] for name, amount in left.items()}
        base = brute_force.claim(base, f"s{number}", {"old": amounts})
        number += 1
    known = servers.servers_on(base, ["old"])
    moves = capacity_moves.Moves(base, known, budgets.SearchBudget(0.001))
    schedule = steps.schedule(moves, ["old"], known, Pack())
    assert schedule.left
    assert not schedule.is_proven
