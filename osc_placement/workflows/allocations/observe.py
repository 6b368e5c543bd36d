# SPDX-License-Identifier: Apache-2.0
"""Reads nova, neutron and Placement for heal and audit, in rounds.

``HealReader`` sends the requests. What to read next is a pure function of what was read so far:
one for each round, which heal and audit combine.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors, lookup, responses, retry
from osc_placement.model import inventory, provider
from osc_placement.model.candidate import CandidateQuery
from osc_placement.neutron.api import Neutron, Port, ports_of
from osc_placement.nova import servers as nova_servers, values
from osc_placement.nova.api import Nova, collected
from osc_placement.workflows.allocations import decision, expected, location, owners, ports
from osc_placement.workflows.allocations.decision import HealRequest
from osc_placement.workflows.allocations.snapshot import (
    CloudRecords,
    CloudSnapshot,
    ProjectUser,
    UsageSum,
    from_records,
    with_consumers,
)
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.reading import PlacementReader

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Reads:
    """What to read: everything by UUID, except usages and candidates.

    ``capacities`` are inventories of which the capacity is enough: those of a provider summary
    cost no request. ``unlisted``: consumers to look up in nova one by one. ``ports`` and
    ``root_disks``: servers. ``candidates``: ``{key: query}``. ``then`` decides what else the
    round needs when these are read.
    """

    inventories: Iterable[str] = ()
    capacities: Iterable[str] = ()
    consumers: Iterable[str] = ()
    unlisted: Sequence[str] = ()
    usages: Sequence[ProjectUser] = ()
    ports: Sequence[str] = ()
    root_disks: Sequence[str] = ()
    candidates: Mapping[str, CandidateQuery] = dataclasses.field(default_factory=dict)
    then: Callable[[CloudSnapshot], Reads] | None = None


Round = Callable[[CloudSnapshot, HealRequest], Reads]


def all_capacities(snapshot: CloudSnapshot, _: HealRequest) -> Reads:
    """Every provider's capacities: from a summary, or its inventories."""
    return Reads(capacities=snapshot.providers, inventories=snapshot.providers)


def unknown_consumers(snapshot: CloudSnapshot, _: HealRequest) -> Reads:
    """Consumers that nova does not list, in Placement and in nova."""
    unknown = sorted(uuid for uuid in snapshot.allocations if not snapshot.knows(uuid))
    return Reads(consumers=unknown, unlisted=unknown)


def owner_sums(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """The sums of all owners; or every consumer, where there are few or the operator wants it."""
    if request.check_owners or request.scope.is_narrow:
        return Reads(consumers=_at_rest(snapshot, _holding(snapshot, request)))
    return Reads(usages=owners.server_owners(snapshot))


def unexplained_consumers(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """Consumers that nova does not know, where they may explain the sums of owners."""
    suspected = _owner_search(snapshot, request).suspects()
    return Reads(consumers=owners.unexplained(snapshot, suspected))


def suspected_consumers(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """The consumers of servers that may have a wrong owner, the most probable ones first."""
    return _suspected(_owner_search(snapshot, request)) if snapshot.usages else Reads()


def _suspected(search: owners.OwnerSearch) -> Reads:
    chosen = search.next()

    def then(snapshot: CloudSnapshot) -> Reads:
        search.learn(snapshot, chosen)
        return _suspected(search)

    return Reads(consumers=chosen, then=then if chosen else None)


def unchecked_owners(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    """A note about servers whose owners were not checked; empty if there are none."""
    return owners.limit_note(snapshot, _at_rest(snapshot, _holding(snapshot, request)))


def _owner_search(snapshot: CloudSnapshot, request: HealRequest) -> owners.OwnerSearch:
    return owners.OwnerSearch(snapshot, _at_rest(snapshot, _holding(snapshot, request)))


def port_requests(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """The ports of servers that have no allocations or whose host's tree has more providers."""
    servers = []
    for server in request.scope.select(snapshot.servers.values()):
        root = location.root_to_heal(snapshot, server)
        if root is not None and (_lacks_all(snapshot, server) or len(snapshot.trees[root]) > 1):
            servers.append(server.uuid)
    return Reads(ports=servers)


def port_consumers(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """The consumers of servers that lack an allocation or a binding of a port."""
    incomplete = [
        uuid
        for uuid in snapshot.ports
        if ports.unallocated(snapshot, snapshot.servers[uuid])
        or (request.bind and ports.missing_bindings(snapshot, snapshot.servers[uuid]))
    ]
    return Reads(consumers=[uuid for uuid in incomplete if snapshot.allocations.get(uuid)])


def root_disks(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """Servers without allocations that have both an image and volumes.

    Nova reports the image of a server whose root disk is a volume made from that image.
    """
    return Reads(
        root_disks=[
            server.uuid
            for server in request.scope.select(snapshot.servers.values())
            if server.has_volumes and not server.from_volume and _lacks_all(snapshot, server)
        ]
    )


def root_inventories(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """The root providers on which servers lack something, and those that share with them."""
    roots = dict.fromkeys(root for _, root in _lacking(snapshot, request))
    sharing = (uuid for root in roots for uuid in snapshot.sharing.get(root, ()))
    return Reads(capacities=roots, inventories=[*roots, *sharing])


def tree_inventories(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """The trees of hosts on which servers need other providers than the root."""
    roots = dict.fromkeys(
        root
        for server, root in _lacking(snapshot, request)
        if expected.request_of(server).pci_aliases or expected.needs_tree(snapshot, server, root)
    )
    return Reads(inventories=[item.uuid for root in roots for item in snapshot.trees.get(root, ())])


def candidates(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """One candidates query per host and request of its servers."""
    queries = (expected.query_of(snapshot, *query) for query in _lacking(snapshot, request))
    return Reads(candidates=dict(query for query in queries if query is not None))


#: The rounds that find what servers lack; those of heal, with owners; those of the audit.
MISSING_ROUNDS: Sequence[Round] = (
    port_requests,
    port_consumers,
    root_disks,
    root_inventories,
    tree_inventories,
    candidates,
)
HEAL_ROUNDS: Sequence[Round] = (
    owner_sums,
    unexplained_consumers,
    suspected_consumers,
    *MISSING_ROUNDS,
)
AUDIT_ROUNDS: Sequence[Round] = (all_capacities, unknown_consumers, *HEAL_ROUNDS)


def nearby(
    hosts: values.Hosts,
    servers: Iterable[values.Server],
    providers: Iterable[provider.Provider],
    sharing: Mapping[str, Sequence[str]],
) -> list[str]:
    """The providers of the trees that servers are on, and those that share with these trees."""
    nodes = {(node.host, node.hostname): node.uuid for node in hosts.nodes}
    roots = {nodes.get((server.host or "", server.node or "")) for server in servers}
    shared = {uuid for root in roots if root for uuid in sharing.get(root, ())}
    return [
        item.uuid
        for item in providers
        if (item.root_uuid or item.uuid) in roots or item.uuid in shared
    ]


def _holding(snapshot: CloudSnapshot, request: HealRequest) -> list[str]:
    servers = request.scope.select(snapshot.servers.values())
    return [server.uuid for server in servers if not _lacks_all(snapshot, server)]


def _at_rest(snapshot: CloudSnapshot, uuids: Iterable[str]) -> list[str]:
    servers = snapshot.servers
    return [uuid for uuid in uuids if not location.locate(snapshot, servers[uuid]).moving]


def _lacking(snapshot: CloudSnapshot, request: HealRequest) -> Iterator[tuple[values.Server, str]]:
    """The servers that lack something and can be healed, each with its root provider."""
    for server in request.scope.select(snapshot.servers.values()):
        if _lacks_all(snapshot, server) or ports.unallocated(snapshot, server):
            root = location.root_to_heal(snapshot, server)
            if root is not None:
                yield server, root


def _lacks_all(snapshot: CloudSnapshot, server: values.Server) -> bool:
    return not snapshot.allocations.get(server.uuid)


#: Up to this many providers are read without asking first which of them are empty.
_FEW_PROVIDERS = 5

#: How many hosts make a part.
_PART = 64


class HealReader:
    """The three APIs; each method sends the requests of one round of observation."""

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
        found_errors = errors.InputErrors()
        records = self._read_hosts(found_errors)
        scope = self.request.scope
        with found_errors.collected():
            scope = scope.resolved(records.hosts)
            self.request = dataclasses.replace(self.request, scope=scope)
        if scope.is_narrow:
            self._read_servers(records, scope, found_errors, with_deleted=with_deleted)
        found_errors.check()
        records.sharing = self._reader.sharing(records.providers)
        if scope.is_narrow:
            near = nearby(records.hosts, records.servers, records.providers, records.sharing)
            if len(records.servers) > len(records.providers) - len(near):
                self._read_all_allocations(records)
            else:
                self._read_allocations(records, near)
                records.consumers = self._reader.consumers(one.uuid for one in records.servers)
            return from_records(records)
        self._read_all_allocations(records)
        self._read_servers(records, scope, found_errors, with_deleted=with_deleted)
        found_errors.check()
        return from_records(records)

    def read_parts(self, after: str = "") -> Iterator[tuple[decision.Scope, CloudSnapshot]]:
        """The hosts that have servers, 64 at a time in the order of their names.

        Starts behind the host ``after``. Yields each part's scope, and the allocations on the
        trees of its hosts; a server without allocations there is read by itself, because it may
        have some elsewhere. Owners are not read.
        Requests: as ``read_cloud``, except for allocations: one per provider of a part's trees,
        and one per server without allocations there.
        """
        found_errors = errors.InputErrors()
        records = self._read_hosts(found_errors)
        self._read_servers(records, decision.WHOLE_CLOUD, found_errors, with_deleted=False)
        found_errors.check()
        records.sharing = self._reader.sharing(records.providers)
        names = sorted({one.host for one in records.servers if one.host and one.host > after})
        for start in range(0, len(names), _PART):
            scope = decision.Scope(hosts=frozenset(names[start : start + _PART]))
            servers = [one for one in records.servers if scope.contains(one)]
            part = dataclasses.replace(records, servers=servers)
            self._read_allocations(part, nearby(part.hosts, servers, part.providers, part.sharing))
            present = {uuid for answer in part.allocations.values() for uuid in answer.allocations}
            part.consumers = self._reader.consumers(
                one.uuid for one in servers if one.uuid not in present
            )
            yield scope, from_records(part)

    def complete(
        self, snapshot: CloudSnapshot, rounds: Iterable[Round], request: HealRequest
    ) -> CloudSnapshot:
        """The snapshot after some rounds; each decides on the result of those before."""
        for decide in rounds:
            reads: Reads | None = decide(snapshot, request)
            while reads:
                snapshot = self.read(snapshot, reads)
                reads = reads.then(snapshot) if reads.then else None
        return snapshot

    def read(self, snapshot: CloudSnapshot, reads: Reads) -> CloudSnapshot:
        """The snapshot with more. Requests: one for each item of ``reads`` not read before.

        Ports: one to neutron for 64 servers. Capacities: none if a summary has reported them.
        """
        capacities = {
            uuid: snapshot.capacities[uuid]
            for uuid in reads.capacities
            if uuid in snapshot.capacities
        }
        inventories, failed = self._read_inventories(
            uuid
            for uuid in reads.inventories
            if uuid not in snapshot.inventories and uuid not in capacities
        )
        snapshot = dataclasses.replace(
            snapshot,
            inventories={**capacities, **snapshot.inventories, **inventories},
            read_errors={**snapshot.read_errors, **failed},
            usages={**snapshot.usages, **self._read_usages(reads.usages)},
            ports={**snapshot.ports, **self._read_ports(reads.ports)},
            candidates={**snapshot.candidates, **self._read_candidates(reads.candidates)},
        )
        new = (uuid for uuid in reads.consumers if uuid not in snapshot.owners)
        snapshot = with_consumers(snapshot, self._reader.consumers(new))
        snapshot = self._with_unlisted(snapshot, reads.unlisted)
        return self._with_root_disks(snapshot, reads.root_disks)

    def _read_hosts(self, found_errors: errors.InputErrors) -> CloudRecords:
        records = CloudRecords()
        with collected(found_errors):
            records.hosts = nova_servers.read_hosts(self._nova)
        with collected(found_errors):
            records.providers = retry.read(self._client.list_providers)
        return records

    def _read_servers(
        self,
        records: CloudRecords,
        scope: decision.Scope,
        found_errors: errors.InputErrors,
        *,
        with_deleted: bool,
    ) -> None:
        """Servers, then migrations: a server that starts to move in between counts as moving."""
        with collected(found_errors):
            records.servers = _list_servers(self._nova, scope)
        with collected(found_errors):
            records.migrations = nova_servers.migrations(self._nova)
        if with_deleted:
            with collected(found_errors):
                records.deleted = nova_servers.deleted_servers(self._nova)

    def _read_all_allocations(self, records: CloudRecords) -> None:
        """The allocations of all providers, except of those that a summary reports as empty."""
        if len(records.providers) > _FEW_PROVIDERS:
            records.summaries = self._read_summaries(len(records.providers))
        empty = {
            uuid
            for uuid, summary in records.summaries.items()
            if not any(amount.used for amount in summary.resources.values())
        }
        uuids = [item.uuid for item in records.providers if item.uuid not in empty]
        self._read_allocations(records, uuids)

    def _read_summaries(self, limit: int) -> Mapping[str, responses.ProviderSummary]:
        """Capacities and usages of the trees of all hosts that have memory left.

        One request, which a busy or an old Placement may refuse: then nothing is known. Placement
        computes all candidates with any limit, so that a low one would only add requests. With
        this one, shared memory cannot multiply the response.
        """
        pairs = [("resources", "MEMORY_MB:1"), ("limit", str(limit))]
        try:
            return retry.read(lambda: self._client.list_allocation_candidates(pairs)).summaries
        except (api_errors.ApiError, api_errors.UnsupportedVersion, api_errors.TimedOut) as error:
            LOG.info("the capacities of all hosts in one request: %s", error)
            return {}

    def _read_allocations(self, records: CloudRecords, uuids: Sequence[str]) -> None:
        records.allocations, records.read_errors = self._reader.allocations(uuids)

    def _read_inventories(
        self, uuids: Iterable[str]
    ) -> tuple[dict[str, inventory.Inventories], dict[str, str]]:
        answers, failed = self._reader.readable(
            self._client.list_inventories, uuids, "reading inventories"
        )
        return {uuid: answer.inventories for uuid, answer in answers.items()}, failed

    def _read_usages(self, owners: Sequence[ProjectUser]) -> dict[ProjectUser, UsageSum]:
        def usage(owner: ProjectUser) -> UsageSum:
            total = self._client.show_total_usage(*owner)
            return UsageSum(total.resources, total.consumer_count)

        return self._reader.answers(usage, owners, "reading usages")

    def _read_ports(self, servers: Sequence[str]) -> dict[str, tuple[Port, ...]]:
        if self._neutron is None:
            return {}
        by_server: dict[str, tuple[Port, ...]] = {}
        for port in ports_of(self._neutron, servers):
            by_server[port.server_uuid] = (*by_server.get(port.server_uuid, ()), port)
        return by_server

    def _read_candidates(
        self, queries: Mapping[str, CandidateQuery]
    ) -> dict[str, responses.Candidates | errors.PlacementError]:
        def candidates(key: str) -> responses.Candidates | errors.PlacementError:
            try:
                return retry.read(lambda: self._client.list_allocation_candidates(queries[key]))
            except (api_errors.ApiError, api_errors.UnsupportedVersion) as error:
                return error

        return self._reader.answers(candidates, queries, "reading allocation candidates")

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
                **snapshot.unconfirmed,
                **{
                    uuid: f"nova does not say whether it is a server: {error}"
                    for uuid, error in failed.items()
                },
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


def _list_servers(nova: Nova, scope: decision.Scope) -> list[values.Server]:
    """The servers in a scope. Errors: InvalidInput for servers that nova does not have."""
    if scope.servers is not None:
        listed = [*nova_servers.find_servers(nova, scope.servers).values()]
    elif scope.hosts is not None and len(scope.hosts) <= lookup.MAX_SINGLE_REQUESTS:
        hosts = sorted(scope.hosts)
        listed = [one for host in hosts for one in nova_servers.servers(nova, host=host)]
    else:
        listed = nova_servers.servers(nova)
    by_uuid = {one.uuid: one for one in listed}
    unknown = sorted((scope.servers or frozenset()) - by_uuid.keys())
    errors.InputErrors(f"nova has no server {uuid}, or has deleted it" for uuid in unknown).check()
    return [one for one in by_uuid.values() if scope.contains(one)]
