# SPDX-License-Identifier: Apache-2.0
"""Reads from a service what decides whether a few hosts may stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine import record, standard, state
from osc_placement.model import allocation
from osc_placement.workflows import reading
from osc_placement.workflows.capacity import nova_servers, servers
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.context import ReadContext

#: The consumer of everything that is used by consumers that were not read.
_OTHERS = "others"


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


def read(
    client: api.Client,
    hosts: Sequence[str],
    aggregates: Sequence[str],
    nova: nova_servers.NovaReader,
    context: ReadContext,
) -> HostsRead:
    """Read the hosts with these names or UUIDs, and those of aggregates.

    Requests: those of ``CloudReader.read`` for all servers together; one for each aggregate, for
    each provider of the hosts, for each consumer on them, for each server that nova has there, and
    for each other member of its server group; to nova and neutron those of ``nova``.
    Errors: UnknownProvider; PlacementError for an aggregate without hosts.
    """
    return _Reader(client, nova, context).read(hosts, aggregates)


class _Reader:
    def __init__(
        self,
        client: api.Client,
        nova: nova_servers.NovaReader,
        context: ReadContext,
    ) -> None:
        self._client, self._nova_reader = client, nova
        self._reader = reading.PlacementReader(client, context)
        self._cloud = observe.CloudReader(client, context)

    def read(self, hosts: Sequence[str], aggregates: Sequence[str]) -> HostsRead:
        """All steps: the consumers of the hosts, nova's servers, then the other hosts."""
        base = self._cloud.providers()
        roots = self._roots(base, hosts, aggregates)
        consumers = self._consumers(base, self._consumers_on(base, roots))
        base.apply(record.Changes(consumers=consumers))
        nova = self._nova(servers.servers_on(base, roots))
        on_hosts = self._nova_reader.on_roots(roots)
        members = {uuid: None for group in nova.groups for uuid in group.members}
        members |= {server.uuid: None for server in on_hosts.servers}
        consumers |= self._consumers(base, [uuid for uuid in members if uuid not in consumers])
        base.apply(record.Changes(consumers=consumers))
        known = servers.servers_on(base, roots, nova.queries, nova.groups)
        queries = {each.kind: each.query for each in known}
        read = self._cloud.read(list(queries.values()))
        return HostsRead(_with_consumers(read, consumers, roots), roots, nova, on_hosts)

    def _roots(
        self, base: state.CloudState, hosts: Sequence[str], aggregates: Sequence[str]
    ) -> list[str]:
        members = self._reader.members(aggregates, "reading aggregates")
        sharing = base.with_trait[standard.SHARING_TRAIT]
        own = {uuid for uuid in base.tree if uuid not in sharing}
        return servers.chosen_roots(base, hosts, members, own, self._nova_reader.compute)

    def _consumers_on(self, base: state.CloudState, roots: Iterable[str]) -> list[str]:
        providers = [uuid for root in roots for uuid in base.tree[root]]
        answers = self._reader.answers(
            self._client.list_provider_allocations, providers, "reading allocations"
        )
        return list(
            dict.fromkeys(uuid for answer in answers.values() for uuid in answer.allocations)
        )

    def _consumers(
        self, base: state.CloudState, uuids: Sequence[str]
    ) -> dict[str, record.ConsumerRecord]:
        return {
            uuid: _recorded(base, consumer)
            for uuid, consumer in self._reader.consumers(uuids).items()
            if consumer.allocations
        }

    def _nova(self, known: Sequence[servers.PlacedServer]) -> nova_servers.KnownServers:
        """What nova says about servers, with the server groups that have one of them."""
        uuids = dict.fromkeys(each.uuid for each in known)
        found = self._nova_reader.servers(list(uuids))
        return dataclasses.replace(
            found,
            groups=[each for each in found.groups if not uuids.keys().isdisjoint(each.members)],
        )


def _recorded(base: state.CloudState, consumer: allocation.Consumer) -> record.ConsumerRecord:
    """The record of a consumer, without providers that were created after the listing."""
    allocations = {
        uuid: resources
        for uuid, resources in consumer.allocations.items()
        if uuid in base.providers
    }
    return record.ConsumerRecord(
        consumer.uuid,
        consumer.generation or 0,
        consumer.project_id or "",
        consumer.user_id or "",
        allocations,
        consumer.consumer_type,
    )


def _with_consumers(
    base: state.CloudState, consumers: Mapping[str, record.ConsumerRecord], roots: Collection[str]
) -> state.CloudState:
    """The state with these consumers, and with one more consumer for all other usage.

    ``roots`` are the hosts of which every consumer is known.
    """
    used = {
        uuid: dict(base.used(uuid))
        for uuid, provider in base.providers.items()
        if provider.root_uuid not in roots and base.used(uuid)
    }
    for consumer in consumers.values():
        for uuid, resources in consumer.allocations.items():
            for name, amount in resources.items():
                if name in used.get(uuid, {}):
                    used[uuid][name] = max(used[uuid][name] - amount, 0)
    found = base.copy()
    removed: dict[str, record.ConsumerRecord | None] = dict.fromkeys(base.consumers)
    others = record.ConsumerRecord(_OTHERS, 0, "", "", used)
    found.apply(record.Changes(consumers={**removed, _OTHERS: others, **consumers}))
    return found
