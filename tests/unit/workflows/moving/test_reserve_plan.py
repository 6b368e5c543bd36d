# SPDX-License-Identifier: Apache-2.0
"""What ``--keep`` holds free, beside brute force over all failures."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence

import pytest

from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import allocation
from osc_placement.workflows.cloud import nova_servers, servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import planner, reserve_plan, steps
from tests.support.candidates import clouds
from tests.support.candidates.clouds import provider
from tests.support.capacity import brute_force, cases, drains


def survives(
    base: state.CloudState,
    failed: Sequence[str],
    stopped: Sequence[str],
    groups: drains.Groups = drains.NO_GROUPS,
) -> bool:
    """Whether the servers of failed hosts can be claimed on hosts that did not fail or stop."""
    lost = [
        each for each in drains.placed(base, groups=groups.values()) if each.root_uuid in failed
    ]
    elsewhere = brute_force.without_trees(base, [*failed, *stopped])
    current = base
    for server in lost:
        # nova evacuates to the target and frees the source when nova-compute is back; what is in
        # use of a failed host does not matter, and a shared pool has the server's part once.
        current = brute_force.claim(current, server.uuid, _kept(current, server))

    def rest(current: state.CloudState, waiting: Sequence[servers.PlacedServer]) -> bool:
        if not waiting:
            return True
        server, *others = waiting
        return any(
            rest(brute_force.claim(current, server.uuid, target), others)
            for target in drains.targets_of(current, server, elsewhere, groups)
        )

    return rest(current, lost)


def _kept(base: state.CloudState, server: servers.PlacedServer) -> allocation.Allocations:
    own = base.consumers[server.uuid].allocations
    return {uuid: own[uuid] for uuid in own if uuid not in server.allocations}


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("with_groups", [False, True])
@pytest.mark.seeds(40, long=400)
def test_every_failure_that_was_survived_is_survived_after_each_step(
    failures: int, with_groups: bool, seed: int
) -> None:
    draw = random.Random(f"reserve {failures} {seed}")
    base = clouds.draw_state(draw, "flat")
    groups = drains.draw_groups(draw, base) if with_groups else {}
    hosts = hosts_of(base)
    stopped = draw.sample(hosts, draw.randint(1, len(hosts) - failures))
    possible = [*itertools.combinations(hosts, failures)]
    before = [each for each in possible if survives(base, each, (), groups)]
    server_cases = nova_servers.ServerCases(groups=cases.members(base, groups.values()))
    placed = drains.placed(base, groups=groups.values())
    moves = drains.moves_of(base, placed, groups=groups.values())
    kept = reserve_plan.FailureReserve(
        base, server_cases, cases.compute_of(base), failures, budgets.SearchBudget(), stopped
    )
    assert set(before) == set(possible) - set(kept.lost)
    schedule = steps.schedule(
        moves,
        stopped,
        moves.servers_on(stopped),
        drains.Pack(),
        is_kept=functools.partial(kept.is_kept, stopped),
    )
    # Without a step, a failure may be lost because the hosts take no server any more.
    for number in range(1, len(schedule.steps) + 1):
        after = steps.after(base, schedule.steps[:number])
        for failed in before:
            if set(failed).isdisjoint(stopped):
                assert survives(after, failed, stopped, groups), (failed, number)


def test_a_server_stays_if_its_move_would_use_the_reserve() -> None:
    hosts = [provider(name, VCPU=4) for name in "abc"]
    base = clouds.cloud(*hosts, servers={f"on {name}": f"{name} 2" for name in "abc"})
    moves = drains.moves_of(base)
    answers = {}
    for failures in (1, 2):
        kept = reserve_plan.FailureReserve(
            *(base, nova_servers.ServerCases(), cases.compute_of(base)),
            *(failures, budgets.SearchBudget(), ["a"]),
        )
        schedule = steps.schedule(
            *(moves, ["a"], moves.servers_on(["a"]), drains.Pack()),
            is_kept=functools.partial(kept.is_kept, ["a"]),
        )
        answers[failures] = (len(schedule.steps), len(schedule.kept_back), len(kept.lost))
    # With two of three hosts lost before, there is nothing to keep.
    assert answers == {1: (0, 1, 0), 2: (1, 0, 3)}


def test_a_reserve_that_takes_too_long_is_a_doubt() -> None:
    # Only a search finds 4 + 3 + 3 on both of the other hosts.
    hosts = provider("a", VCPU=20), provider("b", VCPU=10), provider("c", VCPU=10)
    sizes = enumerate((4, 4, 3, 3, 3, 3))
    base = clouds.cloud(*hosts, servers={f"s{number}": f"a {size}" for number, size in sizes})
    names = planner.StepNames(base, cases.compute_of(base), {})
    answers = {}
    for seconds in (60, -1):
        kept, caveats = reserve_plan.before_plan(names, nova_servers.ServerCases(), 1, seconds)
        answers[seconds] = (kept is not None and kept.lost, caveats.doubts)
    doubt = "whether any 1 host may fail after the plan: The search took more than -1 seconds."
    assert answers == {60: ((), ()), -1: (False, (doubt,))}
