# SPDX-License-Identifier: Apache-2.0
"""Who holds the room that an explained host lacks, and what nova knows of each consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model import command_line, provider
from osc_placement.nova import api as nova_api
from osc_placement.nova.servers import find_servers
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.nova_servers import list_servers_on
from osc_placement.workflows.explain.failures import ShortProvider


class RoomHolder(NamedTuple):
    """A consumer with ``amounts`` of what a host lacks on one of its providers.

    ``name`` is the server's, ``text`` what nova knows of the consumer. ``is_leaked``: nothing in
    nova needs the allocations there, as far as these listings show.
    """

    host: str
    provider: str
    consumer_uuid: str
    amounts: Mapping[str, int]
    name: str
    text: str
    is_leaked: bool


def audit(leaked: Iterable[RoomHolder]) -> str:
    """The command that removes what consumers hold and do not need; it checks each of them."""
    uuids = dict.fromkeys(holder.consumer_uuid for holder in leaked)
    options = [("--repair", None), *(("--consumer", uuid) for uuid in uuids)]
    return command_line.line("placement allocation audit", options=options)


def read(
    client: api.Client,
    short: Sequence[ShortProvider],
    context: ReadContext,
    compute: ServerHosts,
    nova: nova_api.Nova | None,
) -> tuple[list[RoomHolder], list[str]]:
    """Who holds what on the providers, the largest first; and why nova could not tell.

    Requests: to Placement one per provider; to nova those of ``list_servers_on`` for their hosts,
    and of ``find_servers`` for the servers of migrations that hold something.
    """
    if not short or nova is None or compute.hosts is None:
        return [], []
    answers = context.each(
        lambda each: client.list_provider_allocations(each.uuid).allocations,
        short,
        "reading who holds the room",
    )
    allocations: dict[str, dict[str, Mapping[str, int]]] = {}
    for each, answer in zip(short, answers, strict=True):
        for uuid, amounts in answer.items():
            allocations.setdefault(uuid, {})[each.uuid] = amounts.resources
    nodes = filter(None, (compute.node(root) for root in {host.root_uuid for host in short}))
    cloud = Cloud(
        compute.hosts,
        {
            host.uuid: provider.Provider(host.uuid, host.name, 0, host.root_uuid, None)
            for host in short
        },
        allocations=allocations,
    )
    try:
        list_servers_on(nova, cloud, {node.host for node in nodes}, allocations.keys())
        of_moves = {
            move.server_uuid for uuid, move in cloud.migrations.items() if uuid in allocations
        }
        servers = find_servers(nova, of_moves - cloud.listed_servers.keys())
    except errors.PlacementError as error:
        return [], [f"who holds the room: {error}"]
    cloud.set_servers({uuid: server for uuid, server in servers.items() if not server.is_deleted})
    return sorted(
        _holders(short, cloud),
        key=lambda it: (it.host, [-n for n in it.amounts.values()]),
    ), []


def _holders(short: Sequence[ShortProvider], reading: Cloud) -> Iterator[RoomHolder]:
    roots = {host.root_uuid for host in short}
    by_root = {root: list(server_moves.holders_on(reading, root)) for root in roots}
    for host in short:
        for holder in by_root[host.root_uuid]:
            here = holder.allocations.get(host.uuid, {})
            amounts = {name: here[name] for name in sorted(here) if name in host.classes}
            if amounts:
                described = _described(reading, holder)
                yield RoomHolder(host.host, host.name, holder.consumer_uuid, amounts, *described)


def _described(reading: Cloud, holder: server_moves.HolderOnHost) -> tuple[str, str, bool]:
    """``(name, what nova knows, whether it is leaked)``; no repair while a move is in doubt."""
    server, migration = holder.server, holder.migration
    text = f"{migration.type} {migration.status}" if migration else ""
    if server is None:
        # A server of a cell that is down may be hidden.
        is_leaked = holder.is_leaked or not reading.hosts.unreachable
        return "", text or "unknown to nova", is_leaked
    move = server_moves.move_of(reading, server)
    if not move.is_settled and move.moving:
        return server.name, f"{text}: {move.why()}" if text else move.why(), False
    where = f" on {server.host}" if server.host else ""
    return server.name, text or f"{server.vm_state}{where}", holder.is_leaked
