# SPDX-License-Identifier: Apache-2.0
"""Where the facts of a ``Cloud`` come from: requests to a service, or the records of a file.

Who has the cloud does not ask which it is. A record answers without a request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from osc_placement import errors, microversion
from osc_placement.client import api, responses
from osc_placement.engine import record, state
from osc_placement.model import allocation, provider
from osc_placement.nova import values
from osc_placement.nova.api import Nova, collected, host_aggregates
from osc_placement.workflows.cloud import compute_nodes, facts
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.facts import FactTable
from osc_placement.workflows.cloud.observe import inverted, is_file, whole_state
from osc_placement.workflows.cloud.reading import PlacementReader

V = TypeVar("V")
C = TypeVar("C", bound=Cloud)


def read(
    client: api.Client,
    nova: Nova,
    context: ReadContext | None = None,
    input_errors: errors.InputErrors | None = None,
    *,
    kind: Callable[[values.Hosts, Mapping[str, provider.Provider]], C],
    with_aggregates: bool = False,
) -> C:
    """Nova's hosts and all providers; every other fact of Placement is read when it is asked for.

    Requests: to nova, the services, the hypervisors in pages and, ``with_aggregates``, the host
    aggregates; to Placement, one listing. Errors: InvalidInput with every missing permission;
    ``input_errors`` gets them instead, if it is given.
    """
    problems = errors.InputErrors() if input_errors is None else input_errors
    aggregates: Sequence[values.HostAggregate] = ()
    if with_aggregates:
        with collected(problems):
            aggregates = host_aggregates(nova)
    cloud = compute_nodes.read_hosts(client, nova, problems, kind)
    if input_errors is None:
        problems.check()
    cloud.aggregates = aggregates
    CloudSource(client, context or ReadContext()).connect(cloud)
    return cloud


class CloudSource:
    """Placement as a service, or the file of a reference server."""

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self.client = client
        self.reader = PlacementReader(client, context)

    @property
    def is_file(self) -> bool:
        """Whether no fact costs a request."""
        return is_file(self.client)

    def connect(self, cloud: Cloud) -> None:
        """Make the facts of a cloud ones that are read when they are asked for."""
        client, reader = self.client, self.reader
        of_providers = functools.partial(self._of_providers, cloud.read_errors)
        cloud.inventories = of_providers(
            lambda uuid: client.list_inventories(uuid).inventories,
            lambda base, uuid: base.providers[uuid].inventories,
            "reading inventories",
        )
        cloud.traits = of_providers(
            lambda uuid: frozenset(client.list_provider_traits(uuid).traits),
            lambda base, uuid: base.providers[uuid].traits,
            "reading traits",
        )
        cloud.memberships = of_providers(
            lambda uuid: client.list_aggregates(uuid).aggregates,
            lambda base, uuid: base.providers[uuid].aggregates,
            "reading aggregates",
        )
        cloud.usages = of_providers(
            client.list_usages, lambda base, uuid: base.used(uuid), "reading usages"
        )
        cloud.held = of_providers(
            client.list_provider_allocations, _held_of_record, "reading allocations"
        )
        cloud.with_trait = FactTable(lambda traits: (self.with_traits(traits), {}))
        cloud.members = FactTable(lambda uuids: (reader.members(uuids, "reading aggregates"), {}))

    def with_traits(self, traits: Collection[str]) -> dict[str, frozenset[str]]:
        """``{trait: the providers that have it}``. Requests: one for each trait."""
        with whole_state(self.client) as base:
            if base is not None:
                return {trait: frozenset(base.with_trait[trait]) for trait in traits}
        return self.reader.with_traits([*traits])

    def _of_providers(
        self,
        problems: dict[str, str],
        request: Callable[[str], V],
        of_record: Callable[[state.CloudState, str], V],
        title: str,
    ) -> FactTable[str, V]:
        """Facts by provider; ``problems`` also gets why one cannot be read."""

        def read(uuids: list[str]) -> tuple[Mapping[str, V], Mapping[str, str]]:
            with whole_state(self.client) as base:
                if base is not None:
                    listed = (uuid for uuid in uuids if uuid in base.providers)
                    return {uuid: of_record(base, uuid) for uuid in listed}, {}
            answers, failed = self.reader.readable(request, uuids, title)
            problems.update(failed)
            return answers, failed

        return FactTable(read)

    def prefetch_traits(self, cloud: Cloud, uuids: Collection[str]) -> None:
        """Read the traits of many providers.

        Requests: one for the traits that are in use, and one listing for each, or if there are
        fewer providers one for each of them.
        """
        if not self.is_file:
            in_use = self.client.list_traits(associated=True)
            if len(in_use) < len(uuids):
                having = inverted(self.reader.with_traits(in_use))
                read = {uuid: frozenset(having.get(uuid, ())) for uuid in uuids}
                facts.estimate(cloud.traits, read)
                return
        facts.prefetch(cloud.traits, uuids)

    def take_allocations(self, cloud: Cloud, uuids: Collection[str]) -> None:
        """Take the allocations of all consumers from those on some providers.

        Requests: one for each provider. One that cannot be read is in ``read_errors``.
        """
        with whole_state(self.client) as base:
            if base is not None:
                cloud.set_allocations(*_on(base.consumers, frozenset(uuids)))
                return
        facts.prefetch(cloud.held, uuids)
        cloud.set_held(uuids)

    def take_consumers(self, cloud: Cloud, uuids: Iterable[str]) -> None:
        """Take consumers whole and with their owners. Requests: one for each new one."""
        new = [uuid for uuid in uuids if uuid not in cloud.owners]
        with whole_state(self.client) as base:
            if base is not None:
                cloud.set_consumers({uuid: self._of_record(base, uuid) for uuid in new})
                return
        cloud.set_consumers(self.reader.consumers(new))

    def _of_record(self, base: state.CloudState, uuid: str) -> allocation.Consumer:
        item = base.consumers.get(uuid)
        if item is None:
            return allocation.Consumer(uuid, {})
        typed = microversion.supports(self.client.microversion, "consumer types")
        kind = (item.consumer_type or allocation.UNKNOWN_TYPE) if typed else None
        return allocation.Consumer(
            uuid, item.allocations, item.project_id, item.user_id, item.generation, kind
        )


def _held_of_record(base: state.CloudState, uuid: str) -> responses.ProviderAllocations:
    consumers = {one: base.consumers[one] for one in base.consumers_of[uuid]}
    return responses.ProviderAllocations(
        base.providers[uuid].generation,
        {
            one: responses.ProviderAllocation(item.allocations[uuid], item.generation)
            for one, item in consumers.items()
        },
    )


def _on(
    records: Mapping[str, record.ConsumerRecord], providers: frozenset[str]
) -> tuple[dict[str, allocation.Allocations], dict[str, int | None]]:
    """Allocations and generations of the consumers on some providers, by the records of a file."""
    allocations = dict[str, allocation.Allocations]()
    for uuid, consumer in records.items():
        parts = consumer.allocations
        if not parts.keys() <= providers:
            parts = {one: part for one, part in parts.items() if one in providers}
        if parts:
            allocations[uuid] = parts
    return allocations, {uuid: records[uuid].generation for uuid in allocations}
