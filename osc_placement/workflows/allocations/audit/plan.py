"""The findings of the audit and the plan that repairs them. Pure."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Iterator

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations
from osc_placement.plan.precondition import Precondition
from osc_placement.workflows.allocations import plans
from osc_placement.workflows.allocations.audit import checks
from osc_placement.workflows.allocations.audit.finding import AuditContext, Finding
from osc_placement.workflows.allocations.ports import Bindings
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.finding import UNKNOWN

LOG = logging.getLogger(__name__)

#: Stages: within one stage, capacity may be freed too late for a change that needs it.
_FREEING, _TAKING = 0, 1


def find(snapshot: CloudSnapshot, context: AuditContext) -> list[Finding]:
    """All findings, in the order in which they are listed.

    A consumer may have several findings; each proposal builds on the proposals before.
    """
    found: list[Finding] = []
    for number, step in enumerate(checks.STEPS):
        new = [finding for check in step for finding in check.find(snapshot, context)]
        if number == 0:
            doubted = {finding.subject.uuid for finding in new if finding.code == UNKNOWN}
        else:
            new = _without_amounts(new, doubted)
        snapshot = repaired(snapshot, new)
        found += new
    found = sorted(_once(found), key=Finding.sort_key)
    for finding in found:
        LOG.info("%s %s: %s", finding.code, finding.subject.uuid, finding.evidence.text)
    return found


def _without_amounts(findings: Iterable[Finding], doubted: Collection[str]) -> list[Finding]:
    """The findings, without changes of amounts for servers whose location is in doubt.

    What such a server holds elsewhere may turn out to be right.
    """
    return [
        finding
        for finding in findings
        if finding.subject.uuid not in doubted or finding.repair is None or not finding.repair.parts
    ]


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Only the first unknown finding of each server."""
    doubted: set[str] = set()
    for finding in findings:
        if finding.code == UNKNOWN:
            if finding.subject.uuid in doubted:
                continue
            doubted.add(finding.subject.uuid)
        yield finding


def repaired(snapshot: CloudSnapshot, findings: Iterable[Finding]) -> CloudSnapshot:
    """The snapshot as it is after the repairs."""
    allocations = dict(snapshot.allocations)
    for finding in findings:
        if finding.repair is not None and finding.repair.parts:
            uuid = finding.subject.uuid
            before = dataclasses.replace(
                snapshot.consumer(uuid), allocations=allocations.get(uuid, {})
            )
            allocations[uuid] = finding.repair.apply(before).allocations
    kept = {uuid: held for uuid, held in allocations.items() if held}
    return dataclasses.replace(snapshot, allocations=kept)


def select(
    findings: Iterable[Finding], hosts: Collection[str] = (), codes: Collection[str] = ()
) -> list[Finding]:
    """The findings about some hosts and with some codes; an empty collection selects all."""
    return [
        finding
        for finding in findings
        if (not hosts or any(host in hosts for host in finding.hosts))
        and (not codes or finding.code in codes)
    ]


def plan_repair(snapshot: CloudSnapshot, findings: Iterable[Finding]) -> plan.Plan:
    """One change for each consumer with a repair; other findings are not in the plan.

    ``snapshot`` contains these consumers with their owners.
    """
    chosen: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.repair is not None:
            chosen.setdefault(finding.subject.uuid, []).append(finding)
    planned = plan.make(_change(snapshot, each) for each in chosen.values())
    return dataclasses.replace(planned, names=plans.provider_names(planned, snapshot))


def _change(snapshot: CloudSnapshot, findings: list[Finding]) -> change.Change:
    """One change for all repairs of a consumer."""
    before = after = snapshot.consumer(findings[0].subject.uuid)
    precondition: Precondition | None = None
    bindings: Bindings = {}
    frees = True
    for finding in sorted(findings, key=lambda each: checks.REPAIR_ORDER.index(each.code)):
        if finding.repair is None:
            raise AssertionError(finding)
        after = finding.repair.apply(after)
        precondition = finding.repair.precondition or precondition
        bindings |= finding.repair.bindings
        frees = frees and finding.repair.frees
    planned = kinds_allocations.planned(
        findings[0].subject.name,
        before,
        after,
        reason="; ".join(finding.code for finding in findings),
        stage=_FREEING if frees else _TAKING,
        precondition=precondition,
    )
    return plans.with_bindings(planned, snapshot, bindings)
