"""The checks of the provider audit. A new check is a file in this folder and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.finding import UNKNOWN, Action, Evidence, Proposal
from osc_placement.workflows.provider_audit import (
    agents,
    configuration,
    devices,
    identity,
    totals,
    traits,
)
from osc_placement.workflows.provider_audit.finding import Finding
from osc_placement.workflows.provider_audit.snapshot import ProviderSnapshot

#: Each returns findings with the codes of its module.
CHECKS: Sequence[Callable[[ProviderSnapshot], Iterator[Finding]]] = (
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


def find(snapshot: ProviderSnapshot) -> list[Finding]:
    """All findings, sorted."""
    found = [item for check in CHECKS for item in check(snapshot)]
    return sorted([*found, *_unread(snapshot)], key=Finding.sort_key)


def select(
    findings: Iterable[Finding], hosts: Collection[str] = (), codes: Collection[str] = ()
) -> list[Finding]:
    """The findings about some hosts and with some codes; an empty collection selects all."""
    return [
        item
        for item in findings
        if (not hosts or any(host in hosts for host in (*item.hosts, item.subject.name)))
        and (not codes or item.code in codes)
    ]


def _unread(snapshot: ProviderSnapshot) -> Iterator[Finding]:
    for item in snapshot.providers:
        error = snapshot.read_errors.get(item.uuid)
        if error is not None:
            yield Finding(
                UNKNOWN,
                change.Subject(item.name, item.uuid),
                snapshot.hosts_of(item),
                Evidence(Code.UNREADABLE, f"it cannot be read: {error}", {"error": error}),
                Proposal(Action.RUN_AGAIN, "run the command again"),
            )
