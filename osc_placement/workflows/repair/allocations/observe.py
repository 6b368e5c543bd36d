# SPDX-License-Identifier: Apache-2.0
"""Reads nova, neutron and Placement for heal and audit.

``HealReader`` sends the requests. Its ``with_`` methods return the snapshot with more; what to read
next is a pure function of what was read so far.

No API reports everything at one time. For a whole cloud, allocations are read first and servers
after them: a consumer written in between has a new generation, so that no write builds on the
old state; and a server created or moved in between shows it by its task, its migration or its
time of change. For a narrow scope, servers are read first, because they decide which consumers
to read. The precondition of a change finds later changes, just before the write.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors, responses
from osc_placement.engine import state
from osc_placement.model import allocation, inventory
from osc_placement.model.candidate import CandidateQuery
from osc_placement.neutron.api import Neutron, Port, ports_of
from osc_placement.nova import servers as nova_servers, values
from osc_placement.nova.api import Nova, collected
from osc_placement.scheduling.own_host import UnmetNeed
from osc_placement.workflows.cloud import compute_nodes, server_moves
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.observe import is_file, whole_state
from osc_placement.workflows.cloud.reading import PlacementReader
from osc_placement.workflows.repair.allocations import (
    admission,
    at_rest,
    expected,
    owners,
    ports,
)
from osc_placement.workflows.repair.allocations.heal_request import WHOLE_CLOUD, HealRequest, Scope
from osc_placement.workflows.repair.allocations.snapshot import (
    CloudSnapshot,
    Owner,
    ProjectUser,
    UsageSum,
    with_allocations,
    with_consumers,
    with_records,
)

LOG = logging.getLogger(__name__)


def unchecked_owners(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """A note about servers whose owners were not checked; empty if there are none."""
    return owners.limit_note(snapshot, _holding_at_rest(snapshot, request))


def _holding_at_rest(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """The servers in scope that have allocations and do not move."""
    return [
        server.uuid
        for server in request.scope.select(snapshot.servers.values())
        if not _lacks_all(snapshot, server) and not server_moves.move_of(snapshot, server).moving
    ]


def _with_open_ports(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """The servers that have no allocations or whose host's tree has more providers."""
    servers = []
    for server in request.scope.select(snapshot.servers.values()):
        root = at_rest.root_to_heal(snapshot, server)
        if root is not None and (_lacks_all(snapshot, server) or len(snapshot.trees[root]) > 1):
            servers.append(server.uuid)
    return servers


def _lacking_ports(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """The consumers that lack an allocation or a binding of a port."""
    incomplete = [
        uuid
        for uuid in snapshot.ports
        if ports.unallocated(snapshot, snapshot.servers[uuid])
        or (request.bind and ports.missing_bindings(snapshot, snapshot.servers[uuid]))
    ]
    return [uuid for uuid in incomplete if snapshot.allocations.get(uuid)]


def _with_image_and_volumes(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """Servers without allocations that have both an image and volumes.

    Nova reports the image of a server whose root disk is a volume made from that image.
    """
    return [
        server.uuid
        for server in request.scope.select(snapshot.servers.values())
        if server.has_volumes and not server.from_volume and _lacks_all(snapshot, server)
    ]


def _trees(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """The trees of hosts on which servers need other providers than the root."""
    roots = dict.fromkeys(
        root
        for server, root in _lacking(snapshot, request)
        if expected.request_of(server).pci_aliases or expected.needs_tree(snapshot, server, root)
    )
    return [item.uuid for root in roots for item in snapshot.trees.get(root, ())]


def _nearby(snapshot: CloudSnapshot) -> list[str]:
    """The providers of the trees that servers are on, and those that share with these trees."""
    nodes = map(snapshot.node_of, snapshot.servers.values())
    roots = {node.uuid for node in nodes if node}
    shared = {uuid for root in roots for uuid in snapshot.sharing.get(root, ())}
    return [
        uuid
        for uuid, item in snapshot.providers.items()
        if (item.root_uuid or uuid) in roots or uuid in shared
    ]


def _lacking(snapshot: CloudSnapshot, request: HealRequest) -> Iterator[tuple[values.Server, str]]:
    """The servers that lack something and can be healed, each with its root provider."""
    for server in request.scope.select(snapshot.servers.values()):
        if _lacks_all(snapshot, server) or ports.unallocated(snapshot, server):
            root = at_rest.root_to_heal(snapshot, server)
            if root is not None:
                yield server, root


def _lacks_all(snapshot: CloudSnapshot, server: values.Server) -> bool:
    return not snapshot.allocations.get(server.uuid)


#: Up to this many providers are read without asking first which of them are empty.
_FEW_PROVIDERS = 5

#: How many hosts make a part.
_PART = 64


class HealReader:
    """The three APIs, and what they report of a cloud."""

    def __init__(
        self,
        client: api.Client,
        nova: Nova,
        neutron: Neutron | None = None,
        context: ReadContext | None = None,
        request: HealRequest | None = None,
    ) -> None:
        client.require_feature("consumer generation", "changing allocations safely")
        client.require_owners()
        self._client, self._nova, self._neutron = client, nova, neutron
        self._reader = PlacementReader(client, context or ReadContext())
        self.request = self._supported(request or HealRequest())

    def _supported(self, request: HealRequest) -> HealRequest:
        """The request without consumer types below 1.38, and without writes to a recording."""
        typed = microversion.supports(self._client.microversion, "consumer types")
        return dataclasses.replace(
            request,
            consumer_type=request.consumer_type if typed else None,
            bind=self._neutron is not None and not self._neutron.source,
        )

    def read_cloud(self, *, with_deleted: bool = False) -> CloudSnapshot:
        """Servers, migrations, hosts, providers and allocations; other fields stay empty.

        For a narrow scope: the trees of its servers' hosts, the providers that share with
        them, and all consumers of its servers.
        Requests: to nova one for services and one per 1000 hypervisors, migrations, servers and
        deleted servers; for up to five hosts or servers in scope one each instead. To
        Placement one listing of all providers, those of ``PlacementReader.sharing``, one query for
        usages, and one per provider that is not empty. For a narrow scope: one per provider of its
        trees, and one per server or per other provider, whichever is less.
        Errors: InvalidInput for unknown hosts and servers, and with every missing right.
        """
        scope, input_errors = self.request.scope, errors.InputErrors()
        cloud = compute_nodes.read_hosts(self._client, self._nova, input_errors)
        snapshot = CloudSnapshot(cloud.hosts, cloud.providers)
        with input_errors.collected():
            scope = scope.resolved(snapshot.hosts)
            self.request = dataclasses.replace(self.request, scope=scope)
        if scope.is_narrow:
            snapshot = self._with_servers(snapshot, scope, input_errors)
        input_errors.check()
        snapshot = self._with_sharing(snapshot)
        if scope.is_narrow:
            near = _nearby(snapshot)
            if len(snapshot.servers) > len(snapshot.providers) - len(near):
                return self._with_all_allocations(snapshot)
            snapshot = self._with_allocations(snapshot, near)
            return self.with_consumers(snapshot, snapshot.servers)
        snapshot = self._with_all_allocations(snapshot)
        snapshot = self._with_servers(snapshot, scope, input_errors, with_deleted=with_deleted)
        input_errors.check()
        return snapshot

    def admission(
        self, snapshot: CloudSnapshot, servers: Iterable[values.Server]
    ) -> dict[str, list[UnmetNeed]]:
        """What ``admission.observe`` says of servers. Requests: those of ``admission.observe``."""
        return admission.observe(self._reader, self._nova, snapshot, servers)

    def read_parts(self, after: str = "") -> Iterator[tuple[Scope, CloudSnapshot]]:
        """The hosts that have servers, 64 at a time in the order of their names.

        Starts behind the host ``after``. Yields each part's scope, and the allocations on the
        trees of its hosts; a server without allocations there is read by itself, because it may
        have some elsewhere. Owners are not read.
        Requests: as ``read_cloud``, except for allocations: one per provider of a part's trees,
        and one per server without allocations there.
        """
        input_errors = errors.InputErrors()
        cloud = compute_nodes.read_hosts(self._client, self._nova, input_errors)
        snapshot = CloudSnapshot(cloud.hosts, cloud.providers)
        snapshot = self._with_servers(snapshot, WHOLE_CLOUD, input_errors)
        input_errors.check()
        snapshot = self._with_sharing(snapshot)
        hosts = {one.host for one in snapshot.servers.values() if one.host and one.host > after}
        names = sorted(hosts)
        for start in range(0, len(names), _PART):
            scope = Scope(hosts=frozenset(names[start : start + _PART]))
            servers = {uuid: one for uuid, one in snapshot.servers.items() if scope.contains(one)}
            part = dataclasses.replace(snapshot, servers=servers)
            part = self._with_allocations(part, _nearby(part))
            absent = [uuid for uuid in servers if uuid not in part.allocations]
            yield scope, self.with_consumers(part, absent)

    def with_everything(self, snapshot: CloudSnapshot) -> CloudSnapshot:
        """With every provider's capacities, the consumers that nova does not list, and the rest.

        Requests: one per provider of which no summary has reported the capacities; one to
        Placement and one to nova per unlisted consumer; those of ``with_owners`` and
        ``with_missing``.
        """
        snapshot = self._with_inventories(snapshot, snapshot.providers, snapshot.providers)
        unlisted = sorted(uuid for uuid in snapshot.allocations if not snapshot.knows(uuid))
        snapshot = self._with_unlisted(self.with_consumers(snapshot, unlisted), unlisted)
        return self.with_missing(self.with_owners(snapshot), self.request)

    def with_owners(self, snapshot: CloudSnapshot) -> CloudSnapshot:
        """With the consumers that may have a wrong owner.

        Of a database file, every owner. Every consumer where there are few, or where the operator
        wants it. Otherwise the sums of
        all owners, consumers that nova does not know, where they may explain these sums, and those
        of servers whose owner has a wrong sum, a part at a time.
        Requests: none for a file; one per owner of servers, and one per consumer, at most
        ``owners.MOST_READS``.
        """
        request = self.request
        readable = _holding_at_rest(snapshot, request)
        with whole_state(self._client) as base:
            if base is not None:
                return self._with_recorded_owners(snapshot, base, readable)
        if request.check_owners or request.scope.is_narrow:
            return self.with_consumers(snapshot, readable)
        usages = self._read_usages(owners.server_owners(snapshot))
        snapshot = dataclasses.replace(snapshot, usages=usages)
        suspected = owners.OwnerSearch(snapshot, readable).suspects()
        snapshot = self.with_consumers(snapshot, owners.unexplained(snapshot, suspected))
        search = owners.OwnerSearch(snapshot, _holding_at_rest(snapshot, request))
        while chosen := search.next():
            snapshot = self.with_consumers(snapshot, chosen)
            search.learn(snapshot, chosen)
        return snapshot

    def _with_recorded_owners(
        self, snapshot: CloudSnapshot, base: state.CloudState, uuids: Iterable[str]
    ) -> CloudSnapshot:
        """With the owners of some consumers, from the records of a file. Requests: none."""
        typed = microversion.supports(self._client.microversion, "consumer types")
        read: dict[str, Owner] = {}
        for uuid in uuids:
            record = base.consumers.get(uuid)
            if record is not None and uuid not in snapshot.owners:
                kind = (record.consumer_type or allocation.UNKNOWN_TYPE) if typed else None
                read[uuid] = Owner(record.project_id, record.user_id, kind)
        return dataclasses.replace(snapshot, owners={**snapshot.owners, **read})

    def with_missing(self, snapshot: CloudSnapshot, request: HealRequest) -> CloudSnapshot:
        """With what tells what servers lack; each reading decides what the next one reads.

        Requests: ports, one to neutron for 64 servers; one per consumer that lacks a port, per
        provider whose inventories decide, and per host and request of its servers.
        """
        snapshot = self._with_ports(snapshot, _with_open_ports(snapshot, request))
        snapshot = self.with_consumers(snapshot, _lacking_ports(snapshot, request))
        snapshot = self._with_root_disks(snapshot, _with_image_and_volumes(snapshot, request))
        roots = dict.fromkeys(root for _, root in _lacking(snapshot, request))
        sharing = [uuid for root in roots for uuid in snapshot.sharing.get(root, ())]
        snapshot = self._with_inventories(snapshot, [*roots, *sharing], roots)
        snapshot = self._with_inventories(snapshot, _trees(snapshot, request))
        queries = (expected.query_of(snapshot, *query) for query in _lacking(snapshot, request))
        return self._with_candidates(snapshot, dict(filter(None, queries)))

    def with_consumers(self, snapshot: CloudSnapshot, uuids: Iterable[str]) -> CloudSnapshot:
        """With some consumers, whole and with their owners. Requests: one for each new one."""
        new = (uuid for uuid in uuids if uuid not in snapshot.owners)
        return with_consumers(snapshot, self._reader.consumers(new))

    def _with_servers(
        self,
        snapshot: CloudSnapshot,
        scope: Scope,
        input_errors: errors.InputErrors,
        *,
        with_deleted: bool = False,
    ) -> CloudSnapshot:
        """Servers, then migrations: a server that starts to move in between counts as moving."""
        servers, deleted = list[values.Server](), list[values.Server]()
        migrations = list[values.Migration]()
        with collected(input_errors):
            servers = _list_servers(self._nova, scope)
        with collected(input_errors):
            migrations = nova_servers.migrations(self._nova)
        if with_deleted:
            with collected(input_errors):
                deleted = nova_servers.deleted_servers(self._nova)
        # The listing of deleted servers contains soft-deleted ones, which still exist.
        existing = [*servers, *(one for one in deleted if not one.is_deleted)]
        return dataclasses.replace(
            snapshot,
            servers={one.uuid: one for one in existing},
            deleted_servers={one.uuid: one for one in deleted if one.is_deleted},
            migrations={move.uuid: move for move in migrations},
        )

    def _with_sharing(self, snapshot: CloudSnapshot) -> CloudSnapshot:
        sharing = self._reader.sharing(snapshot.providers.values())
        return dataclasses.replace(snapshot, sharing=sharing)

    def _with_all_allocations(self, snapshot: CloudSnapshot) -> CloudSnapshot:
        """The allocations of all providers, except of those that a summary reports as empty."""
        summaries: Mapping[str, responses.ProviderSummary] = {}
        if len(snapshot.providers) > _FEW_PROVIDERS and not is_file(self._client):
            summaries = self._read_summaries(len(snapshot.providers))
        empty = {
            uuid
            for uuid, summary in summaries.items()
            if not any(amount.used for amount in summary.resources.values())
        }
        snapshot = dataclasses.replace(
            snapshot,
            capacities={
                uuid: {
                    name: inventory.Inventory(total=amount.capacity)
                    for name, amount in summary.resources.items()
                }
                for uuid, summary in summaries.items()
            },
        )
        return self._with_allocations(
            snapshot, [uuid for uuid in snapshot.providers if uuid not in empty]
        )

    def _with_allocations(self, snapshot: CloudSnapshot, uuids: Sequence[str]) -> CloudSnapshot:
        with whole_state(self._client) as base:
            if base is not None:
                return with_records(snapshot, base.consumers, frozenset(uuids))
        answers, failed = self._reader.allocations(uuids)
        return dataclasses.replace(with_allocations(snapshot, answers), read_errors=failed)

    def _read_summaries(self, limit: int) -> Mapping[str, responses.ProviderSummary]:
        """Capacities and usages of the trees of all hosts that have memory left.

        One request, which a busy or an old Placement may refuse: then nothing is known. Placement
        computes all candidates with any limit, so that a low one would only add requests. With
        this one, shared memory cannot multiply the response.
        """
        pairs = [("resources", "MEMORY_MB:1"), ("limit", str(limit))]
        try:
            return self._client.list_allocation_candidates(pairs).summaries
        except (api_errors.ApiError, api_errors.UnsupportedVersion, api_errors.TimedOut) as error:
            LOG.info("the capacities of all hosts in one request: %s", error)
            return {}

    def _with_inventories(
        self, snapshot: CloudSnapshot, uuids: Iterable[str], capacities: Iterable[str] = ()
    ) -> CloudSnapshot:
        """``capacities``: providers of which the capacity is enough, as a summary reports it."""
        reported = {
            uuid: snapshot.capacities[uuid] for uuid in capacities if uuid in snapshot.capacities
        }
        present = {**reported, **snapshot.inventories}
        lacking = [uuid for uuid in uuids if uuid not in present]
        with whole_state(self._client) as base:
            if base is not None:
                listed = (uuid for uuid in lacking if uuid in base.providers)
                records = {uuid: base.providers[uuid].inventories for uuid in listed}
                return dataclasses.replace(snapshot, inventories={**present, **records})
        answers, failed = self._reader.readable(
            self._client.list_inventories, lacking, "reading inventories"
        )
        inventories = {uuid: answer.inventories for uuid, answer in answers.items()}
        return dataclasses.replace(
            snapshot,
            inventories={**present, **inventories},
            read_errors={**snapshot.read_errors, **failed},
        )

    def _read_usages(self, owners: Sequence[ProjectUser]) -> dict[ProjectUser, UsageSum]:
        def usage(owner: ProjectUser) -> UsageSum:
            total = self._client.show_total_usage(*owner)
            return UsageSum(total.resources, total.consumer_count)

        return self._reader.answers(usage, owners, "reading usages")

    def _with_ports(self, snapshot: CloudSnapshot, servers: Sequence[str]) -> CloudSnapshot:
        if self._neutron is None:
            return snapshot
        by_server: dict[str, tuple[Port, ...]] = {}
        for port in ports_of(self._neutron, servers):
            by_server[port.server_uuid] = (*by_server.get(port.server_uuid, ()), port)
        return dataclasses.replace(snapshot, ports=by_server)

    def _with_candidates(
        self, snapshot: CloudSnapshot, queries: Mapping[str, CandidateQuery]
    ) -> CloudSnapshot:
        def candidates(key: str) -> responses.Candidates | errors.PlacementError:
            try:
                return self._client.list_allocation_candidates(queries[key])
            except (api_errors.ApiError, api_errors.UnsupportedVersion) as error:
                if isinstance(error, api_errors.ApiError) and api_errors.concerns_all(error):
                    raise
                return error

        answers = self._reader.answers(candidates, queries, "reading allocation candidates")
        return dataclasses.replace(snapshot, candidates=answers)

    def _with_unlisted(self, snapshot: CloudSnapshot, uuids: Sequence[str]) -> CloudSnapshot:
        """Looks consumers up in nova one by one.

        Its listings omit servers of a cell that is down, and servers created after the listing.
        Recorded responses contain listings only.
        """
        if self._nova.source:
            return snapshot
        show = functools.partial(nova_servers.server, self._nova)
        answers, failed = self._reader.readable(show, uuids, "looking for servers")
        servers = {
            uuid: server for uuid, server in answers.items() if server and not server.is_deleted
        }
        return dataclasses.replace(
            snapshot,
            servers={**snapshot.servers, **servers},
            unconfirmed={
                uuid: f"nova does not say whether it is a server: {error}"
                for uuid, error in failed.items()
            },
        )

    def _with_root_disks(self, snapshot: CloudSnapshot, uuids: Sequence[str]) -> CloudSnapshot:
        """Sets ``from_volume`` of servers whose root disk is an attached volume.

        Recorded responses contain no attachments: an image counts as a local disk there.
        """
        if self._nova.source:
            return snapshot
        on_volume = self._reader.answers(
            lambda uuid: nova_servers.root_is_volume(self._nova, snapshot.servers[uuid]),
            uuids,
            "reading root disks",
        )
        changed = {
            uuid: dataclasses.replace(snapshot.servers[uuid], from_volume=True)
            for uuid, is_volume in on_volume.items()
            if is_volume
        }
        return dataclasses.replace(snapshot, servers={**snapshot.servers, **changed})


def _list_servers(nova: Nova, scope: Scope) -> list[values.Server]:
    """The servers in a scope. Errors: InvalidInput for servers that nova does not have."""
    if scope.servers is not None:
        listed = [*nova_servers.find_servers(nova, scope.servers).values()]
    elif scope.hosts is not None:
        listed = nova_servers.servers_on(nova, scope.hosts)
    else:
        listed = nova_servers.servers(nova)
    by_uuid = {one.uuid: one for one in listed}
    unknown = sorted((scope.servers or frozenset()) - by_uuid.keys())
    errors.InputErrors(f"nova has no server {uuid}, or has deleted it" for uuid in unknown).check()
    return [one for one in by_uuid.values() if scope.contains(one)]
