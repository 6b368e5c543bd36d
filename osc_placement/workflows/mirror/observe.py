"""Reading nova and Placement for the mirror of host aggregates, and the record between runs.

Nova does not keep the UUID of a deleted host aggregate. So the mirror records the host
aggregates that it reads, and recognizes the placement aggregates of deleted ones.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, lookup, retry
from osc_placement.model import name
from osc_placement.nova import api as nova_api, lookup as nova_lookup
from osc_placement.plan import plan
from osc_placement.workflows import state_file
from osc_placement.workflows.compute_nodes import ComputeCloud, observe_cloud
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.mirror import plan as mirror_plan

LOG = logging.getLogger(__name__)

_RECORD_KEY = "names"


@dataclasses.dataclass(frozen=True, slots=True)
class MirrorRequest:
    """The operator's arguments.

    ``hosts`` are compute hosts; ``host_aggregates`` names, ids or UUIDs; ``providers`` names
    or UUIDs of members to remove although they are not compute nodes; ``forget`` UUIDs of
    host aggregates that nova has deleted.
    """

    hosts: tuple[str, ...] = ()
    host_aggregates: tuple[str, ...] = ()
    prune: bool = False
    providers: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Mirrored:
    """The plan, and the number of stale compute nodes that it keeps without ``prune``."""

    planned: plan.ObservedPlan
    stale: int


def plan_mirror(
    client: api.Client,
    nova: nova_api.Nova,
    request: MirrorRequest,
    context: ReadContext | None = None,
) -> Mirrored:
    """Plan the changes that make Placement's aggregates match nova's host aggregates.

    Requests: to Placement, one listing of all providers and one per host aggregate, also for
    those deleted since the last run; to nova, the host aggregates twice, the services, and
    the hypervisors in pages. Applying sends two requests per changed provider.
    Errors: InvalidInput with every unknown name, or with every missing permission.
    """
    client.require_feature("aggregate generation", "changing aggregates safely")
    cloud = observe_cloud(client, nova)
    resolved = _resolve(cloud, request)
    record = load_record(client.target)
    snapshot = _read_members(client, nova, cloud, record.values, resolved, context or ReadContext())
    planned = mirror_plan.plan_mirror(snapshot, resolved)
    error = record.error or _update_record(client.target, record.values, snapshot)
    stale = mirror_plan.stale(planned)
    LOG.info("mirror: %d changes, %d stale compute nodes are kept", len(planned.changes), stale)
    planned = dataclasses.replace(planned, notes=tuple(_notes(stale, error, nova.source)))
    return Mirrored(plan.ObservedPlan(planned), stale)


def _read_members(
    client: api.Client,
    nova: nova_api.Nova,
    cloud: ComputeCloud,
    recorded: Mapping[str, str],
    request: mirror_plan.Request,
    context: ReadContext,
) -> mirror_plan.Snapshot:
    """The snapshot, with the members of every current and deleted host aggregate."""
    current = {item.uuid: item.name for item in cloud.aggregates}
    forgotten = {uuid: recorded.get(uuid, uuid) for uuid in request.forget}
    deleted = forgotten if request.aggregates else {**recorded, **forgotten}
    planned = [uuid for uuid in current if not request.aggregates or uuid in request.aggregates]
    planned += [uuid for uuid in deleted if uuid not in current]
    members = _members(client, planned, context)
    # Read nova again after Placement, so that a host that is being added is not removed.
    later = [item for item in nova_api.host_aggregates(nova) if item.uuid in current]
    left = {item.uuid for item in later}
    return mirror_plan.Snapshot(
        aggregates=later,
        hosts=cloud.hosts,
        providers=cloud.providers,
        members=members,
        deleted={
            uuid: title
            for uuid, title in {**deleted, **current}.items()
            if uuid not in left and uuid in members
        },
    )


def _members(
    client: api.Client, uuids: Collection[str], context: ReadContext
) -> dict[str, frozenset[str]]:
    """``{aggregate uuid: provider uuids}``. Requests: one GET per aggregate."""

    def read(uuid: str) -> frozenset[str]:
        list_members = functools.partial(client.list_providers, member_of=[uuid])
        return frozenset(item.uuid for item in retry.read(list_members))

    return dict(zip(uuids, context.each(read, uuids, "reading aggregates"), strict=True))


def _resolve(cloud: ComputeCloud, request: MirrorRequest) -> mirror_plan.Request:
    """The request with UUIDs instead of names. Errors: InvalidInput with every error."""
    input_errors = errors.InputErrors(cloud.unknown_hosts(request.hosts))
    aggregates = nova_lookup.find_host_aggregates(
        cloud.aggregates, request.host_aggregates, input_errors
    )
    resolved = mirror_plan.Request(
        hosts=frozenset(request.hosts),
        aggregates=frozenset(item.uuid for item in aggregates.values()),
        prune=request.prune,
        providers=_known_providers(cloud, request.providers, input_errors),
        forget=_deleted_aggregates(cloud, request.forget, input_errors),
    )
    if request.providers and not (request.prune or request.forget):
        input_errors.add("--provider selects members to remove: it needs --prune or --forget")
    input_errors.check()
    return resolved


def _known_providers(
    cloud: ComputeCloud, texts: Sequence[str], input_errors: errors.InputErrors
) -> frozenset[str]:
    found = lookup.among(cloud.providers, texts)
    input_errors.reasons += [
        lookup.unknown_provider(text) for text, providers in found.items() if not providers
    ]
    return frozenset(item.uuid for providers in found.values() for item in providers)


def _deleted_aggregates(
    cloud: ComputeCloud, texts: Iterable[str], input_errors: errors.InputErrors
) -> frozenset[str]:
    current = {item.uuid: item.name for item in cloud.aggregates}
    found = set()
    for text in texts:
        if not name.is_uuid(text):
            input_errors.add(f"--forget {text}: not the UUID of a deleted host aggregate")
            continue
        uuid = name.canonical_uuid(text)
        if uuid in current:
            input_errors.add(
                f"--forget {text}: nova still has this host aggregate, {current[uuid]!r}"
            )
        found.add(uuid)
    return frozenset(found)


def record_path(target: str) -> pathlib.Path:
    """The path of the record of a cloud's host aggregates."""
    return state_file.path_of("host-aggregates", target)


def load_record(target: str) -> state_file.State:
    """``{uuid: name}`` of the recorded host aggregates; empty before the first run."""
    return state_file.load(record_path(target), _RECORD_KEY)


def _update_record(target: str, recorded: Mapping[str, str], snapshot: mirror_plan.Snapshot) -> str:
    """Record current host aggregates, and deleted ones with members; the error, if any."""
    names = {uuid: title for uuid, title in recorded.items() if snapshot.members.get(uuid, True)}
    names |= {uuid: title for uuid, title in snapshot.deleted.items() if snapshot.members[uuid]}
    names |= {item.uuid: item.name for item in snapshot.aggregates}
    if names == recorded:
        return ""
    try:
        state_file.save(record_path(target), target, _RECORD_KEY, names)
    except errors.PlacementError as error:
        return str(error)
    return ""


def _notes(stale: int, error: str, source: str) -> Iterable[str]:
    if source:
        yield f"nova's responses come from {source}"
    if stale:
        yield f"{stale} compute nodes are in aggregates that they should not be in (--prune)"
    if error:
        yield f"host aggregates that nova deletes later will not be recognized: {error}"
