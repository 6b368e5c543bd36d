"""Laws of reshapes over random trees, inventories, consumers and moves, on the embedded server."""

from __future__ import annotations

import threading

import hypothesis

from osc_placement import microversion
from osc_placement.client import api, errors
from osc_placement.testing import service
from osc_placement.workflows import batch, execute, journal, outcome, plan, settle, undo
from osc_placement.workflows.reshape import document, invariant, observe, run, solve
from tests.unit.workflows.reshape import cases, world

READING = batch.Reading(workers=2)
FEW = hypothesis.settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
)


def prepared(client: api.Client, case: cases.Case) -> run.Prepared:
    moves = document.parse(case.moves, "moves")
    asked = run.Asked(moves, manner=solve.Manner(case.strategy, 5))
    return run.plan_reshape(client, asked, READING)


def carried_out(
    client: api.Client, made: plan.Plan, direction: settle.Direction = settle.Direction.APPLY
) -> list[outcome.Outcome]:
    around = settle.Circumstances(client, journal.Unkept(), threading.Event(), direction=direction)
    return execute.execute(made.changes, around, execute.Limits(workers=2)).outcomes


@hypothesis.given(case=cases.cases())
@FEW
def test_a_reshape_is_refused_and_changes_nothing_or_keeps_every_law_and_can_be_taken_back(
    case: cases.Case,
) -> None:
    with service.InProcessPlacement(load=case.state) as placement:
        client = placement.client(microversion.MAXIMUM)
        before = placement.app.export()
        try:
            found = prepared(client, case)
        except errors.InvalidInput:
            hypothesis.event("refused")
            assert placement.app.export() == before
            return
        assert placement.app.export() == before
        hypothesis.event("moved consumers" if found.placed else "moved inventories")
        hypothesis.event(f"class changes {case.changes}, goes {'delete' in case.moves}")
        statuses = {item.status for item in carried_out(client, found.planned.plan)}
        assert statuses <= {outcome.Status.APPLIED}
        cases.check_laws(case, before, placement.app.export())
        left = observe.observe_picture(client, found.wanted.roots, READING)
        assert found.rehearsed is not None
        assert invariant.difference(left, found.wanted) == []
        assert invariant.difference(left, found.rehearsed.left) == []
        inverse = undo.inverse(found.planned.plan)
        taken_back = carried_out(client, inverse, settle.Direction.UNDO)
        assert {item.status for item in taken_back} <= {outcome.Status.APPLIED}
        after = placement.app.export()
        assert world.without_generations(after) == world.without_generations(before)
