# SPDX-License-Identifier: Apache-2.0
"""The order of moves that empties hosts, beside brute force over all orders."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import places as capacity_moves, steps
from tests.support.candidates import clouds
from tests.support.candidates.clouds import provider
from tests.support.capacity import drains


def planned(
    base: state.CloudState, stopped: Sequence[str], parallel: int = 1
) -> tuple[capacity_moves.Moves, steps.Schedule]:
    moves = drains.moves_of(base)
    return moves, steps.schedule(moves, stopped, moves.servers_on(stopped), drains.Pack(), parallel)


def check(
    draw: random.Random,
    base: state.CloudState,
    placed_servers: Sequence[servers.PlacedServer],
    groups: drains.Groups = drains.NO_GROUPS,
    hypervisors: drains.Hypervisors = drains.NO_HYPERVISORS,
) -> tuple[bool, bool]:
    """``(whether all servers move, whether they would at once)``, equal to brute force."""
    hosts = hosts_of(base)
    stopped = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    parallel = draw.choice((1, 2, 3))
    moves = drains.moves_of(base, placed_servers, groups=groups.values())
    waiting = moves.servers_on(stopped)
    schedule = steps.schedule(moves, stopped, waiting, drains.Pack(), parallel)
    expected = drains.has_order(base, waiting, stopped, groups, hypervisors)
    assert (not schedule.left) == expected
    assert schedule.is_proven
    drains.follow(base, schedule.steps, stopped, groups, hypervisors)
    after = drains.carry_out(base, schedule.steps)
    placed = {step.server.key for step in schedule.steps}
    assert placed | {each.key for each in schedule.left} == {each.key for each in waiting}
    for server in waiting:
        stays = not base.tree[server.root_uuid].isdisjoint(after.consumers[server.uuid].allocations)
        assert stays == (server.key not in placed)
    for wave in {step.wave for step in schedule.steps}:
        assert sum(step.wave == wave for step in schedule.steps) <= parallel
    return expected, moves.place(stopped) is not None


@pytest.mark.seeds(200, long=4000)
def test_all_servers_move_exactly_if_some_order_moves_them_under_all_conditions(seed: int) -> None:
    """Of nova's requests, of server groups and of hypervisors, which hold at every step."""
    draw = random.Random(f"drain with nova {seed}")
    check(draw, *drains.draw_with_nova(draw))


def test_an_answer_does_not_depend_on_the_order_in_which_nova_lists_servers() -> None:
    # In two of these clouds it did.
    for seed in (159, 773, *range(40)):
        draw = random.Random(f"order {seed}")
        base = drains.draw_cloud(draw, draw.choice(drains.SHAPES))
        listed, hosts = drains.placed(base), hosts_of(base)
        stopped = draw.sample(hosts, draw.randint(1, len(hosts)))
        answers = [
            (moves.place(stopped), steps.schedule(moves, stopped, waiting, drains.Pack()).steps)
            for order in (listed, draw.sample(listed, len(listed)))
            if (moves := drains.moves_of(base, order)) and (waiting := moves.servers_on(stopped))
        ]
        assert answers[:1] == answers[1:]


def test_the_order_of_moves_between_shared_pools_is_found() -> None:
    answers = []
    for seed in range(150):
        draw = random.Random(f"pools {seed}")
        base = clouds.draw_state(draw, "pools")
        answers.append(check(draw, base, drains.placed(base)))
    # In some clouds all servers fit elsewhere at once, and still no order of moves leads there.
    assert answers.count((False, True)) >= 2
    assert answers.count((True, True)) >= 20


def test_steps_that_need_a_freed_pool_are_in_a_later_wave() -> None:
    base = clouds.cloud(
        provider("pool", traits=clouds.SHARES, aggregates="A", DISK_GB=26),
        provider("a", aggregates="A", VCPU=2),
        provider("b", aggregates="A", VCPU=2),
        servers={name: {"a": {"VCPU": 1}, "pool": {"DISK_GB": 8}} for name in "st"},
    )
    _, schedule = planned(base, ["a"], parallel=5)
    assert [(step.server.uuid, step.wave) for step in schedule.steps] == [("t", 1), ("s", 2)]


def test_without_time_it_is_not_proven_that_servers_stay() -> None:
    base = drains.hard(random.Random("hard"), "old")
    placed_servers = servers.servers_on(base, ["old"])
    moves = capacity_moves.Moves(base, placed_servers, budgets.SearchBudget(0.001))
    schedule = steps.schedule(moves, ["old"], placed_servers, drains.Pack())
    assert schedule.left
    assert not schedule.is_proven
