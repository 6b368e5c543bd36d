# SPDX-License-Identifier: Apache-2.0
"""One cloud: everything that is known of Placement, nova and neutron. Pure.

``source.read`` makes the cloud of two services, or of a file and a recording: nobody else asks
which it is. What is known of single providers, traits and aggregates is a ``FactTable`` there:
asking for one reads it. In a test it may be a dictionary.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from osc_placement import errors
from osc_placement.client import responses
from osc_placement.model import allocation, inventory, provider
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import values
from osc_placement.plan import change
from osc_placement.plan.reasons import Code, Reason

_NO_NODE = Reason(
    Code.NO_COMPUTE_NODE, "nova lists a compute service of this host, but no compute node"
)
_UNKNOWN_HOST = Reason(
    Code.UNKNOWN_HOST, "nova lists neither a compute node nor a compute service of this host"
)
_CELL_DOWN = Reason(Code.CELL_DOWN, "its cell is down: nova cannot list its compute nodes")
_CELLS_DOWN = "nova lists no compute node of this host, perhaps because the cell of {hosts} is down"


def no_provider(host: str, other: str = "", subject: str = "it") -> str:
    """Why a compute node of a host has no provider; ``other`` has the one with its name."""
    why = f": nova-compute on {host} creates one when it starts"
    if other:
        why = f", and cannot get one: the compute node of {other} has this name too"
    return f"{subject} has no resource provider{why}"


class ProjectUser(NamedTuple):
    """A project and one of its users: Placement adds up usages for these."""

    project_id: str
    user_id: str


class UsageSum(NamedTuple):
    """What all consumers of an owner use, and how many there are; None below 1.38."""

    resources: allocation.Resources
    consumers: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """A consumer's owner and type; ``type`` is None below 1.38, ``unknown`` if it was never set."""

    project_id: str | None
    user_id: str | None
    type: str | None = None


def _facts() -> Any:
    return dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Cloud:
    """Nova's compute hosts, Placement's providers, and what else was read of both.

    Of nova: ``aggregates`` are its host aggregates, ``deleted_aggregates`` is ``{uuid: name}`` of
    those that it has deleted, as far as somebody asked. ``servers`` by UUID, soft-deleted ones
    included; ``deleted_servers`` are those that are not archived yet. ``migrations`` by UUID, the
    newest first. ``unconfirmed`` is ``{consumer: why nova cannot say whether it is a server}``.
    ``trusts_nova``: somebody has looked, and nova's host of a server is right also where its move
    failed half way. ``servers_problem`` is why servers and migrations could not be read. Of
    neutron: ``agents``, None if they were not read, and ``ports``, those with resource requests by
    server.

    Of Placement by UUID of the provider: ``inventories`` (an estimate has only the capacity),
    ``traits``, ``memberships`` (its aggregates), ``usages``, ``held``
    (its allocations), ``read_errors`` (why it could not be read). ``with_trait`` are the providers
    with a trait, ``members`` those of an aggregate, ``sharing`` the providers that share resources
    with the tree of a root. By consumer: ``allocations``, ``generations``, and ``owners`` of those
    that were read one by one. ``sums`` is what Placement adds up for owners; ``candidates`` are
    the responses, or the errors, by the key of a query.
    """

    hosts: values.Hosts
    providers: Mapping[str, provider.Provider]
    aggregates: Sequence[values.HostAggregate] = ()
    deleted_aggregates: Mapping[str, str] = _facts()
    servers: Mapping[str, values.Server] = _facts()
    migrations: Mapping[str, values.Migration] = _facts()
    allocations: Mapping[str, allocation.Allocations] = _facts()
    sharing: Mapping[str, tuple[str, ...]] = _facts()
    trusts_nova: bool = False
    deleted_servers: Mapping[str, values.Server] = _facts()
    servers_problem: str = ""
    unconfirmed: Mapping[str, str] = _facts()
    generations: Mapping[str, int | None] = _facts()
    owners: Mapping[str, Owner] = _facts()
    inventories: Mapping[str, inventory.Inventories] = _facts()
    traits: Mapping[str, frozenset[str]] = _facts()
    memberships: Mapping[str, Collection[str]] = _facts()
    usages: Mapping[str, Mapping[str, int]] = _facts()
    held: Mapping[str, responses.ProviderAllocations] = _facts()
    with_trait: Mapping[str, frozenset[str]] = _facts()
    members: Mapping[str, frozenset[str]] = _facts()
    read_errors: dict[str, str] = dataclasses.field(default_factory=dict)
    ports: Mapping[str, tuple[neutron_api.Port, ...]] = _facts()
    agents: Sequence[neutron_api.Agent] | None = None
    sums: Mapping[ProjectUser, UsageSum] = _facts()
    candidates: Mapping[str, responses.Candidates | errors.PlacementError] = _facts()
    #: ``server_moves.move_of`` keeps its answers here.
    located: dict[str, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)

    # Nova's hosts and Placement's trees

    @functools.cached_property
    def compute_nodes(self) -> dict[str, values.ComputeNode]:
        """``{uuid: compute node}``; the provider of a node has its UUID."""
        return {node.uuid: node for node in self.hosts.nodes}

    @functools.cached_property
    def nodes_of_host(self) -> dict[str, list[values.ComputeNode]]:
        """``{host: its compute nodes}``: one, or many with ironic."""
        return self.hosts.of_host()

    @functools.cached_property
    def hostnames(self) -> frozenset[str]:
        """The names of nova's compute nodes; their providers have the same names."""
        return frozenset(node.hostname for node in self.hosts.nodes)

    @functools.cached_property
    def existing_hosts(self) -> frozenset[str]:
        """The hosts that nova has: with a compute node or a service, or in a host aggregate."""
        in_aggregates = {host for aggregate in self.aggregates for host in aggregate.hosts}
        return self.hosts.services | self.nodes_of_host.keys() | in_aggregates

    @functools.cached_property
    def roots(self) -> dict[str, provider.Provider]:
        """``{name: root provider}``."""
        return {item.name: item for item in self.providers.values() if item.parent_uuid is None}

    @functools.cached_property
    def trees(self) -> dict[str, list[provider.Provider]]:
        """``{root uuid: the providers of its tree}``, including the root."""
        by_root: dict[str, list[provider.Provider]] = {}
        for item in self.providers.values():
            by_root.setdefault(item.root_uuid or item.uuid, []).append(item)
        return by_root

    def root_of(self, provider_uuid: str) -> str:
        """The root of a provider's tree; the provider itself if it is not known."""
        item = self.providers.get(provider_uuid)
        return (item.root_uuid if item else None) or provider_uuid

    def name_of(self, provider_uuid: str) -> str:
        """A provider's name; its UUID if it is not known."""
        item = self.providers.get(provider_uuid)
        return item.name if item else provider_uuid

    @functools.cached_property
    def provider_names(self) -> dict[str, str]:
        """``{provider uuid: its name}``."""
        return {uuid: item.name for uuid, item in self.providers.items()}

    def provider_of(self, node: values.ComputeNode) -> provider.Provider | None:
        """The provider with the UUID of a node, or the root provider with its hostname.

        But never that of another node: hosts of two cells may have one hostname.
        """
        of_name = self.roots.get(node.hostname)
        if of_name is not None and of_name.uuid in self.compute_nodes:
            of_name = None
        return self.providers.get(node.uuid) or of_name

    def name_taken_by(self, node: values.ComputeNode) -> values.ComputeNode | None:
        """The other compute node whose provider has the hostname of this one."""
        of_name = self.roots.get(node.hostname)
        other = self.compute_nodes.get(of_name.uuid) if of_name else None
        return None if other == node else other

    def providers_of(self, host: str) -> tuple[list[provider.Provider], list[change.Subject]]:
        """The providers of a host's nodes; and its nodes, or the host, without a provider."""
        nodes = self.nodes_of_host.get(host, [])
        providers = [(node, self.provider_of(node)) for node in nodes]
        without = [change.Subject(node.hostname, node.uuid) for node, item in providers if not item]
        existing = [item for _, item in providers if item]
        return existing, without if nodes else [change.Subject(host, "")]

    def why_missing(self, subject: change.Subject) -> Reason:
        """Why a node, or a host, of ``providers_of`` has no provider."""
        if subject.uuid:
            node = self.compute_nodes[subject.uuid]
            other = self.name_taken_by(node)
            return Reason(Code.NO_PROVIDER, no_provider(node.host, other.host if other else ""))
        if subject.name in self.hosts.unreachable:
            return _CELL_DOWN
        if self.hosts.unreachable:
            hosts = ", ".join(sorted(self.hosts.unreachable))
            return Reason(Code.CELL_DOWN, _CELLS_DOWN.format(hosts=hosts))
        return _NO_NODE if subject.name in self.hosts.services else _UNKNOWN_HOST

    # Servers and their moves

    @property
    def listed_servers(self) -> dict[str, values.Server]:
        """The servers by UUID with those that are deleted and not archived yet."""
        return {**self.servers, **self.deleted_servers}

    @functools.cached_property
    def migrations_of(self) -> dict[str, list[values.Migration]]:
        """``{server uuid: its migrations}``, the newest first."""
        by_server: dict[str, list[values.Migration]] = {}
        for migration in self.migrations.values():
            by_server.setdefault(migration.server_uuid, []).append(migration)
        return by_server

    def node_of(self, server: values.Server) -> values.ComputeNode | None:
        """The compute node of a server, if nova lists it."""
        return self.node_at(server.host, server.node)

    def node_at(self, host: str | None, node: str | None) -> values.ComputeNode | None:
        """The compute node with this host and hypervisor hostname, if nova lists it.

        Before the claim, a migration has no node of its destination: a host with one node is
        enough.
        """
        if host and not node:
            nodes = self.nodes_of_host.get(host, [])
            return nodes[0] if len(nodes) == 1 else None
        return self._nodes.get((host or "", node or ""))

    @functools.cached_property
    def _nodes(self) -> dict[tuple[str, str], values.ComputeNode]:
        return {(node.host, node.hostname): node for node in self.hosts.nodes}

    def roots_of(self, consumer_uuid: str) -> frozenset[str]:
        """The roots of the trees in which a consumer has allocations, shared ones included."""
        return frozenset(map(self.root_of, self.allocations.get(consumer_uuid, ())))

    def claimed_by(self, consumer_uuid: str) -> list[values.ComputeNode]:
        """The compute nodes on whose trees a consumer has allocations, by UUID."""
        roots = sorted(self.roots_of(consumer_uuid))
        return [self.compute_nodes[root] for root in roots if root in self.compute_nodes]

    @functools.cached_property
    def projects(self) -> frozenset[str]:
        """The projects of all servers and migrations in nova's database."""
        servers = (*self.servers.values(), *self.deleted_servers.values())
        projects = {server.project_id for server in servers}
        projects |= {migration.project_id for migration in self.migrations.values()}
        return frozenset(filter(None, projects))

    @functools.cached_property
    def recorded_nodes(self) -> frozenset[str]:
        """The names of nodes in nova's servers and migrations; the nodes may not exist any more."""
        servers = (*self.servers.values(), *self.deleted_servers.values())
        nodes = {server.node for server in servers}
        for migration in self.migrations.values():
            nodes |= {migration.source_node, migration.dest_node}
        return frozenset(node for node in nodes if node)

    @functools.cached_property
    def lost_servers(self) -> frozenset[str]:
        """The servers (UUIDs) of which nova shows neither the host nor that it hides it."""
        servers = self.servers.values()
        return frozenset(it.uuid for it in servers if not (it.known or it.hidden))

    def knows(self, consumer_uuid: str) -> bool:
        """Whether nova has a server or a migration with this UUID, deleted ones included."""
        records = (self.servers, self.deleted_servers, self.migrations)
        return any(consumer_uuid in by_uuid for by_uuid in records)

    def set_servers(self, servers: Mapping[str, values.Server]) -> None:
        """Add servers, or replace them."""
        self.servers = {**self.servers, **servers}
        self._forget(servers)
        for answer in ("projects", "recorded_nodes", "lost_servers"):
            self.__dict__.pop(answer, None)

    # Consumers

    @functools.cached_property
    def used(self) -> dict[str, dict[str, int]]:
        """``{provider uuid: {class: used}}``, the sums of the allocations."""
        by_provider: dict[str, dict[str, int]] = {}
        for allocations in self.allocations.values():
            for provider_uuid, resources in allocations.items():
                used = by_provider.setdefault(provider_uuid, {})
                for resource_class, amount in resources.items():
                    used[resource_class] = used.get(resource_class, 0) + amount
        return by_provider

    def classes_in_tree(self, root_uuid: str) -> frozenset[str]:
        """The resource classes of which some provider of a tree has inventory, as far as read."""
        tree = [item.uuid for item in self.trees.get(root_uuid, ())]
        read = (self.inventories[uuid] for uuid in tree if uuid in self.inventories)
        return frozenset(name for offered in read for name in offered)

    def consumer(self, uuid: str) -> allocation.Consumer:
        """A consumer; its owner only if it was read one by one."""
        owner = self.owners.get(uuid, Owner(None, None))
        return allocation.Consumer(
            uuid,
            self.allocations.get(uuid, {}),
            project_id=owner.project_id,
            user_id=owner.user_id,
            generation=self.generations.get(uuid),
            consumer_type=owner.type,
        )

    def set_held(self, uuids: Iterable[str]) -> None:
        """Take the allocations of all consumers from those on these providers."""
        allocations: dict[str, dict[str, allocation.Resources]] = {}
        generations: dict[str, int | None] = {}
        for provider_uuid in uuids:
            if provider_uuid not in self.held:
                continue
            for consumer_uuid, share in self.held[provider_uuid].allocations.items():
                allocations.setdefault(consumer_uuid, {})[provider_uuid] = share.resources
                _keep_oldest(generations, consumer_uuid, share.consumer_generation)
        self.set_allocations(allocations, generations)

    def set_allocations(
        self,
        allocations: Mapping[str, allocation.Allocations],
        generations: Mapping[str, int | None],
    ) -> None:
        """Take the allocations of all consumers, and their generations."""
        self.allocations, self.generations = allocations, generations
        self.located = {}
        self.__dict__.pop("used", None)

    def set_consumers(self, consumers: Mapping[str, allocation.Consumer]) -> None:
        """Take consumers as read one by one, whole and with their owners."""
        changed = [
            uuid
            for uuid, item in consumers.items()
            if item.allocations != self.allocations.get(uuid, {})
        ]
        kept = {uuid: parts for uuid, parts in self.allocations.items() if uuid not in consumers}
        existing = {uuid: item for uuid, item in consumers.items() if item.allocations}
        self.allocations = {**kept, **{uuid: item.allocations for uuid, item in existing.items()}}
        self.generations = {
            **self.generations,
            **{uuid: item.generation for uuid, item in consumers.items()},
        }
        self.owners = {
            **self.owners,
            **{
                uuid: Owner(item.project_id, item.user_id, item.consumer_type)
                for uuid, item in existing.items()
            },
        }
        self._forget(changed)

    def with_allocations(self, allocations: Mapping[str, allocation.Allocations]) -> Self:
        """The cloud as it would be with these allocations."""
        after = dataclasses.replace(self, allocations=allocations)
        changed = {
            uuid
            for uuid in {*self.allocations, *allocations}
            if self.allocations.get(uuid) is not allocations.get(uuid)
        }
        after.located = dict(self.located)
        after._forget(changed)
        return after

    def _forget(self, consumers: Iterable[str]) -> None:
        """Forget the moves of servers that have changed, or whose migrations have."""
        for uuid in consumers:
            move = self.migrations.get(uuid)
            self.located.pop(uuid, None)
            if move is not None:
                self.located.pop(move.server_uuid, None)
        self.__dict__.pop("used", None)


def _keep_oldest(
    generations: dict[str, int | None], consumer_uuid: str, generation: int | None
) -> None:
    """A consumer that was written between two reads must not be written at the later generation."""
    before = generations.get(consumer_uuid, generation)
    reported = [number for number in (before, generation) if number is not None]
    generations[consumer_uuid] = min(reported, default=None)
