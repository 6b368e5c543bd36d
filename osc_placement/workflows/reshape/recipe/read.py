"""Reading the input of recipes: a tree from Placement, servers and services from nova."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.nova import (
    api as nova_api,
    hosts as nova_hosts,
    servers as nova_servers,
    values,
)
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.reshape import observe, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class NovaState:
    """Nodes; services by host; servers and migrations that are not over, by UUID."""

    nodes: tuple[values.ComputeNode, ...] = ()
    services: Mapping[str, values.ComputeService] = dataclasses.field(default_factory=dict)
    servers: Mapping[str, values.Server] = dataclasses.field(default_factory=dict)
    migrations: Mapping[str, values.Migration] = dataclasses.field(default_factory=dict)


def find_root(client: api.Client, text: str) -> provider.Provider:
    """The root provider with this name or UUID. Errors: InvalidInput."""
    found = lookup.find_providers(client, [text]).get(text)
    if found is None:
        raise errors.InvalidInput(
            [f"provider {text!r} does not exist: 'openstack resource provider list' shows all"]
        )
    if found.root_uuid not in (None, found.uuid):
        raise errors.InvalidInput([f"{text} is not a compute node: it has a parent"])
    return found


def read_tree(
    client: api.Client, text: str, context: ReadContext
) -> tuple[snapshot.TreeSnapshot, str]:
    """The tree whose root has this name or UUID, and the UUID of the root.

    Requests: those of ``find_root`` and of ``observe.read_trees``. Errors: InvalidInput.
    """
    root = find_root(client, text)
    return observe.read_trees(client, [root.uuid], context), root.uuid


def servers_of(
    nova: nova_api.Nova, consumers: Collection[str]
) -> tuple[dict[str, values.Server], dict[str, values.Migration]]:
    """The servers and the current migrations of consumers, by UUID.

    Requests: one per 1000 migrations, and those of ``servers.find_servers``.
    """
    moves = {
        item.uuid: item
        for item in nova_servers.migrations(nova)
        if item.uuid in consumers or (item.server_uuid in consumers and not item.is_over)
    }
    uuids = {*consumers, *(item.server_uuid for item in moves.values())} - moves.keys()
    return nova_servers.find_servers(nova, uuids), moves


def nova_state(nova: nova_api.Nova, consumers: Collection[str]) -> NovaState:
    """The hosts of nova, and the servers and migrations of these consumers.

    Requests: those of ``hosts.read_all`` and of ``servers_of``.
    """
    hosts = nova_hosts.read_all(nova)
    servers, migrations = servers_of(nova, consumers)
    return NovaState(
        hosts.nodes, {item.host: item for item in hosts.compute_services}, servers, migrations
    )
