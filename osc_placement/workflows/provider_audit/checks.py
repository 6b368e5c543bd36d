"""The checks of the provider audit. A new check is a file in this folder and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import memberships
from osc_placement.workflows import findings
from osc_placement.workflows.findings import UNKNOWN, Finding
from osc_placement.workflows.provider_audit import (
    agents,
    configuration,
    devices,
    identity,
    totals,
    traits,
)
from osc_placement.workflows.provider_audit.snapshot import ProviderFinding, ProviderSnapshot

#: Each returns findings with the codes of its module.
CHECKS: Sequence[Callable[[ProviderSnapshot], Iterator[ProviderFinding]]] = (
    identity.find,
    totals.find,
    traits.find,
    agents.find,
    configuration.find,
    devices.find,
)

#: In the order in which the summary lists them.
CODES = (
    *identity.CODES,
    *totals.CODES,
    *traits.CODES,
    *agents.CODES,
    *configuration.CODES,
    *devices.CODES,
    UNKNOWN,
)


def find(snapshot: ProviderSnapshot) -> list[ProviderFinding]:
    """All findings, sorted."""
    unread = (
        findings.unreadable(
            change.Subject(item.name, item.uuid),
            snapshot.hosts_of(item),
            snapshot.read_errors[item.uuid],
        )
        for item in snapshot.providers
        if item.uuid in snapshot.read_errors
    )
    found = [item for check in CHECKS for item in check(snapshot)]
    return sorted([*found, *unread], key=Finding.sort_key)


def plan_repair(snapshot: ProviderSnapshot, found: Iterable[ProviderFinding]) -> plan.Plan:
    """One change of traits per provider, for all its repairs; other findings are not in it."""
    return findings.plan_repair(found, lambda repairs: _change(snapshot, repairs))


def _change(
    snapshot: ProviderSnapshot, repairs: Sequence[tuple[ProviderFinding, Mapping[str, bool]]]
) -> change.Change:
    subject = repairs[0][0].subject
    traits = {name: has for _, repair in repairs for name, has in repair.items()}
    return change.Change(
        memberships.TRAITS.name,
        subject,
        memberships.Traits({name: not has for name, has in traits.items()}),
        memberships.Traits(traits),
        snapshot.generations[subject.uuid],
        "; ".join(item.code for item, _ in repairs),
    )
