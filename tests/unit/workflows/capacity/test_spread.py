# SPDX-License-Identifier: Apache-2.0
"""The fewest moves of ``placement capacity show --spread``, beside the plans of a balance."""

from __future__ import annotations

import random

import pytest

from benchmarks import balance
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.capacity import spread


@pytest.mark.seeds(15, long=400)
def test_no_plan_has_fewer_moves_than_the_spread_says(seed: int) -> None:
    draw = random.Random(f"spread {seed}")
    base = balance.draw_cloud(draw, draw.randint(2, 6), draw.randint(0, 60))
    within = draw.choice((0.0, 0.02, 0.1, 0.3))
    answer = balance.plan(base, within)
    rows = list(spread.spreads(base, ServerHosts(), [], within))
    of_memory = [row for row in rows if row.name == balance.CLASS]
    for row in of_memory:
        assert row.hosts[-1].share - row.hosts[0].share == row.spread
        assert (row.at_least is None) <= (not answer.is_reached)
        if row.at_least is not None and answer.is_reached:
            assert row.at_least <= len(answer.steps)
            assert (row.at_least == 0) is (row.spread <= within + 1e-9)
