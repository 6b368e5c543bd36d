# SPDX-License-Identifier: Apache-2.0
"""Clouds in memory with servers on all hosts, and the legs in which they are emptied."""

from __future__ import annotations

import collections
import random
from collections.abc import Collection

from benchmarks import balance
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.workflows.cloud import nova_servers, servers
from osc_placement.workflows.moving import legs, places, reserve_plan, roll_plan, steps, targets
from tests.support.capacity import cases

ZONES = 3


def draw_cloud(draw: random.Random, hosts: int, number: int) -> state.CloudState:
    """Hosts of two sizes with about as many servers each."""
    return balance.draw_cloud(draw, hosts, number, (1,))


def plan(base: state.CloudState, at_once: int, per_zone: int, keep: int) -> legs.Legs:
    """The legs for all hosts of a cloud of ``draw_cloud``, as by ``placement host roll``."""
    roots = list(base.providers)
    moves = places.Moves(base, servers.servers_on(base, roots), SearchBudget(), is_aimed=True)

    def preference(
        now: places.Moves, stopped: Collection[str], waiting: Collection[str]
    ) -> steps.Targets:
        return roll_plan.Refill(targets.Preference(now, stopped, {}), waiting)

    reserve = None
    if keep:
        server_cases, compute = nova_servers.ServerCases(), cases.compute_of(base)
        reserve = reserve_plan.FailureReserve(base, server_cases, compute, keep, SearchBudget(), ())
    zones = {root: str(at % ZONES) for at, root in enumerate(roots)}
    return legs.find(
        moves, roots, legs.LegRules(at_once, per_zone, zones), preference, reserve=reserve
    )


def moves_per_server(base: state.CloudState, answer: legs.Legs) -> float:
    """In the mean."""
    moved = collections.Counter(it.server.uuid for leg in answer.legs for it in leg.steps)
    return sum(moved.values()) / len(base.consumers)
