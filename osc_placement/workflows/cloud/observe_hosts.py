# SPDX-License-Identifier: Apache-2.0
"""Reads what decides whether a few hosts may stop, and joins the two services' servers there.

``read`` and ``of_state`` send the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, servers, source, ways
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_records import HostRecords
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of


@dataclasses.dataclass(frozen=True, slots=True)
class HostsRead:
    """The hosts (root UUIDs), what nova says about their servers, and a state.

    ``on_hosts`` are the servers that nova has on these hosts.

    The state has the consumers of these hosts, and answers their requests as the cloud does.
    """

    base: state.CloudState
    roots: Sequence[str]
    nova: nova_servers.KnownServers
    on_hosts: nova_servers.ServersOnHosts = dataclasses.field(
        default_factory=nova_servers.ServersOnHosts
    )


@dataclasses.dataclass(frozen=True, slots=True)
class JoinedServers:
    """The servers on hosts, as Placement and nova have them together.

    ``leaving`` are those with allocations there that need a place elsewhere, as far as nova was
    read, with the way of each. ``stand`` is how nova's servers stand to the hosts: ``held`` has
    those that nova does not move, too. ``lost`` are those without allocations there.
    """

    base: state.CloudState
    leaving: ways.Leaving
    stand: nova_servers.Standing
    lost: nova_servers.Unallocated

    @property
    def moving(self) -> Sequence[servers.PlacedServer]:
        """The servers that nova moves, each with its way."""
        return self.leaving.moving

    @property
    def stuck(self) -> set[str]:
        """The hosts (root UUIDs) with servers that must not, or may not, lose them."""
        return {root for _, root in (*self.stand.held, *self.stand.doubtful)}

    @property
    def uuids(self) -> set[str]:
        """The servers that need these hosts now."""
        of_nova = {uuid for uuid, _ in (*self.stand.resting, *self.stand.held)}
        return of_nova.union(each.uuid for each in self.moving)

    def on(self, roots: Collection[str]) -> JoinedServers:
        """Those on some of the hosts."""
        resting, held, doubtful, gone = self.stand
        stand = nova_servers.Standing(
            {key: server for key, server in resting.items() if key[1] in roots},
            {key: why for key, why in held.items() if key[1] in roots},
            {key: why for key, why in doubtful.items() if key[1] in roots},
            frozenset(key for key in gone if key[1] in roots),
        )
        moving = [server for server in self.moving if server.root_uuid in roots]
        return JoinedServers(
            self.base,
            dataclasses.replace(self.leaving, moving=moving),
            stand,
            nova_servers.unallocated(self.base, stand, roots),
        )

    def doubts(self) -> Iterator[str]:
        """What was not checked about the servers and can hold one of them."""
        yield from self.stand.doubtful.values()
        yield from self.lost.lines()
        for server in self.moving:
            if server.key in self.leaving.doubtful:
                yield f"server {server.uuid}: {self.leaving.doubtful[server.key]}"


def join(found: HostsRead, compute: ServerHosts, only_cold: Collection[str] = ()) -> JoinedServers:
    """The servers on the hosts, without those that are there no more.

    Those of ``only_cold`` (UUIDs) do not move live.
    """
    base, nova = found.base, found.nova
    stand = nova_servers.standing(base, found.on_hosts, compute)
    placed = servers.servers_on(base, found.roots, nova.cases, nova.groups, nova.migrations)
    staying = stand.held.keys() | stand.doubtful.keys() | stand.gone
    leaving = ways.leaving(
        (server for server in placed if (server.uuid, server.root_uuid) not in staying),
        nova.cases,
        HostVerdicts(base, compute),
        only_cold=only_cold,
    )
    refused = {
        (server.uuid, server.root_uuid): leaving.held[server.key]
        for server in placed
        if server.key in leaving.held
    }
    resting = {key: server for key, server in stand.resting.items() if key not in refused}
    stand = stand._replace(resting=resting, held={**stand.held, **refused})
    lost = nova_servers.unallocated(base, stand, found.roots)
    return JoinedServers(base, leaving, stand, lost)


def of_state(
    base: state.CloudState,
    hosts: Sequence[str],
    aggregates: Sequence[str],
    nova: nova_servers.NovaReader,
    others: Collection[str] = (),
) -> HostsRead:
    """As ``read``, of a state with every record. Requests: those of ``nova``."""
    return _read(HostRecords(base), hosts, aggregates, nova, (), others)


def known_servers(
    base: state.CloudState, nova: nova_servers.NovaReader
) -> nova_servers.KnownServers:
    """What nova says about all servers of a state, those without allocations included.

    Requests: those of ``nova``, to nova and neutron.
    """
    return servers_everywhere(base, nova)[0]


def servers_everywhere(
    base: state.CloudState, nova: nova_servers.NovaReader
) -> tuple[nova_servers.KnownServers, nova_servers.ServersOnHosts, nova_servers.Standing]:
    """As ``known_servers``; and what nova has on all hosts, and how the servers stand to them."""
    hosts = hosts_of(base)
    uuids = dict.fromkeys(each.uuid for each in servers.servers_on(base, hosts))
    on_hosts = nova.on_roots(hosts, uuids)
    stand = nova_servers.standing(base, on_hosts, nova.compute)
    staying = sorted({uuid for uuid, _ in (*stand.held, *stand.doubtful)})
    moved = [
        f"whether nova moves {nova_servers.named(staying)}: 'openstack placement host check' says"
        " why not"
    ]
    in_nova = nova.requests(on_hosts, list(uuids))
    doubts = (
        *([on_hosts.problem] if on_hosts.problem else ()),
        *nova_servers.unallocated(base, stand, hosts).lines(),
        *(moved if staying else ()),
    )
    caveats = Caveats(doubts) + in_nova.caveats
    return dataclasses.replace(in_nova, caveats=caveats), on_hosts, stand


def read(
    client: api.Client,
    hosts: Sequence[str],
    aggregates: Sequence[str],
    nova: nova_servers.NovaReader,
    context: ReadContext,
    more: Sequence[candidate.CandidateQuery] = (),
    others: Collection[str] = (),
) -> HostsRead:
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
) -> HostsRead:
    base, members = records.base, records.members(aggregates)
    roots = servers.chosen_roots(base, hosts, members, records.hosts(), nova.compute)
    records.read_hosts(roots)
    uuids = dict.fromkeys(each.uuid for each in servers.servers_on(base, roots))
    on_hosts = nova.on_roots(roots, {*uuids, *others})
    in_nova = nova.requests(on_hosts, list(uuids))
    records.read_consumers(on_hosts.servers)
    # What is left over after a move that failed: of the newest migration of each server.
    newest: dict[str, str] = {}
    for move in on_hosts.migrations.values():
        if move.server_uuid in on_hosts.servers:
            newest.setdefault(move.server_uuid, move.uuid if move.has_failed else "")
    records.read_consumers(filter(None, newest.values()))
    records.read_others(itertools.chain(_queries(base, roots, in_nova), more))
    return HostsRead(records.base, roots, in_nova, on_hosts)


def _queries(
    base: state.CloudState, roots: Sequence[str], in_nova: nova_servers.KnownServers
) -> Iterator[candidate.CandidateQuery]:
    """The different queries for the servers on hosts, made only if somebody reads for them."""
    placed = servers.servers_on(base, roots, in_nova.cases, migrations=in_nova.migrations)
    by_kind = {servers.kind_of(server.queries): server.queries for server in placed}
    for several in by_kind.values():
        yield from itertools.chain.from_iterable(several)
