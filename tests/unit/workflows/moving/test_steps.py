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


def check(base: state.CloudState, draw: random.Random) -> tuple[bool, bool]:
    """``(whether all servers move, whether they would at once)``, equal to brute force."""
    hosts = hosts_of(base)
    stopped = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    parallel = draw.choice((1, 2, 3))
    moves, schedule = planned(base, stopped, parallel)
    waiting = moves.servers_on(stopped)
    expected = drains.has_order(base, waiting, stopped)
    assert (not schedule.left) == expected
    assert schedule.is_proven
    after = drains.carry_out(base, schedule.steps)
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
    check(drains.draw_cloud(draw), draw)


def test_the_order_of_moves_between_shared_pools_is_found() -> None:
    answers = []
    for seed in range(150):
        draw = random.Random(f"pools {seed}")
        answers.append(check(clouds.draw_state(draw, "pools"), draw))
    # In some clouds all servers fit elsewhere at once, and still no order of moves leads there.
    assert answers.count((False, True)) >= 2
    assert answers.count((True, True)) >= 20


@pytest.mark.seeds(100, long=2000)
def test_conditions_of_nova_and_server_groups_hold_at_every_step(seed: int) -> None:
    draw = random.Random(f"drain with nova {seed}")
    base, placed_servers, groups, hypervisors = drains.draw_with_nova(draw)
    hosts = hosts_of(base)
    stopped = tuple(draw.sample(hosts, draw.randint(0, len(hosts))))
    moves = drains.moves_of(base, placed_servers, groups=groups.values())
    waiting = moves.servers_on(stopped)
    schedule = steps.schedule(moves, stopped, waiting, drains.Pack(), draw.choice((1, 2)))
    expected = drains.has_order(base, waiting, stopped, groups, hypervisors)
    assert (not schedule.left) == expected
    assert schedule.is_proven
    drains.follow(base, schedule.steps, stopped, groups, hypervisors)
    drains.carry_out(base, schedule.steps)


def test_no_live_step_goes_to_another_or_an_older_hypervisor() -> None:
    answers = []
    for seed in range(100):
        draw = random.Random(f"hypervisors {seed}")
        base = clouds.draw_state(draw, "flat")
        hypervisors = drains.draw_hypervisors(draw, base)
        placed_servers = drains.with_answers(base, drains.placed(base), hypervisors)
        stopped = draw.sample(hosts_of(base), draw.randint(1, 2))
        moves = drains.moves_of(base, placed_servers)
        waiting = moves.servers_on(stopped)
        schedule = steps.schedule(moves, stopped, waiting, drains.Pack())
        expected = drains.has_order(base, waiting, stopped, hypervisors=hypervisors)
        assert (not schedule.left) == expected
        assert all(
            hypervisors.accept(step.server, step.option.root_uuid) for step in schedule.steps
        )
        answers.append((expected, drains.has_order(base, waiting, stopped)))
    # In some clouds only the hypervisors are in the way.
    assert answers.count((False, True)) >= 10
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
