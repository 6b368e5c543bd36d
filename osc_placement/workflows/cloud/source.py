# SPDX-License-Identifier: Apache-2.0
"""Where the facts of a ``Cloud`` come from: requests to a service, or the records of a file.

``of`` makes the source; no other module asks which it is. A file has every record and answers
without a request.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_placement import errors, microversion
from osc_placement.client import api, responses
from osc_placement.client.local import StateRepository
from osc_placement.engine import record, state
from osc_placement.model import allocation
from osc_placement.model.candidate import CandidateQuery
from osc_placement.nova import values
from osc_placement.nova.api import Nova, collected, host_aggregates
from osc_placement.plan import plan
from osc_placement.workflows.cloud import compute_nodes, facts
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.facts import FactTable
from osc_placement.workflows.cloud.host_records import HostRecords, RecordsOfService
from osc_placement.workflows.cloud.observe import CloudReader, inverted
from osc_placement.workflows.cloud.reading import PlacementReader
from osc_placement.workflows.cloud.wide import ObservedCloud, Wide, WideReader


def read(
    client: api.Client,
    nova: Nova,
    context: ReadContext | None = None,
    input_errors: errors.InputErrors | None = None,
    *,
    with_aggregates: bool = False,
) -> Cloud:
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
    cloud = compute_nodes.read_hosts(client, nova, problems)
    if input_errors is None:
        problems.check()
    cloud.aggregates = aggregates
    of(client, context or ReadContext()).connect(cloud)
    return cloud


def of(client: api.Client, context: ReadContext) -> CloudSource:
    """The source of a client's Placement. Requests: none."""
    placement = client.transport.local()
    repository = placement.repository if placement else None
    if repository is None:
        return CloudSource(client, context)
    return FileSource(client, context, repository)


class CloudSource:
    """Placement as a service. Each method sends requests; those of ``FileSource`` send none."""

    #: Whether a fact costs a request, and somebody else answers it.
    costs_requests = True

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self.client, self.context = client, context
        self.reader = PlacementReader(client, context)

    # Facts of a Cloud

    def connect(self, cloud: Cloud) -> None:
        """Make the facts of a cloud ones that are read when they are asked for."""
        for fact in _FACTS:
            table = FactTable(functools.partial(self._facts, fact, cloud.read_errors))
            setattr(cloud, fact, table)
        cloud.with_trait = FactTable(lambda traits: (self.with_traits(traits), {}))
        read_members = functools.partial(self.reader.members, title="reading aggregates")
        cloud.members = FactTable(lambda uuids: (read_members(uuids), {}))

    def _facts(
        self, fact: str, problems: dict[str, str], uuids: list[str]
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """A fact of providers; ``problems`` also gets why one cannot be read."""
        title, request, _ = _FACTS[fact]
        ask = functools.partial(request, self.client)
        answers, failed = self.reader.readable(ask, uuids, title)
        problems.update(failed)
        return answers, failed

    def with_traits(self, traits: Sequence[str]) -> dict[str, frozenset[str]]:
        """``{trait: the providers that have it}``. Requests: one for each trait."""
        return self.reader.with_traits(traits)

    def prefetch_traits(self, cloud: Cloud, uuids: Collection[str]) -> None:
        """Read the traits of many providers.

        Requests: one for the traits that are in use, and one listing for each, or if there are
        fewer providers one for each of them.
        """
        in_use = self.client.list_traits(associated=True)
        if len(in_use) < len(uuids):
            having = inverted(self.reader.with_traits(in_use))
            read = {uuid: frozenset(having.get(uuid, ())) for uuid in uuids}
            facts.estimate(cloud.traits, read)
        else:
            facts.prefetch(cloud.traits, uuids)

    def take_allocations(self, cloud: Cloud, uuids: Collection[str]) -> None:
        """Take the allocations of all consumers from those on some providers.

        Requests: one for each provider. One that cannot be read is in ``read_errors``.
        """
        facts.prefetch(cloud.held, uuids)
        cloud.set_held(uuids)

    def take_consumers(self, cloud: Cloud, uuids: Iterable[str]) -> None:
        """Take consumers whole and with their owners. Requests: one for each new one."""
        cloud.set_consumers(self._consumers([uuid for uuid in uuids if uuid not in cloud.owners]))

    def _consumers(self, uuids: Collection[str]) -> Mapping[str, allocation.Consumer]:
        return self.reader.consumers(uuids)

    # States, each during a block

    @contextlib.contextmanager
    def everything(
        self,
        named: Collection[str] | None = None,
        planned: plan.Plan | None = None,
        *,
        with_owners: bool = False,
    ) -> Iterator[state.CloudState]:
        """All providers with all their consumers.

        Of a service, consumers have no owner and no type, except those that ``planned`` changes:
        with it, the plan can be applied to the state. ``with_owners``: all have.
        Requests: those of ``CloudReader.everything``; with a plan those of ``add_planned``; with
        owners one for each consumer.
        """
        reader = CloudReader(self.client, self.context)
        base = reader.everything(named)
        if planned is not None:
            reader.add_planned(base, planned)
        if with_owners:
            reader.add_consumers(base, list(base.consumers))
        yield base

    @contextlib.contextmanager
    def concerned(self, planned: plan.Plan) -> Iterator[state.CloudState]:
        """What decides whether the changes of a plan are accepted.

        Requests: those of ``CloudReader.concerned``.
        """
        yield CloudReader(self.client, self.context).concerned(planned)

    @contextlib.contextmanager
    def observed(
        self,
        queries: Collection[CandidateQuery],
        more: Collection[str] = (),
        *,
        with_aggregates: bool = False,
    ) -> Iterator[ObservedCloud]:
        """A state that answers the queries as the cloud does.

        ``more`` are aggregates whose members matter too; ``with_aggregates``: all aggregates.
        Requests: those of ``Wide``.
        """
        reader = WideReader(self.client, self.context)
        yield Wide(reader, queries, more, with_aggregates=with_aggregates)

    @contextlib.contextmanager
    def hosts(self) -> Iterator[HostRecords]:
        """Records about a few hosts. Requests: those of ``RecordsOfService``."""
        yield RecordsOfService(self.client, self.context)


class FileSource(CloudSource):
    """The file of a reference server, which has every record."""

    costs_requests = False

    def __init__(
        self, client: api.Client, context: ReadContext, repository: StateRepository
    ) -> None:
        # A file has no answer to wait for.
        super().__init__(client, dataclasses.replace(context, workers=1))
        self._state = repository.snapshot

    def _facts(
        self, fact: str, problems: dict[str, str], uuids: list[str]
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        *_, of_record = _FACTS[fact]
        with self._state() as base:
            listed = (uuid for uuid in uuids if uuid in base.providers)
            return {uuid: of_record(base, uuid) for uuid in listed}, {}

    def with_traits(self, traits: Sequence[str]) -> dict[str, frozenset[str]]:
        with self._state() as base:
            return {trait: frozenset(base.with_trait[trait]) for trait in traits}

    def prefetch_traits(self, cloud: Cloud, uuids: Collection[str]) -> None:
        facts.prefetch(cloud.traits, uuids)

    def take_allocations(self, cloud: Cloud, uuids: Collection[str]) -> None:
        with self._state() as base:
            cloud.set_allocations(*_on(base.consumers, frozenset(uuids)))

    def _consumers(self, uuids: Collection[str]) -> Mapping[str, allocation.Consumer]:
        typed = microversion.supports(self.client.microversion, "consumer types")
        with self._state() as base:
            return {uuid: _consumer(base, uuid, typed=typed) for uuid in uuids}

    @contextlib.contextmanager
    def everything(self, *_: Any, **__: Any) -> Iterator[state.CloudState]:
        with self._state() as base:
            yield base

    concerned = everything

    @contextlib.contextmanager
    def observed(self, *_: Any, **__: Any) -> Iterator[ObservedCloud]:
        with self._state() as base:
            yield ObservedCloud(base)

    @contextlib.contextmanager
    def hosts(self) -> Iterator[HostRecords]:
        with self._state() as base:
            yield HostRecords(base)


def _held(base: state.CloudState, uuid: str) -> responses.ProviderAllocations:
    consumers = {consumer: base.consumers[consumer] for consumer in base.consumers_of[uuid]}
    return responses.ProviderAllocations(
        base.providers[uuid].generation,
        {
            consumer: responses.ProviderAllocation(item.allocations[uuid], item.generation)
            for consumer, item in consumers.items()
        },
    )


#: ``{fact of a provider: (title, request for it, from its record)}``.
_FACTS: Mapping[
    str,
    tuple[str, Callable[[api.Client, str], Any], Callable[[state.CloudState, str], Any]],
] = {
    "inventories": (
        "reading inventories",
        lambda client, uuid: client.list_inventories(uuid).inventories,
        lambda base, uuid: base.providers[uuid].inventories,
    ),
    "traits": (
        "reading traits",
        lambda client, uuid: frozenset(client.list_provider_traits(uuid).traits),
        lambda base, uuid: base.providers[uuid].traits,
    ),
    "memberships": (
        "reading aggregates",
        lambda client, uuid: client.list_aggregates(uuid).aggregates,
        lambda base, uuid: base.providers[uuid].aggregates,
    ),
    "usages": (
        "reading usages",
        lambda client, uuid: client.list_usages(uuid),
        lambda base, uuid: base.used(uuid),
    ),
    "held": (
        "reading allocations",
        lambda client, uuid: client.list_provider_allocations(uuid),
        _held,
    ),
}


def _consumer(base: state.CloudState, uuid: str, *, typed: bool) -> allocation.Consumer:
    item = base.consumers.get(uuid)
    if item is None:
        return allocation.Consumer(uuid, {})
    kind = (item.consumer_type or allocation.UNKNOWN_TYPE) if typed else None
    return allocation.Consumer(
        uuid, item.allocations, item.project_id, item.user_id, item.generation, kind
    )


def _on(
    records: Mapping[str, record.ConsumerRecord], providers: frozenset[str]
) -> tuple[dict[str, allocation.Allocations], dict[str, int | None]]:
    """Allocations and generations of the consumers on some providers, by the records of a file."""
    allocations = dict[str, allocation.Allocations]()
    for uuid, consumer in records.items():
        parts = consumer.allocations
        if not parts.keys() <= providers:
            parts = {place: part for place, part in parts.items() if place in providers}
        if parts:
            allocations[uuid] = parts
    return allocations, {uuid: records[uuid].generation for uuid in allocations}
