"""Observing nova and Placement for the mirror of host aggregates, and planning it.

``host_aggregates`` decides; this asks, finds what the operator's words stand for, and keeps
the record of what nova had. Called by ``placement aggregate mirror``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, retry
from osc_placement.model import name, provider
from osc_placement.nova import api as nova_api, permission, values
from osc_placement.plan import plan, workers
from osc_placement.workflows import context
from osc_placement.workflows.mirror import plan as mirror_plan, record as mirror_record


@dataclasses.dataclass(frozen=True, slots=True)
class MirrorRequest:
    """What the operator asked for, in the operator's words.

    ``hosts`` are nova's; ``host_aggregates`` names or ids; ``providers`` names or UUIDs of
    what is taken out though it is no compute node; ``forget`` UUIDs of host aggregates that
    nova has deleted.
    """

    hosts: tuple[str, ...] = ()
    host_aggregates: tuple[str, ...] = ()
    prune: bool = False
    providers: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Mirrored:
    """The plan, and how many stale compute nodes it leaves for want of ``prune``."""

    planned: plan.ObservedPlan
    stale: int


def plan_mirror(
    client: api.Client,
    asked: nova_api.Nova,
    wish: MirrorRequest,
    reading: context.ReadContext | None = None,
) -> Mirrored:
    """What it takes to make Placement's aggregates agree with nova's host aggregates.

    Cost: at Placement one listing of all providers and one per host aggregate, those that
    nova has deleted since the last run among them; at nova its host aggregates twice, its
    services, and its hypervisors in pages. Applying costs two requests per changed provider.
    Errors: InvalidInput with every name that is unknown, or with every right that is missing.
    """
    client.require_feature("aggregate generation", "changing aggregates safely")
    first = _asked(client, asked)
    request = _request(first, wish)
    record = mirror_record.load(client.target)
    snapshot = _observed(
        client, asked, first, record.values, request, reading or context.ReadContext()
    )
    made = mirror_plan.plan_mirror(snapshot, request)
    trouble = record.error or _remembered(client.target, record.values, snapshot)
    stale = mirror_plan.stale(made, snapshot)
    made = dataclasses.replace(made, notes=tuple(_notes(stale, trouble, asked.source)))
    return Mirrored(plan.ObservedPlan(made), stale)


@dataclasses.dataclass(frozen=True, slots=True)
class _Cloud:
    aggregates: Sequence[values.HostAggregate]
    hosts: values.Hosts
    providers: Sequence[provider.Provider]


def _asked(client: api.Client, asked: nova_api.Nova) -> _Cloud:
    """What there is, in both services; a user who lacks rights hears of all of them."""
    faults = errors.InputErrors()
    found = _Cloud((), values.Hosts(), ())
    with permission.collected(faults):
        found = dataclasses.replace(found, aggregates=nova_api.host_aggregates(asked))
    with permission.collected(faults):
        found = dataclasses.replace(found, hosts=nova_api.hosts(asked))
    with permission.collected(faults):
        found = dataclasses.replace(found, providers=retry.read(client.list_providers))
    faults.check()
    return found


def _observed(
    client: api.Client,
    asked: nova_api.Nova,
    cloud: _Cloud,
    seen: Mapping[str, str],
    request: mirror_plan.Request,
    reading: context.ReadContext,
) -> mirror_plan.Snapshot:
    """Who is in which aggregate of nova's, now or once."""
    current = {item.uuid: item.name for item in cloud.aggregates}
    named = {uuid: seen.get(uuid, uuid) for uuid in request.forget}
    deleted = {**seen, **named} if not request.aggregates else named
    planned = [uuid for uuid in current if not request.aggregates or uuid in request.aggregates]
    planned += [uuid for uuid in deleted if uuid not in current]
    members = _members(client, planned, reading)
    # Asked again after Placement, so that a host that is being added is not taken out.
    later = [item for item in nova_api.host_aggregates(asked) if item.uuid in current]
    left = {item.uuid for item in later}
    return mirror_plan.Snapshot(
        aggregates=later,
        hosts=cloud.hosts,
        providers=cloud.providers,
        members=members,
        deleted={
            uuid: named
            for uuid, named in {**deleted, **current}.items()
            if uuid not in left and uuid in members
        },
    )


def _members(
    client: api.Client, uuids: Collection[str], reading: context.ReadContext
) -> dict[str, frozenset[str]]:
    """``{aggregate uuid: provider uuids}``. One request for each."""

    def found(uuid: str) -> frozenset[str]:
        ask = functools.partial(client.list_providers, member_of=[uuid])
        return frozenset(item.uuid for item in retry.read(ask))

    reading.watch.start("reading aggregates", len(uuids))
    members = {}
    for uuid, providers in zip(uuids, workers.each(found, uuids, reading.workers), strict=True):
        members[uuid] = providers
        reading.watch.advance()
    return members


def _request(cloud: _Cloud, wish: MirrorRequest) -> mirror_plan.Request:
    """The wish in uuids. Errors: InvalidInput with everything that is unknown."""
    faults = errors.InputErrors()
    request = mirror_plan.Request(
        hosts=_known_hosts(cloud, wish.hosts, faults),
        aggregates=_resolved(wish.host_aggregates, _aggregates_called(cloud), faults),
        prune=wish.prune,
        providers=_resolved(wish.providers, _providers_called(cloud), faults),
        forget=_forgotten(cloud, wish.forget, faults),
    )
    if wish.providers and not (wish.prune or wish.forget):
        faults.add("--provider says who is taken out: it goes with --prune or --forget")
    faults.check()
    return request


def _known_hosts(cloud: _Cloud, hosts: Iterable[str], faults: errors.InputErrors) -> frozenset[str]:
    known = cloud.hosts.services | {node.host for node in cloud.hosts.nodes}
    known |= {host for item in cloud.aggregates for host in item.hosts}
    wanted = frozenset(hosts)
    for host in sorted(wanted - known):
        faults.add(
            f"nova has no compute host {host!r}: 'openstack compute service list' shows them"
        )
    return wanted


def _resolved(
    texts: Iterable[str], called: Callable[[str], tuple[str, list[str]]], faults: errors.InputErrors
) -> frozenset[str]:
    """The one uuid that each text stands for."""
    found = []
    for text in texts:
        what, uuids = called(text)
        if len(uuids) != 1:
            count = f"{len(uuids)} {what}s have" if uuids else f"no {what} has"
            faults.add(f"{count} the name or id {text!r}")
        found += uuids
    return frozenset(found)


def _aggregates_called(cloud: _Cloud) -> Callable[[str], tuple[str, list[str]]]:
    def called(text: str) -> tuple[str, list[str]]:
        words = {text, name.canonical_uuid(text)} if name.is_uuid(text) else {text}
        return "nova host aggregate", [
            item.uuid for item in cloud.aggregates if words & {item.name, item.id, item.uuid}
        ]

    return called


def _providers_called(cloud: _Cloud) -> Callable[[str], tuple[str, list[str]]]:
    def called(text: str) -> tuple[str, list[str]]:
        words = {text, name.canonical_uuid(text)} if name.is_uuid(text) else {text}
        return "resource provider", [
            item.uuid for item in cloud.providers if words & {item.name, item.uuid}
        ]

    return called


def _forgotten(cloud: _Cloud, texts: Iterable[str], faults: errors.InputErrors) -> frozenset[str]:
    current = {item.uuid: item.name for item in cloud.aggregates}
    found = set()
    for text in texts:
        if not name.is_uuid(text):
            faults.add(f"--forget takes the UUID of a host aggregate that was: {text!r} is none")
            continue
        uuid = name.canonical_uuid(text)
        if uuid in current:
            faults.add(f"--forget {text}: nova has this host aggregate, it is {current[uuid]!r}")
        found.add(uuid)
    return frozenset(found)


def _remembered(target: str, seen: Mapping[str, str], snapshot: mirror_plan.Snapshot) -> str:
    """Keep what nova has, and what it had as long as a provider has it; why not, if it fails."""
    names = {uuid: called for uuid, called in seen.items() if snapshot.members.get(uuid, True)}
    names |= {uuid: called for uuid, called in snapshot.deleted.items() if snapshot.members[uuid]}
    names |= {item.uuid: item.name for item in snapshot.aggregates}
    if names == seen:
        return ""
    try:
        mirror_record.save(target, names)
    except errors.PlacementError as error:
        return str(error)
    return ""


def _notes(stale: int, trouble: str, source: str) -> Iterable[str]:
    if source:
        yield f"nova's answers come from {source}"
    if stale:
        yield f"{stale} compute nodes are in aggregates that they should not be in (--prune)"
    if trouble:
        yield f"a host aggregate that nova deletes will not be recognized: {trouble}"
