"""What to read next: pure functions of what was read so far.

Each function is one round; ``observe`` reads the rounds in order. Heal and audit combine them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osc_placement.model import provider
from osc_placement.model.candidate import CandidateQuery
from osc_placement.nova import values
from osc_placement.workflows.allocations import expected, location, owners, ports
from osc_placement.workflows.allocations.heal_request import HealRequest
from osc_placement.workflows.allocations.snapshot import CloudSnapshot, ProjectUser


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
    found = []
    for server in request.scope.select(snapshot.servers.values()):
        root = location.root_to_heal(snapshot, server)
        if root is not None and (_lacks_all(snapshot, server) or len(snapshot.trees[root]) > 1):
            found.append(server.uuid)
    return Reads(ports=found)


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
    return Reads(inventories=[each.uuid for root in roots for each in snapshot.trees.get(root, ())])


def candidates(snapshot: CloudSnapshot, request: HealRequest) -> Reads:
    """One candidates query per host and request of its servers."""
    queries = (expected.query_of(snapshot, *each) for each in _lacking(snapshot, request))
    return Reads(candidates=dict(each for each in queries if each is not None))


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
        each.uuid
        for each in providers
        if (each.root_uuid or each.uuid) in roots or each.uuid in shared
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
