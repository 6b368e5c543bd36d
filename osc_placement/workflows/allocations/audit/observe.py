"""Observing and auditing in one: what the command calls. ``audit`` decides."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Sequence

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors, retry
from osc_placement.model import allocation
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, servers, values
from osc_placement.plan import plan, workers
from osc_placement.workflows.allocations import (
    expected,
    location,
    observe,
    owners,
    snapshot as pictures,
)
from osc_placement.workflows.allocations.audit import orphaned, plan as audit_plan
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding
from osc_placement.workflows.allocations.heal import (
    observe as heal_observe,
    plan as heal_plan,
)
from osc_placement.workflows.batch import plan as batch_plan

_COMPUTE_NODE = "COMPUTE_NODE"

#: Services that allocate what nova does, by their types in the catalog.
_OTHERS = {"application-container": "Zun", "container": "Zun"}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What is to be audited: ``hosts`` by nova's names or, of providers, theirs; none is all.

    ``only`` findings of these codes, or all. ``min_age`` in seconds keeps repairs off what has
    just changed.
    """

    hosts: frozenset[str] = frozenset()
    min_age: float = 0.0
    repair: bool = False
    only: frozenset[Code] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Audited:
    """What was found, and the plan that repairs it; that is empty where none was asked for."""

    findings: Sequence[Finding]
    planned: plan.ObservedPlan


def audit_cloud(
    client: api.Client,
    asked: nova_api.Nova,
    request: Request,
    reading: batch_plan.ReadContext | None = None,
    ports: neutron_api.Neutron | None = None,
) -> Audited:
    """Everything that is wrong with allocations, and what mends it.

    Cost: what ``observe`` costs for a whole cloud, one request more per provider for its
    inventories, one for the providers that nova-compute has marked; what ``owner`` costs; two
    requests for each consumer that nova does not know, one at Placement and one at nova. For
    servers that lack allocations, and for ``ports``, what healing asks. To repair, one read
    for each consumer that is to be changed.
    Errors: as ``observe``; InvalidInput for hosts that nobody knows.
    """
    reading = reading or batch_plan.ReadContext()
    picture = observe.observe(client, asked, reading=reading, deleted=True)
    _check_hosts(picture, request.hosts)
    picture = observe.with_inventories(client, picture, picture.providers, reading)
    picture, doubts = _suspected(client, asked, picture, reading)
    at_rest = [
        uuid for uuid, one in picture.servers.items() if not location.of(picture, one).moving
    ]
    picture = owners.with_owners(client, picture, at_rest, reading)
    if ports is not None:
        picture = heal_observe.with_ports(client, ports, picture, _healing(client, ports), reading)
    hints = AuditContext(
        now=datetime.datetime.now(datetime.UTC) - nova_api.clock_offset(asked),
        min_age=request.min_age,
        doubts=doubts,
        computes=_marked(client),
        others=_others(asked),
        named=request.hosts,
    )
    return _Auditing(client, asked, request, reading, hints, _healing(client, ports)).run(picture)


def _healing(client: api.Client, ports: neutron_api.Neutron | None) -> heal_plan.Request:
    """As healing would be asked; recorded ports are not told anything."""
    typed = microversion.supports(client.microversion, "consumer types")
    return heal_plan.Request(
        consumer_type=allocation.INSTANCE if typed else None,
        bind=ports is not None and not ports.source,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Auditing:
    client: api.Client
    asked: nova_api.Nova
    request: Request
    reading: batch_plan.ReadContext
    hints: AuditContext
    healing: heal_plan.Request

    def run(self, picture: pictures.CloudSnapshot) -> Audited:
        picture = heal_observe.with_root_disks(self.asked, picture, self.healing, self.reading)
        picture, answers = heal_observe.with_answers(
            self.client, picture, self.healing, self.reading
        )
        findings = self._find(picture, answers)
        if self.request.repair:
            chosen = [item.subject.uuid for item in findings if item.repair]
            picture = observe.with_consumers(self.client, picture, chosen, self.reading)
            # What was changed since is judged as it is now.
            findings = self._find(picture, answers)
        return Audited(findings, self._planned(picture, findings))

    def _find(self, picture: pictures.CloudSnapshot, answers: expected.Answers) -> list[Finding]:
        found = audit_plan.find(picture, self.hints, answers, self.healing)
        return audit_plan.concerning(found, self.request.hosts, self.request.only)

    def _planned(
        self, picture: pictures.CloudSnapshot, findings: Iterable[Finding]
    ) -> plan.ObservedPlan:
        chosen = findings if self.request.repair else ()
        made = audit_plan.plan_repair(picture, chosen)
        if self.asked.source:
            made = made.replace(notes=(f"nova's answers come from {self.asked.source}",))
        return heal_observe.with_known(made, picture)


def _check_hosts(picture: pictures.CloudSnapshot, hosts: Collection[str]) -> None:
    known = {node.host for node in picture.hosts.nodes} | picture.hosts.services
    known |= {server.host for server in picture.servers.values() if server.host}
    known |= {item.name for item in picture.providers.values()}
    errors.InputErrors(
        f"nova has no compute host {host!r}, and Placement no provider of that name"
        for host in sorted(set(hosts) - known)
    ).check()


def _suspected(
    client: api.Client,
    asked: nova_api.Nova,
    picture: pictures.CloudSnapshot,
    reading: batch_plan.ReadContext,
) -> tuple[pictures.CloudSnapshot, dict[str, str]]:
    """Whose the consumers are that nova does not list, and why it may know them nevertheless.

    Nova shows alone what it does not list: servers of a cell that is down, and those
    that were made meanwhile. Recorded answers hold no more than the lists.
    """
    uuids = orphaned.suspects(picture)
    picture = observe.with_consumers(client, picture, uuids, reading)
    if asked.source:
        return picture, {}
    reading.watch.expect("looking for servers", len(uuids))
    found: dict[str, values.Server] = {}
    doubts: dict[str, str] = {}
    for uuid, told in zip(
        uuids, workers.each(lambda each: _shown(asked, each), uuids, reading.workers), strict=True
    ):
        if isinstance(told, values.Server) and not told.is_deleted:
            found[uuid] = told
        elif isinstance(told, str):
            doubts[uuid] = told
        reading.watch.advance()
    return dataclasses.replace(picture, servers={**picture.servers, **found}), doubts


def _shown(asked: nova_api.Nova, uuid: str) -> values.Server | str | None:
    """The server of that UUID, None if there is none, or why nova cannot tell."""
    try:
        return retry.read(lambda: servers.server(asked, uuid))
    except api_errors.ApiError as error:
        if error.status in (401, 403):
            raise
        return f"nova cannot tell that it is no server: {error}"


def _marked(client: api.Client) -> frozenset[str]:
    """The providers that nova-compute has marked as its own; older ones do not."""
    try:
        found = retry.read(lambda: client.list_providers(required=[_COMPUTE_NODE]))
    except api_errors.ApiError as error:
        if error.status != 400:
            raise
        # Placement before Train knows no such trait.
        return frozenset()
    return frozenset(item.uuid for item in found)


def _others(asked: nova_api.Nova) -> str:
    """Another service that allocates CPUs and memory, if this cloud has one."""
    types = nova_api.service_types(asked)
    return next((name for each, name in _OTHERS.items() if each in types), "")
