# SPDX-License-Identifier: Apache-2.0
"""What nova's API says about servers: where they may go, and what ties them to their hosts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.engine import state
from osc_placement.model import command_line, provider
from osc_placement.model.name import and_more, counted
from osc_placement.nova import api, flavor, servers as nova_servers, values
from osc_placement.scheduling import nova_options
from osc_placement.scheduling.answer import Caveats, joined
from osc_placement.scheduling.case import Case, GroupMembers
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import cases, guest_search, nova_request, server_moves, servers
from osc_placement.workflows.cloud.cloud import Cloud

#: The servers or hosts that a line names.
_MOST_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class ServerCases:
    """What nova requests for servers, and what ties them together.

    ``cases`` is ``{uuid: the server's case, with nova's requests}``. ``groups`` are the server
    groups with (anti-)affinity, by UUID, with nova's hosts of their members. ``migrations`` are the
    UUIDs that are no servers, but migrations.
    """

    cases: Mapping[str, Case] = dataclasses.field(default_factory=dict)
    groups: Mapping[str, GroupMembers] = dataclasses.field(default_factory=dict)
    caveats: Caveats = dataclasses.field(default_factory=Caveats)
    migrations: frozenset[str] = frozenset()

    def on(self, base: state.CloudState, roots: Iterable[str]) -> list[servers.PlacedServer]:
        """The servers with allocations on hosts."""
        return servers.servers_on(base, roots, self.cases, self.groups, self.migrations)


WITHOUT_NOVA = ServerCases(
    caveats=Caveats(
        (
            "traits, availability zones, host aggregates and server groups: they are in nova"
            " (select a snapshot that was saved --with-nova, or give --os-nova-recording)",
            "servers without allocations: they are in nova",
        )
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class NovaReader:
    """What the check of hosts reads from nova; without arguments nothing.

    ``compute`` decides which hosts take a server. ``requests`` gives nova's requests for servers,
    ``list_on`` the servers and migrations of hosts and of consumers (UUIDs), ``aggregates`` the
    UUIDs of the host aggregates, None if they cannot be read.
    """

    compute: ServerHosts = dataclasses.field(default_factory=ServerHosts)
    requests: Callable[[Cloud, Sequence[str]], ServerCases] = lambda *_: WITHOUT_NOVA
    list_on: Callable[[Cloud, Collection[str], Collection[str]], None] | None = None
    aggregates: Callable[[], Sequence[str] | None] = lambda: None

    def named_aggregates(self, chosen: Collection[str] = ()) -> Collection[str] | None:
        """The aggregates that nova's requests can name, and the chosen ones; None: perhaps all."""
        named = self.aggregates()
        return None if named is None else {*named, *chosen}

    def on_roots(self, roots: Iterable[str], consumers: Collection[str]) -> Cloud:
        """The cloud with nova's servers on the compute nodes with these UUIDs, and of consumers.

        Requests: those of ``list_servers_on``. A refusal is not an error but a problem of the
        answer.
        """
        cloud = Cloud(self.compute.hosts or values.Hosts(), {})
        if self.list_on is not None:
            hosts = {node.host for node in map(self.compute.node, roots) if node}
            try:
                self.list_on(cloud, hosts, consumers)
            except errors.PlacementError as error:
                cloud.servers_problem = f"the servers on these hosts and their moves: {error}"
        return cloud


def list_servers_on(
    nova: api.Nova, cloud: Cloud, hosts: Collection[str], consumers: Collection[str]
) -> None:
    """Read the servers on hosts, those that move there or away, consumers, and all migrations.

    Those of which the newest cold migration or resize there failed, too. Other servers of a listing
    are left out: each would be read in Placement too. One of which nova does not show the host is
    kept.

    Requests: those of ``servers_on``; one per 1000 migrations; those of ``find_servers`` for
    consumers and servers that move and are not among them.
    """
    listed = nova_servers.servers_on(nova, hosts)
    migrations = {move.uuid: move for move in nova_servers.migrations(nova)}
    wanted = server_moves.servers_of(migrations, hosts).union(consumers)
    by_uuid = {
        server.uuid: server
        for server in listed
        if server.host in hosts or not server.known or server.uuid in wanted
    }
    absent = wanted - by_uuid.keys() - migrations.keys()
    if absent and len(hosts) <= lookup.MAX_SINGLE_REQUESTS:
        by_uuid |= nova_servers.find_servers(nova, absent)
    cloud.migrations = migrations
    cloud.servers = {uuid: it for uuid, it in by_uuid.items() if not it.is_deleted}
    cloud.deleted_servers = {uuid: it for uuid, it in by_uuid.items() if it.is_deleted}


def needs_allocations(server: values.Server) -> bool:
    """Whether a server requests anything, as far as nova shows it."""
    if server.flavor is None:
        return True
    requested = flavor.request_of(
        server.flavor, server.image_properties, booted_from_volume=server.from_volume
    )
    return bool(requested.unknown or requested.total())


def observe(
    services: nova_request.RequestServices,
    options: nova_options.SchedulerOptions,
    compute: ServerHosts,
    cloud: Cloud,
    uuids: Sequence[str],
) -> ServerCases:
    """Nova's requests for the servers with these UUIDs.

    Requests: those of ``cases.of_servers``, one per 1000 server groups; one for each of up to five
    members of groups that were not read, or one per 1000 servers.
    """
    listed = cloud.listed_servers
    chosen = {uuid: listed[uuid] for uuid in uuids if uuid in listed}
    read = cases.of_servers(services, chosen, options, compute)
    known = {uuid: case for uuid, case in read.items() if isinstance(case, Case)}
    refused = [
        f"traits, zones and aggregates of server {uuid}: {case}"
        for uuid, case in read.items()
        if isinstance(case, str)
    ]
    migrations = frozenset(cloud.migrations)
    unknown = [uuid for uuid in uuids if uuid not in read and uuid not in migrations]
    if unknown:
        refused.append(
            f"traits, zones and aggregates of {named(unknown)}, which nova does not list:"
            " 'openstack placement allocation audit' says what they are"
        )
    groups, problem = _groups(services.nova, listed, known)
    doubts = (*refused, *problem)
    local = [uuid for uuid, case in known.items() if not case.spec.from_volume]
    disks = (f"local disks, which only a migration moves: {named(local)}",) if local else ()
    caveats = Caveats(doubts, disks)
    newest = (case.requests[0].caveats for case in known.values() if case.requests)
    return ServerCases(known, groups, joined((caveats, *newest)), migrations)


def _groups(
    nova: api.Nova, listed: Mapping[str, values.Server], wanted: Collection[str]
) -> tuple[dict[str, GroupMembers], list[str]]:
    """The groups of some servers with the hosts of all members, and why they cannot be read."""
    try:
        groups = [
            group
            for group in api.server_groups(nova)
            if not group.policy.startswith("soft-") and not set(wanted).isdisjoint(group.members)
        ]
        absent = {uuid for group in groups for uuid in group.members} - listed.keys()
        others = nova_servers.find_servers(nova, absent) if absent else {}
    except errors.PlacementError as error:
        return {}, [f"server groups: {error}"]
    return cases.members_of(groups, {**others, **listed}), []


@dataclasses.dataclass(frozen=True, slots=True)
class Unallocated:
    """Servers on some hosts that have no allocations there, so that Placement counts them nowhere.

    ``missing`` is ``{UUID of a server without any allocation: nova's host}``, ``elsewhere`` the
    same for servers that have allocations, but only on other hosts.
    """

    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """What is wrong, each with the command that repairs it."""
        for uuids, what, command, flag in (
            (self.missing, "without allocations", "heal", ""),
            (self.elsewhere, "with allocations on other hosts only", "audit", "--repair"),
        ):
            if uuids:
                hosts = sorted(set(uuids.values()))
                named = hosts if len(hosts) <= _MOST_NAMED else ()
                options: list[command_line.Option] = [(flag, None)] if flag else []
                options += [("--host", host) for host in named]
                repair = command_line.line(f"placement allocation {command}", options=options)
                yield f"{counted(len(uuids), 'server')} {what}: {repair}"


class ServersByState(NamedTuple):
    """How servers stand to hosts that stop. Keys are ``(server UUID, root UUID)``.

    ``resting`` are at rest there and need a place elsewhere; ``held`` is why the others must not
    lose the host: they move; ``doubtful`` is why it is not known whether they lose anything.
    ``gone`` have allocations there and are not there any more.
    """

    resting: Mapping[tuple[str, str], values.Server]
    held: Mapping[tuple[str, str], str]
    doubtful: Mapping[tuple[str, str], str]
    gone: frozenset[tuple[str, str]]


def servers_by_state(cloud: Cloud, roots: Iterable[str]) -> ServersByState:
    """How the servers that nova lists stand to hosts (root UUIDs)."""
    resting: dict[tuple[str, str], values.Server] = {}
    held: dict[tuple[str, str], str] = {}
    doubtful: dict[tuple[str, str], str] = {}
    nodes = {root: cloud.compute_nodes[root] for root in roots if root in cloud.compute_nodes}
    for root, losses in server_moves.losses_on(cloud, [*nodes.values()]).items():
        node = nodes[root]
        for move, loss in losses:
            key = (move.server.uuid, root)
            if not loss.is_certain:
                doubtful[key] = (
                    f"{cases.label(move.server)}: {move.why()}: {_next(cloud, move, node.host)}"
                )
            elif not move.is_settled and move.phase is not server_moves.Phase.BUSY:
                held[key] = f"{move.why()}; {node.host} must not stop: {loss.cost.text}"
            else:
                resting[key] = move.server
    gone: set[tuple[str, str]] = set()
    for uuid in cloud.listed_servers:
        for root in cloud.roots_of(uuid) & nodes.keys():
            key = (uuid, root)
            server = cloud.servers.get(uuid)
            if key in resting or key in held or key in doubtful:
                continue
            if server and server.host and cloud.node_of(server) is None:
                doubtful[key] = (
                    f"{cases.label(server)}: nova has it on {server.host}, and lists no compute"
                    " node of this host"
                )
            else:
                gone.add(key)
    return ServersByState(resting, held, doubtful, frozenset(gone))


def _next(reading: Cloud, move: server_moves.ServerMove, host: str) -> str:
    """What to do about a server of which nova and Placement say different things."""
    return audit_of_move(reading, move, host) or guest_search.next_step(reading, move)


def audit_of_move(reading: Cloud, move: server_moves.ServerMove, host: str) -> str:
    """The audit that finds what a move left, or that it is stuck; empty if it finds nothing."""
    waiting = [
        migration for migration in move.migrations if server_moves.waits_for_source(migration)
    ]
    is_left = move.has_leftovers and move.phase is not server_moves.Phase.DISAGREES
    if not is_left and all(server_moves.is_queued(reading, server) for server in waiting):
        return ""
    # The audit says nothing about recent changes without --min-age.
    options = [("--host", host), ("--min-age", "0")]
    audit = command_line.line("placement allocation audit", options=options)
    return audit if is_left else f"if it is so for more than a minute: {audit}"


def add_placement(cloud: Cloud, base: state.CloudState) -> None:
    """Add to nova's half what Placement has: the providers and the allocations of a state."""
    cloud.providers = {
        uuid: provider.Provider(uuid, it.name, 0, it.root_uuid, it.parent_uuid)
        for uuid, it in base.providers.items()
    }
    cloud.set_allocations({uuid: it.allocations for uuid, it in base.consumers.items()}, {})


def unallocated(
    base: state.CloudState, by_state: ServersByState, among: Collection[str]
) -> Unallocated:
    """The servers at rest on compute nodes (``among``: UUIDs) without allocations there."""
    missing: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    for (uuid, root), server in by_state.resting.items():
        consumer = base.consumers.get(uuid)
        uuids = set(consumer.allocations) if consumer else set()
        if root not in among or not uuids.isdisjoint(base.tree[root]):
            continue
        if uuids:
            elsewhere[uuid] = server.host or ""
        elif needs_allocations(server):
            missing[uuid] = server.host or ""
    return Unallocated(missing, elsewhere)


def named(uuids: Sequence[str]) -> str:
    """``server UUID`` or ``servers UUID, UUID and 2 more``."""
    return f"server{'s' if len(uuids) > 1 else ''} {and_more(sorted(uuids), _MOST_NAMED)}"
