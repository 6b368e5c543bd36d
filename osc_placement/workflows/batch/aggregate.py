"""Planning which placement aggregates providers are in: pure. Called by ``batch``."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.plan import plan
from osc_placement.plan.kinds import memberships
from osc_placement.workflows.batch import membership


def plan_aggregates(
    observed: Iterable[membership.Observed], request: membership.Request
) -> plan.Plan:
    """Aggregates (UUIDs) added to and removed from each provider."""
    return plan.make(membership.decide(memberships.AGGREGATES, item, request) for item in observed)
