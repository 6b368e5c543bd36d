"""The plan of heal: its decisions as changes. Pure."""

from __future__ import annotations

import dataclasses

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations
from osc_placement.workflows.allocations import plans, precondition
from osc_placement.workflows.allocations.decision import Decision, decide
from osc_placement.workflows.allocations.request import HealRequest
from osc_placement.workflows.allocations.snapshot import CloudSnapshot


def plan_heal(snapshot: CloudSnapshot, request: HealRequest) -> plan.Plan:
    """The changes that give servers what they lack; every other server with its reason.

    ``snapshot`` contains what ``needs.heal_rounds`` reads.
    """
    planned = plan.make(_item(snapshot, decision) for decision in decide(snapshot, request))
    return dataclasses.replace(planned, names=plans.provider_names(planned, snapshot))


def _item(snapshot: CloudSnapshot, decision: Decision) -> change.Change | change.Skipped:
    server = decision.server
    if decision.is_change:
        planned = kinds_allocations.planned(
            server.name,
            decision.before,
            decision.after,
            reason=decision.reason.text,
            precondition=precondition.of(server),
        )
        return plans.with_bindings(planned, snapshot, decision.bindings)
    state = kinds_allocations.ConsumerState.of(decision.before)
    subject = change.Subject(server.name or server.uuid, server.uuid)
    return change.Skipped(
        kinds_allocations.TYPE.name,
        subject,
        state,
        state,
        decision.reason.text,
        decision.reason.code,
        unchanged=not decision.reason,
        refused=decision.refused,
    )
