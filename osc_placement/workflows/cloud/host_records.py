# SPDX-License-Identifier: Apache-2.0
"""The records that decide whether a few hosts may stop: all of a file, or those of a service."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate
from osc_placement.workflows.cloud import wide
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.reading import PlacementReader

#: The consumer of everything that is used by consumers that were not read.
_OTHERS = "others"


class HostRecords:
    """``base`` has every record: no method reads more."""

    def __init__(self, base: state.CloudState) -> None:
        self.base = base

    def hosts(self) -> Collection[str]:
        """The root UUIDs of what may be a host."""
        return hosts_of(self.base)

    def members(self, aggregates: Sequence[str]) -> Mapping[str, Collection[str]]:
        """``{aggregate: its providers}``. Requests, of a service: one for each aggregate."""
        return {uuid: self.base.with_aggregate[uuid] for uuid in aggregates}

    def read_hosts(self, roots: Sequence[str]) -> None:
        """Read the consumers on hosts. Requests, of a service: one for each provider, consumer."""

    def read_consumers(self, uuids: Iterable[str]) -> None:
        """Read consumers. Requests, of a service: one for each that was not read."""

    def read_others(self, queries: Iterable[candidate.CandidateQuery]) -> None:
        """Read what other hosts have for these queries.

        Requests, of a service: those of ``wide.Wide``, and one for each provider of other hosts
        with allocations of one of the consumers.
        """


class RecordsOfService(HostRecords):
    """``base`` has all providers, and what was read about consumers and hosts.

    Requests: two listings.
    """

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self._client = client
        self._reader = PlacementReader(client, context)
        self._wide = wide.WideReader(client, context)
        self._roots: Sequence[str] = ()
        super().__init__(self._wide.providers())

    def hosts(self) -> Collection[str]:
        return set(self.base.tree) - self.base.with_trait[standard.SHARING_TRAIT]

    def members(self, aggregates: Sequence[str]) -> Mapping[str, Collection[str]]:
        return self._reader.members(aggregates, "reading aggregates")

    def read_hosts(self, roots: Sequence[str]) -> None:
        self._roots = roots
        uuids = [uuid for root in roots for uuid in self.base.tree[root]]
        show = self._client.list_provider_allocations
        answers = self._reader.answers(show, uuids, "reading allocations")
        self.read_consumers(uuid for answer in answers.values() for uuid in answer.allocations)

    def read_consumers(self, uuids: Iterable[str]) -> None:
        new = [uuid for uuid in uuids if uuid not in self.base.consumers]
        self._wide.add_consumers(self.base, new)

    def read_others(self, queries: Iterable[candidate.CandidateQuery]) -> None:
        consumers = dict(self.base.consumers)
        observed = wide.Wide(self._wide, list(queries))
        # Where a server that moves gives back an amount, more may fit than fits now.
        left = {
            self.base.providers[uuid].root_uuid
            for consumer in consumers.values()
            for uuid in consumer.allocations
        }
        observed.refine(left.difference(self._roots))
        self.base = _with_consumers(observed.base, consumers, self._roots)


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
    changed = base.copy()
    removed: dict[str, record.ConsumerRecord | None] = dict.fromkeys(base.consumers)
    others = record.ConsumerRecord(_OTHERS, 0, "", "", used)
    changed.apply(record.Changes(consumers={**removed, _OTHERS: others, **consumers}))
    return changed
