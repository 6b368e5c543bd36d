# SPDX-License-Identifier: Apache-2.0
"""The invariants of reshapes on a real openstack-placement, which matches the rehearsal."""

from __future__ import annotations

import hypothesis
import pytest

from osc_placement import errors
from osc_placement.plan import apply as apply_module, attempt, result
from osc_placement.workflows.cloud import rehearsal
from osc_placement.workflows.reshape import observe
from tests.support.peer import loading, target as targets
from tests.support.reshape import cases
from tests.unit.workflows.reshape.test_rows import READING, apply, prepare


@pytest.mark.timeout(1800)
def test_a_real_placement_matches_the_rehearsal_and_undoes_it(
    real_placement: targets.RealPlacement, pytestconfig: pytest.Config
) -> None:
    settings = hypothesis.settings(
        max_examples=250 if pytestconfig.getoption("--long") else 5,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )

    @settings
    @hypothesis.given(case=cases.cases())
    def check_case(case: cases.Case) -> None:
        check(real_placement, case)

    check_case()


def check(real_placement: targets.RealPlacement, case: cases.Case) -> None:
    """Reshape and undo one cloud, and compare with the rehearsal."""
    real_placement.reset()
    loading.load(case.state, real_placement.ask)
    client, before = real_placement.client(), real_placement.state()
    try:
        prepared = prepare(client, case)
    except errors.InvalidInput:
        assert real_placement.state() == before
        return
    assert real_placement.state() == before
    statuses = {item.status for item in apply(client, prepared.planned.plan)}
    assert statuses <= {result.Status.APPLIED}
    left = observe.read_trees(client, prepared.after.roots, READING)
    expected = prepared.after.records()
    assert rehearsal.differences(left.records(), expected) == []
    inverse = apply_module.inverse_of(prepared.planned.plan)
    undone = apply(client, inverse, attempt.Direction.UNDO)
    assert {item.status for item in undone} <= {result.Status.APPLIED}
    assert real_placement.state() == before
