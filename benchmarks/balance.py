# SPDX-License-Identifier: Apache-2.0
"""Lopsided clouds in memory, the plans that balance them, and the fewest moves by CP-SAT.

CP-SAT (``ortools``) knows no order and no room beside the source: it is asked for the fewest moves
after which every host has room and the spread is within the limit. So its bound holds for plans.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Sequence

from osc_placement import testing
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.moving import balance, evenness, places
from tests.support.candidates import clouds

#: ``(VCPU, MEMORY_MB, how often)`` of flavors.
FLAVORS = (
    (1, 2048, 30),
    (2, 4096, 25),
    (4, 8192, 20),
    (8, 16384, 10),
    (4, 32768, 8),
    (16, 65536, 4),
)
CLASS = "MEMORY_MB"


def draw_cloud(
    draw: random.Random, hosts: int, number: int, weights: Sequence[int] = (0, 1, 2, 3, 5)
) -> state.CloudState:
    """Hosts of two sizes with servers; how many of them a host has grows with its weight."""
    cloud, left = testing.Cloud(), {}
    for at in range(hosts):
        vcpus, memory = draw.choice(((96, 384 * 1024), (128, 512 * 1024)))
        cloud.host(f"h{at:04}", VCPU={"total": vcpus, "allocation_ratio": 4.0}, MEMORY_MB=memory)
        left[f"h{at:04}"] = [4 * vcpus, memory]
    of_host = [draw.choice(weights) for _ in left]
    for at in range(number):
        vcpus, memory, _ = draw.choices(FLAVORS, [often for *_, often in FLAVORS])[0]
        for host in draw.choices([*left], of_host, k=50):
            if left[host][0] >= vcpus and left[host][1] >= memory:
                left[host][0] -= vcpus
                left[host][1] -= memory
                cloud.server(f"s{at:05}", {host: {"VCPU": vcpus, CLASS: memory}})
                break
    return clouds.state_of(cloud)


def plan(base: state.CloudState, within: float, seconds: float | None = None) -> balance.Balanced:
    """The plan that balances a cloud of ``draw_cloud``."""
    roots = list(base.providers)
    placed = servers.servers_on(base, roots)
    moves = places.Moves(base, placed, SearchBudget(seconds), is_aimed=True)
    return balance.find(moves, balance.EvenPart(roots, CLASS, placed), within, 1 << 20, {})


def solve(
    base: state.CloudState, within: float, seconds: float, hint: balance.Balanced
) -> tuple[int, int]:
    """``(the fewest moves that CP-SAT finds, its bound)``; it begins with the plan ``hint``."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    roots = list(base.providers)
    groups: collections.Counter[tuple[str, int, int]] = collections.Counter()
    for consumer in base.consumers.values():
        ((root, amounts),) = consumer.allocations.items()
        groups[root, amounts["VCPU"], amounts[CLASS]] += 1
    kinds = sorted({(vcpus, memory) for _, vcpus, memory in groups})
    # How many of a kind leave a host, and how many come: who goes where does not matter.
    leave = {
        (root, kind): model.new_int_var(0, groups[root, *kind], "")
        for root in roots
        for kind in kinds
    }
    total = {kind: sum(groups[root, *kind] for root in roots) for kind in kinds}
    come = {(root, kind): model.new_int_var(0, total[kind], "") for root in roots for kind in kinds}
    for kind in kinds:
        model.add(
            sum(leave[root, kind] for root in roots) == sum(come[root, kind] for root in roots)
        )
    scale = 10_000
    lowest = model.new_int_var(0, scale, "")
    for root in roots:
        for at, name in enumerate(("VCPU", CLASS)):
            used = evenness.used_of(base, root, name) + sum(
                kind[at] * (come[root, kind] - leave[root, kind]) for kind in kinds
            )
            capacity = evenness.capacity_of(base, root, name)
            model.add(used <= capacity)
            if name == CLASS:
                model.add(used * scale >= lowest * capacity)
                model.add(used * scale <= (lowest + round(within * scale)) * capacity)
    left, came = collections.Counter(), collections.Counter()
    for step in hint.steps:
        amounts = step.server.allocations[step.server.root_uuid]
        kind = amounts["VCPU"], amounts[CLASS]
        left[step.server.root_uuid, kind] += 1
        came[step.option.root_uuid, kind] += 1
    for variables, numbers in ((leave, left), (come, came)):
        for key, variable in variables.items():
            model.add_hint(variable, numbers[key])
    model.add_hint(lowest, int(min(host.share for host in hint.after) * scale))
    model.minimize(sum(leave.values()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return -1, round(solver.best_objective_bound)
    return round(solver.objective_value), round(solver.best_objective_bound)
