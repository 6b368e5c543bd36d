"""Reading what a recipe is made of: a tree from Placement, and from nova what it is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.nova import (
    api as nova_api,
    servers as nova_servers,
    values,
)
from osc_placement.workflows import context
from osc_placement.workflows.reshape import observe, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class NovaState:
    """What nova says; servers and migrations (those that are not over) by UUID."""

    nodes: tuple[values.ComputeNode, ...] = ()
    services: Mapping[str, values.ComputeService] = dataclasses.field(default_factory=dict)
    servers: Mapping[str, values.Server] = dataclasses.field(default_factory=dict)
    migrations: Mapping[str, values.Migration] = dataclasses.field(default_factory=dict)


def find(client: api.Client, texts: Iterable[str]) -> dict[str, provider.Provider]:
    """``{text: provider}`` of those names and UUIDs that there are. Cost: one request each."""
    return lookup.find_providers(client, texts)


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


def trees(
    client: api.Client, roots: Collection[str], reading: context.ReadContext
) -> snapshot.TreeSnapshot:
    """The trees with these roots, their consumers whole. Cost: as ``observe_picture``."""
    return observe.observe_picture(client, roots, reading)


def servers_of(
    asked: nova_api.Nova, consumers: Collection[str]
) -> tuple[dict[str, values.Server], dict[str, values.Migration]]:
    """The servers and the moves under way that consumers are, by UUID.

    Cost: per 1000 migrations one request, and one for each of up to five servers, else
    one per 1000 servers of the cloud.
    """
    moves = {
        item.uuid: item
        for item in nova_servers.migrations(asked)
        if item.uuid in consumers or (item.server_uuid in consumers and not item.is_over)
    }
    wanted = {*consumers, *(item.server_uuid for item in moves.values())} - moves.keys()
    return nova_servers.find_servers(asked, wanted), moves


def told(asked: nova_api.Nova, consumers: Collection[str]) -> NovaState:
    """All that nova says of its hosts and of these consumers.

    Cost: one request for its services, ``compute.hosts`` and ``servers_of``.
    """
    services = nova_api.services(asked)
    hosts = nova_api.hosts(asked)
    servers, migrations = servers_of(asked, consumers)
    return NovaState(hosts.nodes, {item.host: item for item in services}, servers, migrations)
