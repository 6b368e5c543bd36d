# SPDX-License-Identifier: Apache-2.0
"""What nova, neutron and Placement reported at one time: the input of heal and audit.

Pure; ``observe`` creates it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import responses
from osc_placement.engine import record
from osc_placement.model import allocation, inventory
from osc_placement.neutron import api
from osc_placement.nova import values
from osc_placement.workflows.cloud import server_moves


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """A consumer's owner and type; ``type`` is None below 1.38, ``unknown`` if it was never set."""

    project_id: str | None
    user_id: str | None
    type: str | None = None


class ProjectUser(NamedTuple):
    """A project and one of its users: Placement adds up usages for these."""

    project_id: str
    user_id: str


class UsageSum(NamedTuple):
    """What all consumers of an owner use, and how many there are; None below 1.38."""

    resources: allocation.Resources
    consumers: int | None


@dataclasses.dataclass(frozen=True)
class CloudSnapshot(server_moves.MovesReading):
    """Servers, migrations, hosts, providers and allocations at one time.

    ``deleted_servers``: servers that nova has deleted and not archived yet. ``allocations`` are
    those of all providers that were read. ``generations``: ``{consumer uuid: its generation}``.
    ``owners``: the consumers that were read one by one. ``read_errors``:
    ``{provider uuid: why it could not be read}``. ``ports``: ``{server uuid: its ports with
    resource requests}``. ``capacities``: inventories of which only the capacity is known.
    ``usages``: what Placement adds up for each owner. ``candidates``: ``{key of a query: the
    response, or the error}``. ``unconfirmed``: ``{consumer uuid: why nova cannot say whether
    it is a server}``.
    """

    deleted_servers: Mapping[str, values.Server] = dataclasses.field(default_factory=dict)
    generations: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    inventories: Mapping[str, inventory.Inventories] = dataclasses.field(default_factory=dict)
    owners: Mapping[str, Owner] = dataclasses.field(default_factory=dict)
    read_errors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ports: Mapping[str, tuple[api.Port, ...]] = dataclasses.field(default_factory=dict)
    capacities: Mapping[str, inventory.Inventories] = dataclasses.field(default_factory=dict)
    usages: Mapping[ProjectUser, UsageSum] = dataclasses.field(default_factory=dict)
    candidates: Mapping[str, responses.Candidates | errors.PlacementError] = dataclasses.field(
        default_factory=dict
    )
    unconfirmed: Mapping[str, str] = dataclasses.field(default_factory=dict)

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
    def used(self) -> dict[str, dict[str, int]]:
        """``{provider uuid: {class: used}}``, the sums of the allocations."""
        by_provider: dict[str, dict[str, int]] = {}
        for allocations in self.allocations.values():
            for provider_uuid, resources in allocations.items():
                used = by_provider.setdefault(provider_uuid, {})
                for resource_class, amount in resources.items():
                    used[resource_class] = used.get(resource_class, 0) + amount
        return by_provider

    @functools.cached_property
    def provider_names(self) -> dict[str, str]:
        """``{provider uuid: its name}``."""
        return {uuid: item.name for uuid, item in self.providers.items()}

    def name_of(self, provider_uuid: str) -> str:
        """A provider's name; its UUID if it is not known."""
        return self.provider_names.get(provider_uuid, provider_uuid)

    def classes_in_tree(self, root_uuid: str) -> frozenset[str]:
        """The resource classes of which some provider of a tree has inventory."""
        tree = self.trees.get(root_uuid, ())
        return frozenset(name for item in tree for name in self.inventories.get(item.uuid, {}))

    def knows(self, consumer_uuid: str) -> bool:
        """Whether nova has a server or a migration with this UUID, deleted ones included."""
        records = (self.servers, self.deleted_servers, self.migrations)
        return any(consumer_uuid in by_uuid for by_uuid in records)

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


def with_allocations(
    snapshot: CloudSnapshot, answers: Mapping[str, responses.ProviderAllocations]
) -> CloudSnapshot:
    """The snapshot with what is allocated on some providers."""
    allocations: dict[str, dict[str, allocation.Resources]] = {}
    generations: dict[str, int | None] = {}
    for provider_uuid, answer in answers.items():
        for consumer_uuid, share in answer.allocations.items():
            allocations.setdefault(consumer_uuid, {})[provider_uuid] = share.resources
            _keep_oldest(generations, consumer_uuid, share.consumer_generation)
    return dataclasses.replace(snapshot, allocations=allocations, generations=generations)


def with_records(
    snapshot: CloudSnapshot,
    records: Mapping[str, record.ConsumerRecord],
    providers: frozenset[str],
) -> CloudSnapshot:
    """The snapshot with what is allocated on some providers, by the records of a file."""
    allocations = {}
    for uuid, consumer in records.items():
        parts = consumer.allocations
        if not parts.keys() <= providers:
            parts = {one: part for one, part in parts.items() if one in providers}
        if parts:
            allocations[uuid] = parts
    generations = {uuid: records[uuid].generation for uuid in allocations}
    return dataclasses.replace(snapshot, allocations=allocations, generations=generations)


def with_consumers(
    snapshot: CloudSnapshot, consumers: Mapping[str, allocation.Consumer]
) -> CloudSnapshot:
    """The snapshot with consumers as read one by one, whole and with their owners."""
    if not consumers:
        return snapshot
    existing = {uuid: one for uuid, one in consumers.items() if one.allocations}
    kept = {
        uuid: allocations
        for uuid, allocations in snapshot.allocations.items()
        if uuid not in consumers
    }
    owners = {
        uuid: Owner(one.project_id, one.user_id, one.consumer_type)
        for uuid, one in existing.items()
    }
    generations = {uuid: one.generation for uuid, one in consumers.items()}
    return dataclasses.replace(
        snapshot,
        allocations={**kept, **{uuid: one.allocations for uuid, one in existing.items()}},
        generations={**snapshot.generations, **generations},
        owners={**snapshot.owners, **owners},
    )


def _keep_oldest(
    generations: dict[str, int | None], consumer_uuid: str, generation: int | None
) -> None:
    """A consumer that was written between two reads must not be written at the later generation."""
    before = generations.get(consumer_uuid, generation)
    reported = [number for number in (before, generation) if number is not None]
    generations[consumer_uuid] = min(reported, default=None)
