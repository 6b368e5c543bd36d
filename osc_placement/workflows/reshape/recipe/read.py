"""Reading what a recipe is made of: a tree from Placement, and from nova what it is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from osc_placement.client import api, compute, compute_server, compute_service, errors
from osc_placement.model import nova, provider
from osc_placement.workflows import batch
from osc_placement.workflows.reshape import observe, picture

#: From how many servers on nova is asked for all rather than for each.
_MANY = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What nova says; servers and migrations (those that are not over) by UUID."""

    nodes: tuple[nova.ComputeNode, ...] = ()
    services: Mapping[str, nova.ComputeService] = dataclasses.field(default_factory=dict)
    servers: Mapping[str, nova.Server] = dataclasses.field(default_factory=dict)
    migrations: Mapping[str, nova.Migration] = dataclasses.field(default_factory=dict)


def find(client: api.Client, texts: Iterable[str]) -> dict[str, provider.Provider]:
    """``{text: provider}`` of those names and UUIDs that there are. Cost: one request each."""
    return observe.find_providers(client, texts)


def find_root(client: api.Client, text: str) -> provider.Provider:
    """The root provider of this name or UUID. Errors: InvalidInput."""
    found = find(client, [text]).get(text)
    if found is None:
        raise errors.InvalidInput(
            [f"there is no provider {text!r}: 'openstack resource provider list' shows all"]
        )
    if found.root_uuid not in (None, found.uuid):
        raise errors.InvalidInput([f"{text} is no compute node: it stands below another provider"])
    return found


def trees(client: api.Client, roots: Collection[str], reading: batch.Reading) -> picture.Picture:
    """The trees with these roots, their consumers whole. Cost: as ``observe_picture``."""
    return observe.observe_picture(client, roots, reading)


def servers_of(
    asked: compute.Nova, consumers: Collection[str]
) -> tuple[dict[str, nova.Server], dict[str, nova.Migration]]:
    """The servers and the moves under way that consumers are, by UUID.

    Cost: per 1000 migrations one request, and one for each of up to five servers, else
    one per 1000 servers of the cloud.
    """
    moves = {
        item.uuid: item
        for item in compute_server.migrations(asked)
        if item.uuid in consumers or (item.server_uuid in consumers and not item.is_over)
    }
    wanted = {*consumers, *(item.server_uuid for item in moves.values())} - moves.keys()
    if len(wanted) > _MANY:
        listed = compute_server.servers(asked)
    else:
        listed = [
            item for uuid in sorted(wanted) for item in compute_server.servers(asked, uuid=uuid)
        ]
    return {item.uuid: item for item in listed if item.uuid in wanted}, moves


def told(asked: compute.Nova, consumers: Collection[str]) -> Told:
    """All that nova says of its hosts and of these consumers.

    Cost: one request for its services, ``compute.hosts`` and ``servers_of``.
    """
    services = compute_service.services(asked)
    hosts = compute.hosts(asked)
    servers, migrations = servers_of(asked, consumers)
    return Told(hosts.nodes, {item.host: item for item in services}, servers, migrations)
