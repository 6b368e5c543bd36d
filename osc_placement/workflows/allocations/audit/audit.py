"""The audit: reads what it needs, finds with each check, and plans the repairs.

A new check is a module in this folder and an entry in ``STEPS``. Only ``audit_cloud`` sends
requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations, inventories
from osc_placement.plan.precondition import Precondition
from osc_placement.workflows.allocations import needs, plans
from osc_placement.workflows.allocations.audit import missing, orphaned, providers, wrong
from osc_placement.workflows.allocations.audit.finding import AuditContext, Finding
from osc_placement.workflows.allocations.heal_request import HealRequest
from osc_placement.workflows.allocations.needs import Reads
from osc_placement.workflows.allocations.observe import CloudReader
from osc_placement.workflows.allocations.ports import Bindings
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.finding import UNKNOWN


class Check(NamedTuple):
    """``find`` returns findings with ``codes``, in the order in which to repair them."""

    find: Callable[[CloudSnapshot, AuditContext], Iterator[Finding]]
    codes: tuple[str, ...]


#: The checks of a step judge the snapshot after the repairs of the steps before. The first step
#: frees what nothing uses, for servers that lack allocations.
STEPS: Sequence[Sequence[Check]] = (
    (
        Check(providers.find, providers.CODES),
        Check(orphaned.find, orphaned.CODES),
        Check(wrong.find_wrong_host, wrong.HOST_CODES),
    ),
    (Check(wrong.find_wrong_size, wrong.SIZE_CODES),),
    (Check(missing.find, missing.CODES),),
)

#: In the order in which the repairs of one consumer build on each other.
REPAIR_ORDER = tuple(code for step in STEPS for check in step for code in check.codes)

#: In the order in which the summary lists them.
CODES = (
    *orphaned.CODES,
    wrong.DOUBLED,
    missing.MISSING,
    wrong.WRONG_HOST,
    *wrong.SIZE_CODES,
    missing.WRONG_OWNER,
    missing.INCOMPLETE,
    *providers.CODES,
    UNKNOWN,
)


LOG = logging.getLogger(__name__)

#: Stages: within one stage, capacity may be freed too late for a change that needs it.
_FREEING, _TAKING = 0, 1


def find(snapshot: CloudSnapshot, context: AuditContext) -> list[Finding]:
    """All findings, in the order in which they are listed.

    A consumer may have several findings; each proposal builds on the proposals before.
    """
    found: list[Finding] = []
    for number, step in enumerate(STEPS):
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
    for finding in sorted(findings, key=lambda each: REPAIR_ORDER.index(each.code)):
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


_COMPUTE_NODE = "COMPUTE_NODE"

#: Services that allocate the same resources as nova, by their types in the catalog.
_OTHER_SERVICES = {"application-container": "Zun", "container": "Zun"}


@dataclasses.dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit: ``hosts`` by nova's names or by providers' names; empty for all.

    ``only``: findings with these codes; empty for all. ``min_age``: servers that changed within
    this number of seconds are not repaired. ``check_owners``: read every consumer for its owner.
    """

    hosts: frozenset[str] = frozenset()
    min_age: float = 0.0
    repair: bool = False
    only: frozenset[str] = frozenset()
    check_owners: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class AuditResult:
    """The findings, and the plan that repairs them; the plan is empty without ``repair``."""

    findings: Sequence[Finding]
    planned: plan.ObservedPlan


def audit_cloud(
    client: api.Client,
    nova: nova_api.Nova,
    request: AuditRequest,
    context: ReadContext | None = None,
    neutron: neutron_api.Neutron | None = None,
) -> AuditResult:
    """Everything that is wrong with allocations, and the plan that repairs it.

    Requests: ``CloudReader.read_cloud``; one per provider for its inventories, none if a summary
    has reported its capacities; one for the providers with the trait COMPUTE_NODE; one for the
    one-time-use devices, if a class without capacity is in use; those of
    ``plan_healing`` for owners; two per consumer that nova does not list, one to Placement and one
    to nova; for servers without allocations and for ports those of ``plan_healing``. To
    repair: one read per consumer to change.
    Errors: as ``read_cloud``; InvalidInput for unknown hosts.
    """
    heal_request = HealRequest(check_owners=request.check_owners)
    reader = CloudReader(client, nova, neutron, context, heal_request)
    snapshot = reader.read_cloud(with_deleted=True)
    _check_hosts(snapshot, request.hosts)
    snapshot = reader.complete(snapshot, needs.AUDIT_ROUNDS, reader.request)
    audit_context = AuditContext(
        now=datetime.datetime.now(datetime.UTC) - nova_api.clock_offset(nova),
        min_age=request.min_age,
        computes=lookup.providers_with_trait(client, _COMPUTE_NODE),
        one_time_use=(
            lookup.providers_with_trait(client, inventories.ONE_TIME_USE)
            if providers.has_use_without_capacity(snapshot)
            else frozenset()
        ),
        other_service=_other_service(nova),
        hosts=request.hosts,
        request=reader.request,
    )
    findings = _find(snapshot, audit_context, request)
    notes = needs.unchecked_owners(snapshot, reader.request)
    if nova.source:
        notes.append(f"nova's responses come from {nova.source}")
    if not request.repair:
        return AuditResult(findings, plan.ObservedPlan(_plan(snapshot, (), notes)))
    repairable = [finding.subject.uuid for finding in findings if finding.repair]
    snapshot = reader.read(snapshot, Reads(consumers=repairable))
    # A consumer may have changed since its allocations were read.
    findings = _find(snapshot, audit_context, request)
    planned = _plan(snapshot, findings, notes)
    return AuditResult(findings, plans.observed_plan(planned, snapshot))


def _find(snapshot: CloudSnapshot, context: AuditContext, request: AuditRequest) -> list[Finding]:
    found = find(snapshot, context)
    return select(found, request.hosts, request.only)


def _plan(snapshot: CloudSnapshot, findings: Sequence[Finding], notes: Sequence[str]) -> plan.Plan:
    existing = {kinds_allocations.TYPE.unit: sum(map(len, snapshot.allocations.values()))}
    planned = plan_repair(snapshot, findings)
    return dataclasses.replace(planned, notes=tuple(notes), existing=existing)


def _check_hosts(snapshot: CloudSnapshot, hosts: Collection[str]) -> None:
    known = {node.host for node in snapshot.hosts.nodes} | snapshot.hosts.services
    known |= {server.host for server in snapshot.servers.values() if server.host}
    known |= set(snapshot.provider_names.values())
    errors.InputErrors(
        f"nova has no compute host {host!r}, and Placement has no provider of that name"
        for host in sorted(set(hosts) - known)
    ).check()


def _other_service(nova: nova_api.Nova) -> str:
    """Another service of this cloud that allocates CPUs and memory; empty if there is none."""
    types = nova_api.service_types(nova)
    return next((name for each, name in _OTHER_SERVICES.items() if each in types), "")
