# SPDX-License-Identifier: Apache-2.0
"""The audit: reads what it needs, finds with each check, and plans the repairs.

A new check is a module in this folder and an entry in ``STEPS``. Only ``audit_cloud`` sends
requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model.name import counted
from osc_placement.neutron.api import Neutron
from osc_placement.nova import servers as nova_servers
from osc_placement.nova.api import Nova, clock_offset
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations, inventories
from osc_placement.scheduling.own_host import UnmetNeed
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.compute_nodes import host_names
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.allocations import (
    admission,
    leaked,
    missing,
    observe,
    orphaned,
    preconditions,
    providers,
    repair,
    stuck,
    wrong,
)
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.allocations.observe import HealReader
from osc_placement.workflows.repair.allocations.repair import (
    AllocationFinding,
    AuditContext,
    Repair,
)
from osc_placement.workflows.repair.findings import UNKNOWN, AuditResult, Finding

LOG = logging.getLogger(__name__)


class AuditCheck(NamedTuple):
    """``find`` returns findings with ``codes``, in the order in which to repair them."""

    find: Callable[[Cloud, AuditContext], Iterator[AllocationFinding]]
    codes: tuple[str, ...]


#: The checks of a step read the snapshot after the repairs of the steps before. The first steps
#: free what nothing uses, for servers that lack allocations. What a migration left on the host of
#: its server comes before the server's own allocations move there.
STEPS: Sequence[Sequence[AuditCheck]] = (
    (AuditCheck(leaked.find, leaked.CODES),),
    (
        AuditCheck(providers.find, providers.CODES),
        AuditCheck(stuck.find, stuck.CODES),
        AuditCheck(orphaned.find, orphaned.CODES),
        AuditCheck(wrong.find_wrong_host, wrong.HOST_CODES),
    ),
    (AuditCheck(wrong.find_wrong_size, wrong.SIZE_CODES),),
    (AuditCheck(missing.find, missing.CODES),),
)

#: The number of steps that say where consumers are; the others compare amounts.
_LOCATING = 2

#: In the order in which the repairs of one consumer build on each other.
REPAIR_ORDER = tuple(code for step in STEPS for check in step for code in check.codes)

#: In the order in which the summary lists them.
CODES = (
    *orphaned.CODES,
    *leaked.CODES,
    wrong.DOUBLED,
    missing.MISSING,
    wrong.WRONG_HOST,
    *wrong.SIZE_CODES,
    missing.WRONG_OWNER,
    missing.INCOMPLETE,
    *providers.CODES,
    *stuck.CODES,
    UNKNOWN,
)


#: Stages: within one stage, capacity may be freed too late for a change that needs it.
_FREEING, _TAKING = 0, 1


def find(snapshot: Cloud, context: AuditContext) -> list[AllocationFinding]:
    """All findings, in the order in which they are listed.

    A consumer may have several findings; each proposal builds on the proposals before.
    """
    all_findings: list[AllocationFinding] = []
    doubted: frozenset[str] = frozenset()
    for number, step in enumerate(STEPS):
        new = [finding for check in step for finding in check.find(snapshot, context)]
        if number < _LOCATING:
            doubted |= {finding.subject.uuid for finding in new if finding.code == UNKNOWN}
        else:
            new = _without_amounts(new, doubted)
        snapshot = repaired(snapshot, new)
        all_findings += new
    all_findings = sorted(_once(all_findings), key=Finding.sort_key)
    for finding in all_findings:
        LOG.info("%s %s: %s", finding.code, finding.subject.uuid, finding.evidence.text)
    return all_findings


def _without_amounts(
    new: Iterable[AllocationFinding], doubted: Collection[str]
) -> list[AllocationFinding]:
    """The findings, without changes of amounts for servers whose location is in doubt.

    What such a server holds elsewhere may turn out to be right.
    """
    return [
        finding
        for finding in new
        if finding.subject.uuid not in doubted or finding.repair is None or not finding.repair.parts
    ]


def _once(new: Iterable[AllocationFinding]) -> Iterator[AllocationFinding]:
    """Only the first unknown finding of each server."""
    doubted: set[str] = set()
    for finding in new:
        if finding.code == UNKNOWN:
            if finding.subject.uuid in doubted:
                continue
            doubted.add(finding.subject.uuid)
        yield finding


def repaired(snapshot: Cloud, new: Iterable[AllocationFinding]) -> Cloud:
    """The snapshot as it is after the repairs."""
    allocations = dict(snapshot.allocations)
    for finding in new:
        if finding.repair is not None and finding.repair.parts:
            uuid = finding.subject.uuid
            before = dataclasses.replace(
                snapshot.consumer(uuid), allocations=allocations.get(uuid, {})
            )
            allocations[uuid] = finding.repair.apply(before).allocations
    kept = {uuid: parts for uuid, parts in allocations.items() if parts}
    return snapshot.with_allocations(kept)


def plan_repair(snapshot: Cloud, chosen: Iterable[AllocationFinding]) -> plan.Plan:
    """One change for each consumer with a repair; other findings are not in the plan.

    ``snapshot`` contains these consumers with their owners.
    """
    planned = findings.plan_repair(chosen, lambda repairs: _change(snapshot, repairs))
    return dataclasses.replace(planned, names=repair.provider_names(planned, snapshot))


def _change(
    snapshot: Cloud, repairs: Sequence[tuple[AllocationFinding, Repair]]
) -> change.Change[Any]:
    """One change for all repairs of a consumer."""
    ordered = sorted(repairs, key=lambda item: REPAIR_ORDER.index(item[0].code))
    return repair.change_of(
        snapshot,
        repairs[0][0].subject,
        [repair for _, repair in ordered],
        "; ".join(item.code for item, _ in repairs),
        _FREEING if all(repair.frees for _, repair in repairs) else _TAKING,
    )


_COMPUTE_NODE = "COMPUTE_NODE"

#: Nova's own last steps of a move or a deletion take seconds.
MIN_AGE = 60


@dataclasses.dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit: ``hosts`` by nova's names or by providers' names; empty for all.

    ``only``: findings with these codes; empty for all. ``min_age``: servers that changed within
    this number of seconds are not repaired. ``check_owners``: read every consumer for its owner.
    ``consumers``: UUIDs of consumers, or names of servers; empty for all. ``trusts_nova``: as in
    ``Cloud``.
    """

    hosts: frozenset[str] = frozenset()
    min_age: float = 0.0
    repair: bool = False
    only: frozenset[str] = frozenset()
    check_owners: bool = False
    consumers: frozenset[str] = frozenset()
    trusts_nova: bool = False


def audit_cloud(
    client: api.Client,
    nova: Nova,
    request: AuditRequest,
    context: ReadContext | None = None,
    neutron: Neutron | None = None,
) -> AuditResult[Repair]:
    """Everything that is wrong with allocations, and the plan that repairs it.

    Requests: ``HealReader.read_cloud``; one per provider for its inventories, none if a summary
    has reported its capacities and no server gets allocations there; one for the providers with the
    trait COMPUTE_NODE; one for the one-time-use devices, if a class without capacity is in use;
    those of ``plan_healing`` for owners; two per consumer that nova does not list, one to Placement
    and one to nova; for servers without allocations and for ports those of ``plan_healing``. With
    ``only`` MISSING those of ``admission.observe``. To repair: one read per consumer to change.
    Errors: as ``read_cloud``; InvalidInput for unknown hosts and consumers.
    """
    reader, snapshot, audit_context = read_cloud(client, nova, request, context, neutron)
    selected = _find(snapshot, audit_context, request)
    not_checked = observe.unchecked_owners(snapshot, reader.request)
    not_checked += nova_servers.unread(snapshot.servers.values())
    rules: dict[str, list[UnmetNeed]] = {}
    if missing.MISSING in request.only:
        try:
            rules = _admission(nova, snapshot, selected)
        except errors.PlacementError as error:
            not_checked.append(admission.NOT_READ.format(error=error))
    selected = _with_admission(selected, snapshot, rules)
    if neutron is None:
        not_checked.append("allocations of ports: neutron was not read")
    notes = [f"nova's responses come from {nova.source}"] if nova.source else []
    if not request.repair:
        return AuditResult(selected, plan.ObservedPlan(_plan(snapshot, (), notes)), not_checked)
    repairable = [item.subject.uuid for item in selected if item.repair]
    reader.read_consumers(snapshot, repairable)
    # A consumer may have changed since its allocations were read.
    selected = _with_admission(_find(snapshot, audit_context, request), snapshot, rules)
    planned = _plan(snapshot, selected, notes)
    return AuditResult(selected, repair.observed_plan(planned, snapshot), not_checked)


def _admission(
    nova: Nova, snapshot: Cloud, selected: Iterable[AllocationFinding]
) -> dict[str, list[UnmetNeed]]:
    """``{uuid: the rules that its host breaks}`` of servers without allocations."""
    uuids = {item.subject.uuid for item in selected} & snapshot.servers.keys()
    uuids -= snapshot.allocations.keys()
    return admission.observe(nova, snapshot, [snapshot.servers[uuid] for uuid in sorted(uuids)])


def _with_admission(
    selected: Iterable[AllocationFinding],
    snapshot: Cloud,
    rules: Mapping[str, Sequence[UnmetNeed]],
) -> list[AllocationFinding]:
    return [
        missing.with_admission(item, snapshot.servers[uuid], rules[uuid])
        if (uuid := item.subject.uuid) in rules
        else item
        for item in selected
    ]


class AuditReading(NamedTuple):
    """What ``find`` needs, and the reader for more."""

    reader: HealReader
    snapshot: Cloud
    context: AuditContext


def read_cloud(
    client: api.Client,
    nova: Nova,
    request: AuditRequest,
    context: ReadContext | None = None,
    neutron: Neutron | None = None,
) -> AuditReading:
    """Read what the audit needs. Requests and errors: those of ``audit_cloud``."""
    heal_request = HealRequest(check_owners=request.check_owners)
    reader = HealReader(client, nova, neutron, context, heal_request)
    snapshot = reader.read_cloud(with_deleted=True)
    hosts = host_names(request.hosts, snapshot.hosts, snapshot.providers.values())
    findings.check_hosts(hosts, _existing_hosts(snapshot))
    reader.read_everything(snapshot)
    consumers = _named_consumers(request.consumers, snapshot)
    if request.trusts_nova:
        # Without the moves that were located before.
        snapshot = dataclasses.replace(snapshot, trusts_nova=True)
    audit_context = AuditContext(
        now=datetime.datetime.now(datetime.UTC) - clock_offset(nova),
        min_age=request.min_age,
        computes=snapshot.with_trait.get(_COMPUTE_NODE, frozenset()),
        one_time_use=(
            snapshot.with_trait.get(inventories.ONE_TIME_USE, frozenset())
            if providers.has_use_without_capacity(snapshot)
            else frozenset()
        ),
        other_service=preconditions.other_service(nova),
        hosts=hosts,
        consumers=consumers,
        request=reader.request,
    )
    return AuditReading(reader, snapshot, audit_context)


def _find(snapshot: Cloud, context: AuditContext, request: AuditRequest) -> list[AllocationFinding]:
    return findings.select(
        find(snapshot, context), context.hosts, request.only, subjects=context.consumers
    )


def _plan(snapshot: Cloud, chosen: Sequence[AllocationFinding], notes: Sequence[str]) -> plan.Plan:
    existing = {kinds_allocations.TYPE.unit: sum(map(len, snapshot.allocations.values()))}
    planned = plan_repair(snapshot, chosen)
    older = providers.written_over_capacity(snapshot, planned)
    return dataclasses.replace(planned, notes=(*notes, *older), existing=existing)


def _named_consumers(requested: Collection[str], snapshot: Cloud) -> frozenset[str]:
    """The UUIDs of consumers by UUID, or of servers by name.

    Errors: InvalidInput with each text that neither service knows, and each name of several.
    """
    named: dict[str, list[str]] = {}
    for server in (*snapshot.servers.values(), *snapshot.deleted_servers.values()):
        named.setdefault(server.name, []).append(server.uuid)
    chosen, problems = set[str](), errors.InputErrors()
    for text in sorted(requested):
        is_known = text in snapshot.allocations or snapshot.knows(text)
        uuids = [text] if is_known else named.get(text, [])
        if len(uuids) > 1:
            servers = counted(len(uuids), "server")
            problems.add(f"nova has {servers} with the name {text!r}: {', '.join(uuids)}")
        elif not uuids:
            problems.add(
                f"nova has no server or migration {text}, and Placement has no allocations of it"
            )
        chosen.update(uuids)
    problems.check()
    return frozenset(chosen)


def _existing_hosts(snapshot: Cloud) -> set[str]:
    hosts = {server.host for server in snapshot.servers.values() if server.host}
    return hosts | snapshot.existing_hosts | {*snapshot.provider_names.values()}
