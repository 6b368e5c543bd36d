"""What was observed of nova and Placement: the one value that healing and auditing judge.

Pure; ``observe`` fills it in.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from osc_placement.model import allocation, inventory, provider
from osc_placement.neutron import port
from osc_placement.nova import values


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """Whose a consumer is; ``type`` is None below 1.38, ``unknown`` when none was ever set."""

    project_id: str | None
    user_id: str | None
    type: str | None = None


@dataclasses.dataclass(frozen=True)
class CloudSnapshot:
    """Servers, their moves, hosts, providers and allocations, at one time.

    ``servers`` are the living ones by UUID, soft-deleted ones among them; ``deleted`` those
    that nova only remembers. ``migrations`` are all that nova remembers, by UUID.
    ``allocations`` is ``{consumer uuid: {provider uuid: {class: amount}}}`` over every
    provider that was read, ``generations`` ``{consumer uuid: its generation}``.
    ``inventories`` hold the providers for which they were read. ``owners``
    hold the consumers that were read; ``unread`` is ``{provider uuid: why}``.
    ``sharing`` is ``{root uuid: providers that share with its tree}``, of which the
    resource classes stand in ``inventories``. ``ports`` is ``{server uuid: its ports that ask
    for resources}``, where neutron was asked. ``capacities`` are inventories of which
    nothing but the capacity is known, as ``total``.
    """

    servers: Mapping[str, values.Server]
    deleted: Mapping[str, values.Server]
    migrations: Mapping[str, values.Migration]
    hosts: values.Hosts
    providers: Mapping[str, provider.Provider]
    allocations: Mapping[str, allocation.Allocations]
    generations: Mapping[str, int | None]
    inventories: Mapping[str, inventory.Inventories] = dataclasses.field(default_factory=dict)
    owners: Mapping[str, Owner] = dataclasses.field(default_factory=dict)
    sharing: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    unread: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ports: Mapping[str, tuple[port.Port, ...]] = dataclasses.field(default_factory=dict)
    capacities: Mapping[str, inventory.Inventories] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def compute_nodes(self) -> dict[str, values.ComputeNode]:
        """``{provider uuid: the compute node that it is}``."""
        return {node.uuid: node for node in self.hosts.nodes}

    @functools.cached_property
    def nodes_of_host(self) -> dict[str, list[values.ComputeNode]]:
        """``{host: its compute nodes}``: one, or many with ironic."""
        return self.hosts.of_host()

    @functools.cached_property
    def moves(self) -> dict[str, list[values.Migration]]:
        """``{server uuid: its migrations}``, in nova's order (newest first)."""
        found: dict[str, list[values.Migration]] = {}
        for item in self.migrations.values():
            found.setdefault(item.server_uuid, []).append(item)
        return found

    @functools.cached_property
    def projects(self) -> frozenset[str]:
        """Those that have or had something to do with nova, as far as it remembers."""
        owners = [item.project_id for item in (*self.servers.values(), *self.deleted.values())]
        owners += [item.project_id for item in self.migrations.values()]
        return frozenset(filter(None, owners))

    @functools.cached_property
    def hostnames(self) -> frozenset[str]:
        """The names of the compute nodes that nova lists, which their providers have too."""
        return frozenset(node.hostname for node in self.hosts.nodes)

    @functools.cached_property
    def remembered(self) -> frozenset[str]:
        """The names of nodes that nova's records speak of, whether they are there or not."""
        servers = (*self.servers.values(), *self.deleted.values())
        nodes = {server.node for server in servers}
        nodes |= {
            end for one in self.migrations.values() for end in (one.source_node, one.dest_node)
        }
        return frozenset(node for node in nodes if node)

    @functools.cached_property
    def used(self) -> dict[str, dict[str, int]]:
        """``{provider uuid: {class: used}}``, from the allocations."""
        found: dict[str, dict[str, int]] = {}
        for allocations in self.allocations.values():
            for provider_uuid, resources in allocations.items():
                here = found.setdefault(provider_uuid, {})
                for resource_class, amount in resources.items():
                    here[resource_class] = here.get(resource_class, 0) + amount
        return found

    @functools.cached_property
    def trees(self) -> dict[str, list[provider.Provider]]:
        """``{root uuid: providers of its tree}``, the root among them."""
        found: dict[str, list[provider.Provider]] = {}
        for item in self.providers.values():
            found.setdefault(item.root_uuid or item.uuid, []).append(item)
        return found

    def root_of(self, provider_uuid: str) -> str:
        """The root of a provider's tree; itself when it is not known."""
        known = self.providers.get(provider_uuid)
        return (known.root_uuid if known else None) or provider_uuid

    def node_of(self, server: values.Server) -> values.ComputeNode | None:
        """The compute node that a server is on, if nova lists one of that host and name."""
        return self.node_at(server.host, server.node)

    def node_at(self, host: str | None, node: str | None) -> values.ComputeNode | None:
        """The compute node of a host and a hypervisor's hostname, if nova lists it."""
        return self._nodes.get((host or "", node or ""))

    @functools.cached_property
    def _nodes(self) -> dict[tuple[str, str], values.ComputeNode]:
        return {(node.host, node.hostname): node for node in self.hosts.nodes}

    def consumer(self, uuid: str) -> allocation.Consumer:
        """A consumer as it was observed; its owner where it was read."""
        owner = self.owners.get(uuid, Owner(None, None))
        return allocation.Consumer(
            uuid,
            self.allocations.get(uuid, {}),
            project_id=owner.project_id,
            user_id=owner.user_id,
            generation=self.generations.get(uuid),
            consumer_type=owner.type,
        )
