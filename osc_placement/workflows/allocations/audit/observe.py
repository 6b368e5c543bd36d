"""Reads what the audit needs, and finds and plans: for ``allocation audit``."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Sequence

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import plan
from osc_placement.plan.kinds import allocations as kinds_allocations, inventories
from osc_placement.workflows.allocations import needs, plans
from osc_placement.workflows.allocations.audit import plan as audit_plan, providers
from osc_placement.workflows.allocations.audit.finding import AuditContext, Finding
from osc_placement.workflows.allocations.needs import Reads
from osc_placement.workflows.allocations.observe import CloudReader
from osc_placement.workflows.allocations.request import HealRequest
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.context import ReadContext

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
    found = audit_plan.find(snapshot, context)
    return audit_plan.select(found, request.hosts, request.only)


def _plan(snapshot: CloudSnapshot, findings: Sequence[Finding], notes: Sequence[str]) -> plan.Plan:
    existing = {kinds_allocations.TYPE.unit: sum(map(len, snapshot.allocations.values()))}
    planned = audit_plan.plan_repair(snapshot, findings)
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
