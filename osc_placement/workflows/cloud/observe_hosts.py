# SPDX-License-Identifier: Apache-2.0
"""Reads what decides whether a few hosts may stop, and joins the two services' servers there.

``read`` and ``of_state`` send the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator, Sequence

from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.nova import values
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, servers, source, ways
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_records import HostRecords
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of


@dataclasses.dataclass(frozen=True)
class ServersRead:
    """Hosts (root UUIDs), and what both services have about their servers.

    ``base`` has the consumers of these hosts, and answers nova's requests for them as the cloud
    does. ``cloud`` has nova's servers on these hosts, and the allocations of ``base``. ``known`` is
    what nova requests for them; ``everywhere`` the same for the servers of all hosts, for the
    reserve, if it is asked for.
    """

    base: state.CloudState
    roots: Sequence[str] = ()
    cloud: Cloud = dataclasses.field(default_factory=lambda: Cloud(values.Hosts(), {}))
    known: nova_servers.ServerCases = dataclasses.field(default_factory=nova_servers.ServerCases)
    everywhere: nova_servers.ServerCases | None = None

    @functools.cached_property
    def by_state(self) -> nova_servers.ServersByState:
        """How nova's servers stand to the hosts."""
        return nova_servers.servers_by_state(self.cloud, self.roots)

    def placed(self) -> list[servers.PlacedServer]:
        """The servers with allocations on the hosts."""
        return self.known.on(self.base, self.roots)

    def resting(self) -> list[servers.PlacedServer]:
        """The servers that are at rest where they have allocations."""
        return [it for it in self.placed() if (it.uuid, it.root_uuid) in self.by_state.resting]


@dataclasses.dataclass(frozen=True, slots=True)
class JoinedServers:
    """The servers on hosts, as Placement and nova have them together.

    ``leaving`` are those with allocations there that need a place elsewhere, as far as nova was
    read, with the way of each. ``by_state`` is how nova's servers stand to the hosts: ``held`` has
    those that nova does not move, too. ``lost`` are those without allocations there.
    """

    base: state.CloudState
    leaving: ways.Leaving
    by_state: nova_servers.ServersByState
    lost: nova_servers.Unallocated

    @property
    def moving(self) -> Sequence[servers.PlacedServer]:
        """The servers that nova moves, each with its way."""
        return self.leaving.moving

    @property
    def stuck(self) -> set[str]:
        """The hosts (root UUIDs) with servers that must not, or may not, lose them."""
        return {root for _, root in (*self.by_state.held, *self.by_state.doubtful)}

    @property
    def uuids(self) -> set[str]:
        """The servers that need these hosts now."""
        of_nova = {uuid for uuid, _ in (*self.by_state.resting, *self.by_state.held)}
        return of_nova.union(server.uuid for server in self.moving)

    def on(self, roots: Collection[str]) -> JoinedServers:
        """Those on some of the hosts."""
        resting, blocked, doubtful, gone = self.by_state
        by_state = nova_servers.ServersByState(
            {key: server for key, server in resting.items() if key[1] in roots},
            {key: why for key, why in blocked.items() if key[1] in roots},
            {key: why for key, why in doubtful.items() if key[1] in roots},
            frozenset(key for key in gone if key[1] in roots),
        )
        moving = [server for server in self.moving if server.root_uuid in roots]
        return JoinedServers(
            self.base,
            dataclasses.replace(self.leaving, moving=moving),
            by_state,
            nova_servers.unallocated(self.base, by_state, roots),
        )

    def doubts(self) -> Iterator[str]:
        """What was not checked about the servers and can hold one of them."""
        yield from self.by_state.doubtful.values()
        yield from self.lost.lines()
        for server in self.moving:
            if server.key in self.leaving.doubtful:
                yield f"server {server.uuid}: {self.leaving.doubtful[server.key]}"


def join(read: ServersRead, compute: ServerHosts, only_cold: Collection[str] = ()) -> JoinedServers:
    """The servers on the hosts, without those that are there no more.

    Those of ``only_cold`` (UUIDs) do not move live.
    """
    base, by_state, placed = read.base, read.by_state, read.placed()
    staying = by_state.held.keys() | by_state.doubtful.keys() | by_state.gone
    leaving = ways.leaving(
        (server for server in placed if (server.uuid, server.root_uuid) not in staying),
        read.known.cases,
        HostVerdicts(base, compute),
        only_cold=only_cold,
    )
    refused = {
        (server.uuid, server.root_uuid): leaving.held[server.key]
        for server in placed
        if server.key in leaving.held
    }
    resting = {key: server for key, server in by_state.resting.items() if key not in refused}
    by_state = by_state._replace(resting=resting, held={**by_state.held, **refused})
    lost = nova_servers.unallocated(base, by_state, read.roots)
    return JoinedServers(base, leaving, by_state, lost)


def of_state(
    base: state.CloudState,
    hosts: Sequence[str],
    aggregates: Sequence[str],
    nova: nova_servers.NovaReader,
    others: Collection[str] = (),
) -> ServersRead:
    """As ``read``, of a state with every record. Requests: those of ``nova``."""
    return _read(HostRecords(base), hosts, aggregates, nova, (), others)


def servers_everywhere(base: state.CloudState, nova: nova_servers.NovaReader) -> ServersRead:
    """The servers of all hosts of a state; ``known`` has those without allocations, too.

    Requests: those of ``nova``, to nova and neutron.
    """
    hosts = hosts_of(base)
    uuids = dict.fromkeys(server.uuid for server in servers.servers_on(base, hosts))
    cloud = nova.on_roots(hosts, uuids)
    nova_servers.add_placement(cloud, base)
    read = ServersRead(base, hosts, cloud, nova.requests(cloud, list(uuids)))
    by_state = read.by_state
    staying = sorted({uuid for uuid, _ in (*by_state.held, *by_state.doubtful)})
    moved = [
        f"whether nova moves {nova_servers.named(staying)}: 'openstack placement host check' says"
        " why not"
    ]
    doubts = (
        *filter(None, [cloud.servers_problem]),
        *nova_servers.unallocated(base, by_state, hosts).lines(),
        *(moved if staying else ()),
    )
    of_servers = dataclasses.replace(read.known, caveats=Caveats(doubts) + read.known.caveats)
    return dataclasses.replace(read, known=of_servers)


def read(
    client: api.Client,
    hosts: Sequence[str],
    aggregates: Sequence[str],
    nova: nova_servers.NovaReader,
    context: ReadContext,
    more: Sequence[candidate.CandidateQuery] = (),
    others: Collection[str] = (),
) -> ServersRead:
    """Read the hosts with these names or UUIDs, and those of aggregates.

    The state also answers ``more``; ``others`` are UUIDs of servers to read, wherever they are.

    Requests: those of ``wide.Wide`` for all servers together; one for each aggregate, for each
    provider of the hosts, for each consumer on them, for each server that nova has there or moves
    there or away, for the migration of each such server if it failed, for each other member of its
    server group, and for each provider of other hosts with allocations of one of these consumers;
    to nova and neutron those of ``nova``. To a file only these.
    Errors: UnknownProvider; PlacementError for an aggregate without hosts.
    """
    with source.of(client, context).hosts() as records:
        return _read(records, hosts, aggregates, nova, more, others)


def _read(
    records: HostRecords,
    hosts: Sequence[str],
    aggregates: Sequence[str],
    nova: nova_servers.NovaReader,
    more: Sequence[candidate.CandidateQuery],
    others: Collection[str],
) -> ServersRead:
    base, members = records.base, records.members(aggregates)
    roots = servers.chosen_roots(base, hosts, members, records.hosts(), nova.compute)
    records.read_hosts(roots)
    uuids = dict.fromkeys(server.uuid for server in servers.servers_on(base, roots))
    cloud = nova.on_roots(roots, {*uuids, *others})
    of_servers = nova.requests(cloud, list(uuids))
    listed = cloud.listed_servers
    records.read_consumers(listed)
    # What is left over after a move that failed: of the newest migration of each server.
    newest: dict[str, str] = {}
    for move in cloud.migrations.values():
        if move.server_uuid in listed:
            newest.setdefault(move.server_uuid, move.uuid if move.has_failed else "")
    records.read_consumers(filter(None, newest.values()))
    records.read_others(itertools.chain(_queries(of_servers, base, roots), more))
    nova_servers.add_placement(cloud, records.base)
    return ServersRead(records.base, roots, cloud, of_servers)


def _queries(
    known: nova_servers.ServerCases, base: state.CloudState, roots: Sequence[str]
) -> Iterator[candidate.CandidateQuery]:
    """The different queries for the servers on hosts, made only if somebody reads for them."""
    placed = known.on(base, roots)
    by_kind = {servers.kind_of(server.queries): server.queries for server in placed}
    for several in by_kind.values():
        yield from itertools.chain.from_iterable(several)
