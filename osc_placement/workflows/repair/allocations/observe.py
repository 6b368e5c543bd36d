# SPDX-License-Identifier: Apache-2.0
"""Reads nova, neutron and Placement for heal and audit.

``HealReader`` sends the requests; what to read next is a pure function of what was read so far.

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
from osc_placement.model import inventory
from osc_placement.model.candidate import CandidateQuery
from osc_placement.neutron import api as neutron_api
from osc_placement.neutron.api import Neutron
from osc_placement.nova import api as nova_api, servers as nova_servers, values
from osc_placement.nova.api import Nova, collected
from osc_placement.workflows.cloud import facts, server_moves, source
from osc_placement.workflows.cloud.cloud import Cloud, ProjectUser, UsageSum
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import comparable, expected, owners, ports
from osc_placement.workflows.repair.allocations.heal_request import WHOLE_CLOUD, HealRequest, Scope

LOG = logging.getLogger(__name__)


def unchecked_owners(snapshot: Cloud, request: HealRequest) -> list[str]:
    """A note about servers whose owners were not checked; empty if there are none."""
    return owners.limit_note(snapshot, _holding_at_rest(snapshot, request))


def _holding_at_rest(snapshot: Cloud, request: HealRequest) -> list[str]:
    """The servers in scope that have allocations and do not move."""
    return [
        server.uuid
        for server in request.scope.select(snapshot.servers.values())
        if not _lacks_all(snapshot, server) and not server_moves.move_of(snapshot, server).moving
    ]


def _with_open_ports(snapshot: Cloud, request: HealRequest) -> list[str]:
    """The servers that have no allocations or whose host's tree has more providers."""
    servers = []
    for server in request.scope.select(snapshot.servers.values()):
        root = comparable.root_to_heal(snapshot, server)
        if root is not None and (_lacks_all(snapshot, server) or len(snapshot.trees[root]) > 1):
            servers.append(server.uuid)
    return servers


def _lacking_ports(snapshot: Cloud, request: HealRequest) -> list[str]:
    """The consumers that lack an allocation or a binding of a port."""
    incomplete = [
        uuid
        for uuid in snapshot.ports
        if ports.unallocated(snapshot, snapshot.servers[uuid])
        or (request.bind and ports.missing_bindings(snapshot, snapshot.servers[uuid]))
    ]
    return [uuid for uuid in incomplete if snapshot.allocations.get(uuid)]


def _with_image_and_volumes(snapshot: Cloud, request: HealRequest) -> list[str]:
    """Servers without allocations that have both an image and volumes.

    Nova reports the image of a server whose root disk is a volume made from that image.
    """
    return [
        server.uuid
        for server in request.scope.select(snapshot.servers.values())
        if server.has_volumes and not server.from_volume and _lacks_all(snapshot, server)
    ]


def _trees(snapshot: Cloud, request: HealRequest) -> list[str]:
    """The trees of hosts whose other providers decide what servers need."""
    roots = dict.fromkeys(
        root
        for server, root in _lacking(snapshot, request)
        if (lacking := expected.missing_request(snapshot, server, root)).pci_aliases
        or lacking.undecided
        or expected.needs_tree(snapshot, server, root)
    )
    return [item.uuid for root in roots for item in snapshot.trees.get(root, ())]


def _nearby(snapshot: Cloud) -> list[str]:
    """The providers of the trees that servers are on, and those that share with these trees."""
    nodes = map(snapshot.node_of, snapshot.servers.values())
    roots = {node.uuid for node in nodes if node}
    shared = {uuid for root in roots for uuid in snapshot.sharing.get(root, ())}
    return [
        uuid
        for uuid, item in snapshot.providers.items()
        if (item.root_uuid or uuid) in roots or uuid in shared
    ]


def _lacking(snapshot: Cloud, request: HealRequest) -> Iterator[tuple[values.Server, str]]:
    """The servers that lack something and can be healed, each with its root provider."""
    for server in request.scope.select(snapshot.servers.values()):
        if _lacks_all(snapshot, server) or ports.unallocated(snapshot, server):
            root = comparable.root_to_heal(snapshot, server)
            if root is not None:
                yield server, root


def _lacks_all(snapshot: Cloud, server: values.Server) -> bool:
    return not snapshot.allocations.get(server.uuid)


#: Up to this many providers are read without asking first which of them are empty.
_FEW_PROVIDERS = 5

#: How many hosts make a part.
_PART = 64


class HealReader:
    """The three APIs, and how what heal and audit need gets into a cloud."""

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
        self._context = context or ReadContext()
        self._source = source.of(client, self._context)
        self._reader = self._source.reader
        self.request = self._supported(request or HealRequest())

    def _supported(self, request: HealRequest) -> HealRequest:
        """The request without consumer types below 1.38, and without writes to a recording."""
        typed = microversion.supports(self._client.microversion, "consumer types")
        return dataclasses.replace(
            request,
            consumer_type=request.consumer_type if typed else None,
            bind=self._neutron is not None and not self._neutron.source,
        )

    def read_cloud(self, *, with_deleted: bool = False) -> Cloud:
        """Servers, migrations, hosts, providers and allocations.

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
        cloud = source.read(self._client, self._nova, self._context, input_errors)
        with input_errors.collected():
            scope = scope.resolved(cloud.hosts)
            self.request = dataclasses.replace(self.request, scope=scope)
        if scope.is_narrow:
            self._read_servers(cloud, scope, input_errors)
        input_errors.check()
        cloud.sharing = self._reader.sharing(cloud.providers.values())
        if not scope.is_narrow:
            self._read_all_allocations(cloud)
            self._read_servers(cloud, scope, input_errors, with_deleted=with_deleted)
            input_errors.check()
            return cloud
        near = _nearby(cloud)
        if len(cloud.servers) > len(cloud.providers) - len(near):
            self._read_all_allocations(cloud)
        else:
            self._source.take_allocations(cloud, near)
            self.read_consumers(cloud, cloud.servers)
        return cloud

    def read_parts(self, after: str = "") -> Iterator[tuple[Scope, Cloud]]:
        """The hosts that have servers, 64 at a time in the order of their names.

        Starts behind the host ``after``. Yields each part's scope, and the allocations on the
        trees of its hosts; a server without allocations there is read by itself, because it may
        have some elsewhere. Owners are not read.
        Requests: as ``read_cloud``, except for allocations: one per provider of a part's trees,
        and one per server without allocations there.
        """
        input_errors = errors.InputErrors()
        cloud = source.read(self._client, self._nova, self._context, input_errors)
        self._read_servers(cloud, WHOLE_CLOUD, input_errors)
        input_errors.check()
        cloud.sharing = self._reader.sharing(cloud.providers.values())
        hosts = {item.host for item in cloud.servers.values() if item.host and item.host > after}
        names = sorted(hosts)
        for start in range(0, len(names), _PART):
            scope = Scope(hosts=frozenset(names[start : start + _PART]))
            servers = {uuid: item for uuid, item in cloud.servers.items() if scope.contains(item)}
            part = dataclasses.replace(cloud, servers=servers)
            self._source.take_allocations(part, _nearby(part))
            self.read_consumers(part, [uuid for uuid in servers if uuid not in part.allocations])
            yield scope, part

    def read_everything(self, cloud: Cloud) -> None:
        """Every provider's capacities, the consumers that nova does not list, and the rest.

        Requests: one per provider of which no summary has reported the capacities; one to
        Placement and one to nova per unlisted consumer; those of ``read_owners`` and
        ``read_missing``.
        """
        lacking = [uuid for uuid in cloud.providers if uuid not in cloud.inventories]
        facts.prefetch(cloud.inventories, lacking)
        unlisted = sorted(uuid for uuid in cloud.allocations if not cloud.knows(uuid))
        self.read_consumers(cloud, unlisted)
        self._read_unlisted(cloud, unlisted)
        self.read_owners(cloud)
        self.read_missing(cloud, self.request)

    def read_owners(self, cloud: Cloud) -> None:
        """The consumers that may have a wrong owner.

        Every consumer where this costs no request, or where there are few, or where the operator
        wants it. Otherwise the sums of all owners, consumers that nova does not know, where they
        may explain these sums, and those of servers whose owner has a wrong sum, a part at a time.
        Requests: none for a file; one per owner of servers, and one per consumer, at most
        ``owners.MOST_READS``.
        """
        request = self.request
        readable = _holding_at_rest(cloud, request)
        if not self._source.costs_requests or request.check_owners or request.scope.is_narrow:
            self.read_consumers(cloud, readable)
            return
        cloud.sums = self._read_sums(owners.server_owners(cloud))
        suspected = owners.OwnerSearch(cloud, readable).suspects()
        self.read_consumers(cloud, owners.unexplained(cloud, suspected))
        search = owners.OwnerSearch(cloud, _holding_at_rest(cloud, request))
        while chosen := search.next():
            self.read_consumers(cloud, chosen)
            search.learn(cloud, chosen)

    def read_missing(self, cloud: Cloud, request: HealRequest) -> None:
        """What tells what servers lack; each reading decides what the next one reads.

        Requests: ports, one to neutron for 64 servers; one per consumer that lacks a port, per
        provider whose inventories decide, and per host and request of its servers.
        """
        if self._neutron is not None:
            ports_read = neutron_api.ports_of(self._neutron, _with_open_ports(cloud, request))
            cloud.ports = neutron_api.by_server(ports_read)
        self.read_consumers(cloud, _lacking_ports(cloud, request))
        self._read_root_disks(cloud, _with_image_and_volumes(cloud, request))
        roots = dict.fromkeys(root for _, root in _lacking(cloud, request))
        sharing = [uuid for root in roots for uuid in cloud.sharing.get(root, ())]
        facts.prefetch(cloud.inventories, [*roots, *sharing])
        facts.prefetch(cloud.inventories, _trees(cloud, request))
        queries = (expected.query_of(cloud, *query) for query in _lacking(cloud, request))
        self._read_candidates(cloud, dict(filter(None, queries)))

    def read_consumers(self, cloud: Cloud, uuids: Iterable[str]) -> None:
        """Some consumers, whole and with their owners. Requests: one for each new one."""
        self._source.take_consumers(cloud, uuids)

    def _read_servers(
        self,
        cloud: Cloud,
        scope: Scope,
        input_errors: errors.InputErrors,
        *,
        with_deleted: bool = False,
    ) -> None:
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
        existing = [*servers, *(item for item in deleted if not item.is_deleted)]
        cloud.set_servers({item.uuid: item for item in existing})
        cloud.deleted_servers = {item.uuid: item for item in deleted if item.is_deleted}
        cloud.migrations = {move.uuid: move for move in migrations}

    def _read_all_allocations(self, cloud: Cloud) -> None:
        """The allocations of all providers, except of those that a summary reports as empty."""
        summaries: Mapping[str, responses.ProviderSummary] = {}
        if len(cloud.providers) > _FEW_PROVIDERS and self._source.costs_requests:
            summaries = self._read_summaries(len(cloud.providers))
        empty = {
            uuid
            for uuid, summary in summaries.items()
            if not any(amount.used for amount in summary.resources.values())
        }
        capacities: dict[str, inventory.Inventories] = {
            uuid: {
                name: inventory.Inventory(total=amount.capacity)
                for name, amount in summary.resources.items()
            }
            for uuid, summary in summaries.items()
        }
        facts.estimate(cloud.inventories, capacities)
        self._source.take_allocations(
            cloud, [uuid for uuid in cloud.providers if uuid not in empty]
        )

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

    def _read_sums(self, owners: Sequence[ProjectUser]) -> dict[ProjectUser, UsageSum]:
        def usage(owner: ProjectUser) -> UsageSum:
            total = self._client.show_total_usage(*owner)
            return UsageSum(total.resources, total.consumer_count)

        return self._reader.answers(usage, owners, "reading usages")

    def _read_candidates(self, cloud: Cloud, queries: Mapping[str, CandidateQuery]) -> None:
        def candidates(key: str) -> responses.Candidates | errors.PlacementError:
            try:
                return self._client.list_allocation_candidates(queries[key])
            except (api_errors.ApiError, api_errors.UnsupportedVersion) as error:
                if isinstance(error, api_errors.ApiError) and api_errors.concerns_all(error):
                    raise
                return error

        cloud.candidates = self._reader.answers(
            candidates, queries, "reading allocation candidates"
        )

    def _read_unlisted(self, cloud: Cloud, uuids: Sequence[str]) -> None:
        """Looks consumers up in nova one by one.

        Its listings omit servers of a cell that is down, and servers created after the listing.
        A recording of listings alone has no answer.
        """
        nova = self._nova
        shown = [it for it in uuids if nova_api.can_answer(nova, nova_servers.server_path(it))]
        show = functools.partial(nova_servers.server, nova)
        answers, failed = self._reader.readable(show, shown, "looking for servers")
        cloud.set_servers(
            {uuid: server for uuid, server in answers.items() if server and not server.is_deleted}
        )
        cloud.unconfirmed = {
            uuid: f"nova does not say whether it is a server: {error}"
            for uuid, error in failed.items()
        }

    def _read_root_disks(self, cloud: Cloud, uuids: Sequence[str]) -> None:
        """Sets ``from_volume`` of servers whose root disk is an attached volume.

        Recorded responses contain no attachments: an image counts as a local disk there.
        """
        if self._nova.source:
            return
        on_volume = self._reader.answers(
            lambda uuid: nova_servers.root_is_volume(self._nova, cloud.servers[uuid]),
            uuids,
            "reading root disks",
        )
        cloud.set_servers(
            {
                uuid: dataclasses.replace(cloud.servers[uuid], from_volume=True)
                for uuid, is_volume in on_volume.items()
                if is_volume
            }
        )


def _list_servers(nova: Nova, scope: Scope) -> list[values.Server]:
    """The servers in a scope. Errors: InvalidInput for servers that nova does not have."""
    if scope.servers is not None:
        listed = [*nova_servers.find_servers(nova, scope.servers).values()]
    elif scope.hosts is not None:
        listed = nova_servers.servers_on(nova, scope.hosts)
    else:
        listed = nova_servers.servers(nova)
    by_uuid = {server.uuid: server for server in listed}
    unknown = sorted((scope.servers or frozenset()) - by_uuid.keys())
    errors.InputErrors(f"nova has no server {uuid}, or has deleted it" for uuid in unknown).check()
    return [server for server in by_uuid.values() if scope.contains(server)]
