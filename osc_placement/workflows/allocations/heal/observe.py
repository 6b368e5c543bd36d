"""Observing and planning in one: what the command and the data migration of healing call.

``heal`` decides; this reads what it needs to know, and no more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from osc_placement import microversion
from osc_placement.client import api, retry
from osc_placement.model.candidate import CandidateQuery
from osc_placement.neutron import api as neutron_api, port as model
from osc_placement.nova import api as nova_api, servers as nova_servers, values
from osc_placement.plan import change, plan, workers
from osc_placement.plan.kinds import allocations
from osc_placement.workflows.allocations import (
    expected,
    location,
    observe,
    owners,
    ports as allocations_ports,
    snapshot as pictures,
)
from osc_placement.workflows.allocations.heal import plan as heal_plan
from osc_placement.workflows.batch import plan as batch_plan


def plan_healing(
    client: api.Client,
    asked: nova_api.Nova,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext | None = None,
    *,
    ports: neutron_api.Neutron | None = None,
    check_owners: bool = False,
) -> plan.ObservedPlan:
    """What gives the servers in scope what they lack, and takes nothing from anybody.

    Cost: ``observe``; one request for each host on which servers lack something and of which
    that did not tell the capacity, and for each provider that shares with them; where
    devices are on other providers, one for each of the tree
    and one query for each host and flavor; what ``owner`` costs. ``check_owners``:
    every consumer is read. With ``ports``, at neutron one request for 64 servers that lack
    something or are on a host with devices. At nova one request for each server that lacks
    allocations and has volumes beside its image.
    Applying costs one write for 64 servers; for one with ports a read and a write of each.
    Errors: as ``observe``, and when neutron cannot be asked.
    """
    reading = reading or batch_plan.ReadContext()
    picture = observe.observe(client, asked, request.scope, reading)
    picture = _with_owners(client, picture, request, reading, every=check_owners)
    return _planned(client, asked, picture, request, reading, ports)


def plan_missing(
    client: api.Client,
    asked: nova_api.Nova,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext | None = None,
    *,
    ports: neutron_api.Neutron | None = None,
    after: str = "",
) -> Iterator[tuple[str, plan.ObservedPlan]]:
    """The same for some hosts at a time, and owners are not looked at.

    Yields ``(position, plan)``; ``after`` is a position to go on from.
    Cost: ``observe_parts``; beside owners, what ``plan_healing`` costs.
    """
    reading = reading or batch_plan.ReadContext()
    for scope, picture in observe.observe_parts(client, asked, after, reading):
        part = dataclasses.replace(request, scope=scope)
        planned = _planned(client, asked, picture, part, reading, ports)
        yield max(scope.hosts or ()), planned


def _planned(
    client: api.Client,
    asked: nova_api.Nova,
    picture: pictures.CloudSnapshot,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext,
    ports: neutron_api.Neutron | None,
) -> plan.ObservedPlan:
    """What is decided on a picture, with what else has to be read for it."""
    if not microversion.supports(client.microversion, "consumer types"):
        request = dataclasses.replace(request, consumer_type=None)
    if ports is not None:
        request = dataclasses.replace(request, bind=not ports.source)
        picture = with_ports(client, ports, picture, request, reading)
    picture = with_root_disks(asked, picture, request, reading)
    picture, answers = with_answers(client, picture, request, reading)
    made = heal_plan.plan_heal(picture, request, answers)
    made = made.replace(notes=tuple(_notes(asked.source, picture)))
    return with_known(made, picture)


def with_known(made: plan.Plan, picture: pictures.CloudSnapshot) -> plan.ObservedPlan:
    """The plan with the consumers that were read whole, so that none is read again."""
    known = {
        item.key: allocations.observed(picture.consumer(item.subject.uuid))
        for item in made.changes
        if item.kind == change.ALLOCATIONS and item.subject.uuid in picture.owners
    }
    return plan.ObservedPlan(made, known)


def _notes(source: str, picture: pictures.CloudSnapshot) -> Iterator[str]:
    if source:
        yield f"nova's answers come from {source}"
        if picture.ports:
            yield "neutron's too: the binding profiles of ports are not written"


def _with_owners(
    client: api.Client,
    picture: pictures.CloudSnapshot,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext,
    *,
    every: bool,
) -> pictures.CloudSnapshot:
    """The owners of servers that are at rest; of a narrow scope they are known already."""
    servers = heal_plan.concerned(picture, request.scope)
    at_rest = [one.uuid for one in servers if not location.of(picture, one).moving]
    every = every or request.scope.is_narrow
    return owners.with_owners(client, picture, at_rest, reading, every=every)


def with_ports(
    client: api.Client,
    asked: neutron_api.Neutron,
    picture: pictures.CloudSnapshot,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext,
) -> pictures.CloudSnapshot:
    """The ports of servers that may need devices; who lacks these alone is read whole."""
    wanted = [
        server
        for server in heal_plan.concerned(picture, request.scope)
        if (root := heal_plan.root_of(picture, server)) is not None
        and (heal_plan.lacks(picture, server) or len(picture.trees[root]) > 1)
    ]
    found: dict[str, list[model.Port]] = {}
    for port in neutron_api.ports_of(asked, [server.uuid for server in wanted]):
        found.setdefault(port.server_uuid, []).append(port)
    ports = {uuid: tuple(each) for uuid, each in found.items()}
    picture = dataclasses.replace(picture, ports=ports)
    incomplete = [
        server.uuid
        for server in wanted
        if allocations_ports.lacking(picture, server)
        or (request.bind and allocations_ports.untold(picture, server))
    ]
    held = [uuid for uuid in incomplete if picture.allocations.get(uuid)]
    return observe.with_consumers(client, picture, held, reading)


def with_root_disks(
    asked: nova_api.Nova,
    picture: pictures.CloudSnapshot,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext,
) -> pictures.CloudSnapshot:
    """The picture knowing which servers that are to be healed have a volume as their root disk.

    Nova tells of no image then, but for volumes that were made from one. Recorded answers
    hold no more than lists: an image counts as a local disk there.
    """
    doubtful = [
        server
        for server in heal_plan.concerned(picture, request.scope)
        if server.has_volumes and not server.from_volume and heal_plan.lacks(picture, server)
    ]
    if asked.source:
        return picture

    def on_volume(server: values.Server) -> bool:
        return retry.read(lambda: nova_servers.root_is_volume(asked, server))

    told = zip(doubtful, workers.each(on_volume, doubtful, reading.workers), strict=True)
    found = {one.uuid: dataclasses.replace(one, from_volume=True) for one, is_so in told if is_so}
    return dataclasses.replace(picture, servers={**picture.servers, **found})


def with_answers(
    client: api.Client,
    picture: pictures.CloudSnapshot,
    request: heal_plan.Request,
    reading: batch_plan.ReadContext,
) -> tuple[pictures.CloudSnapshot, expected.Answers]:
    """Inventories where servers lack something, and Placement's answers about devices."""
    wanting = _wanting(picture, heal_plan.concerned(picture, request.scope))
    picture = observe.with_capacities(picture, {root for _, root in wanting})
    picture = observe.with_inventories(client, picture, _roots(picture, wanting), reading)
    picture = observe.with_inventories(client, picture, _trees(picture, wanting), reading)
    return picture, observe.observe_candidates(client, _queries(picture, wanting), reading)


Wanting = Sequence[tuple[values.Server, str]]


def _wanting(picture: pictures.CloudSnapshot, servers: Iterable[values.Server]) -> Wanting:
    """The servers to heal, each with its root."""
    found: list[tuple[values.Server, str]] = []
    for server in servers:
        if heal_plan.lacks(picture, server) or allocations_ports.lacking(picture, server):
            root = heal_plan.root_of(picture, server)
            found += [(server, root)] if root is not None else []
    return found


def _roots(picture: pictures.CloudSnapshot, wanting: Wanting) -> Iterator[str]:
    for _, root in wanting:
        yield root
        yield from picture.sharing.get(root, ())


def _trees(picture: pictures.CloudSnapshot, wanting: Wanting) -> Iterator[str]:
    """The providers of trees in which something is to be looked for."""
    for server, root in wanting:
        asked = expected.request_of(server)
        if asked.pci_aliases or expected.needs_tree(picture, server, root):
            yield from (item.uuid for item in picture.trees.get(root, ()))


def _queries(picture: pictures.CloudSnapshot, wanting: Wanting) -> dict[str, CandidateQuery]:
    found = {}
    for server, root in wanting:
        query = expected.query_of(picture, server, root)
        if query is not None:
            found[query[0]] = query[1]
    return found
