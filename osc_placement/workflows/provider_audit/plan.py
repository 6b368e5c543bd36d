"""The changes that repair findings about providers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import memberships
from osc_placement.workflows.provider_audit.finding import Finding
from osc_placement.workflows.provider_audit.snapshot import ProviderSnapshot


def plan_repair(snapshot: ProviderSnapshot, findings: Iterable[Finding]) -> plan.Plan:
    """One change of traits per provider, for all its repairs; other findings are not in it."""
    after: dict[change.Subject, dict[str, bool]] = {}
    codes: dict[change.Subject, list[str]] = {}
    for item in findings:
        if item.repair:
            after.setdefault(item.subject, {}).update(item.repair)
            codes.setdefault(item.subject, []).append(item.code)
    return plan.make(
        change.Change(
            memberships.TRAITS.name,
            subject,
            memberships.Traits({name: not has for name, has in traits.items()}),
            memberships.Traits(traits),
            snapshot.generations[subject.uuid],
            "; ".join(codes[subject]),
        )
        for subject, traits in after.items()
    )
