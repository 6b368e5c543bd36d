# SPDX-License-Identifier: Apache-2.0
"""Invariants of reshapes with random trees, inventories, consumers and moves."""

from __future__ import annotations

import threading

import hypothesis
import pytest

from osc_placement import errors, microversion
from osc_placement.client import api
from osc_placement.plan import apply as apply_module, attempt, executor, journal, plan, result
from osc_placement.plan.kinds import base
from osc_placement.testing import service
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.reshape import (
    consumers,
    documents,
    observe,
    reshape_plan,
)
from tests.support.reshape import cases, cloud_builder

READING = ReadContext(workers=2)


def prepare(client: api.Client, case: cases.Case) -> reshape_plan.Prepared:
    moves = documents.parse(case.moves, "moves")
    request = reshape_plan.ReshapeRequest(moves, options=consumers.AssignOptions(case.strategy, 5))
    return reshape_plan.plan_reshape(client, request, READING)


def apply(
    client: api.Client, item: plan.Plan, direction: attempt.Direction = attempt.Direction.APPLY
) -> list[result.ChangeResult]:
    context = attempt.RunContext(
        base.Services(client), journal.MemoryJournal(), threading.Event(), direction=direction
    )
    return executor.execute(item.changes, context, executor.RunLimits(workers=2)).results


def test_a_reshape_is_refused_without_changes_or_keeps_the_invariants_and_can_be_undone(
    pytestconfig: pytest.Config,
) -> None:
    is_long = pytestconfig.getoption("--long")
    settings = hypothesis.settings(
        max_examples=1000 if is_long else 30,
        derandomize=not is_long,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    outcomes: set[str] = set()
    settings(hypothesis.given(cases.cases())(lambda case: outcomes.add(check(case))))()
    assert outcomes == {"refused", "moved consumers", "moved inventories"}


def check(case: cases.Case) -> str:
    """Plan, apply and undo the reshape of a case; what came of it."""
    with service.InProcessPlacement(load=case.state) as placement:
        client = placement.client(microversion.MAXIMUM)
        before = placement.app.export()
        try:
            found = prepare(client, case)
        except errors.InvalidInput:
            assert placement.app.export() == before
            return "refused"
        assert placement.app.export() == before
        statuses = {item.status for item in apply(client, found.planned.plan)}
        assert statuses <= {result.Status.APPLIED}
        cases.check_laws(case, before, placement.app.export())
        left = observe.read_trees(client, found.after.roots, READING)
        expected = reshape_plan.records(found.after)
        assert reshape_plan.differences(reshape_plan.records(left), expected) == []
        inverse = apply_module.inverse_of(found.planned.plan)
        undone = apply(client, inverse, attempt.Direction.UNDO)
        assert {item.status for item in undone} <= {result.Status.APPLIED}
        after = placement.app.export()
        assert cloud_builder.without_generations(after) == cloud_builder.without_generations(before)
        return "moved consumers" if found.placed else "moved inventories"
