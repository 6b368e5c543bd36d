# SPDX-License-Identifier: Apache-2.0
"""Reading the records of a service: all of them, or those that a plan concerns.

``wide.Wide`` reads only those that decide what some queries find.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement.client import api, lookup
from osc_placement.engine import record, standard, state
from osc_placement.model import allocation, candidate, inventory, provider
from osc_placement.plan import plan
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.reading import PlacementReader

#: The consumer of everything that is used.
_USAGE = "usage"


def resource_classes(queries: Iterable[candidate.CandidateQuery]) -> set[str]:
    """The requested resource classes."""
    return {name for query in queries for group in query.groups for name in group.resources}


def traits(queries: Iterable[candidate.CandidateQuery]) -> set[str]:
    """The required and forbidden traits."""
    names = set[str]()
    for query in queries:
        names |= query.root_required | query.root_forbidden
        for group in query.groups:
            names.update(group.forbidden, *group.required)
    return names


def aggregates(queries: Iterable[candidate.CandidateQuery]) -> set[str]:
    """The required and forbidden aggregates."""
    names = set[str]()
    for query in queries:
        for group in query.groups:
            names.update(group.forbidden_aggregates, *group.member_of)
    return names


class CloudReader:
    """Reads the records of a Placement service over its API."""

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self._client, self._context = client, context
        self._reader = PlacementReader(client, context)

    @functools.cached_property
    def listed(self) -> list[provider.Provider]:
        """All providers. Requests: one, the first time."""
        return self._client.list_providers()

    @functools.cached_property
    def sharing(self) -> frozenset[str]:
        """The UUIDs of the providers that share resources. Requests: one, the first time."""
        return lookup.providers_with_trait(self._client, standard.SHARING_TRAIT)

    def providers(self) -> state.CloudState:
        """All providers without inventories and aggregates; the only trait is that of sharing.

        Requests: two, the first time.
        """
        return self.state({}, {}, {standard.SHARING_TRAIT: self.sharing}, {})

    def inventories(self, uuids: Iterable[str]) -> dict[str, inventory.Inventories]:
        """``{provider: its inventories}``. Requests: one for each."""
        answers = self._reader.existing(self._client.list_inventories, uuids, "reading inventories")
        return {uuid: answer.inventories for uuid, answer in answers.items()}

    def usages(self, uuids: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """``{provider: its usages}``. Requests: one for each."""
        return {**self._reader.existing(self._client.list_usages, uuids, "reading usages")}

    def traits(self, uuids: Iterable[str]) -> dict[str, Collection[str]]:
        """``{provider: its traits}``. Requests: one for each."""
        answers = self._reader.existing(self._client.list_provider_traits, uuids, "reading traits")
        return {uuid: answer.traits for uuid, answer in answers.items()}

    def with_traits(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """``{trait: the providers that have it}``. Requests: one for each trait."""
        return self._reader.with_traits(names)

    def members(
        self,
        offering: Collection[str],
        queries: Collection[candidate.CandidateQuery],
        more: Collection[str],
        *,
        with_aggregates: bool,
    ) -> Mapping[str, Collection[str]]:
        """``{aggregate: providers}``; ``offering`` are those with a requested class.

        It has the members of the aggregates of the queries and of ``more``; ``with_aggregates``:
        all aggregates of every provider.

        Requests: for each sharing provider with an inventory of a requested class (each at all, if
        a group requests no resources) one for its aggregates; one listing for each of these, and
        of the queries and of ``more``. ``with_aggregates`` instead one for the aggregates of each
        provider.
        """
        uuids = [item.uuid for item in self.listed]
        if with_aggregates:
            return inverted(self._reader.aggregates(uuids, "reading aggregates"))
        any_class = any(not group.resources for query in queries for group in query.groups)
        shared = [uuid for uuid in (uuids if any_class else offering) if uuid in self.sharing]
        of_sharing = self._reader.aggregates(shared).values()
        return self._reader.members(sorted(aggregates(queries).union(more, *of_sharing)))

    def everything(self, named: Collection[str] | None = None) -> state.CloudState:
        """The state of all providers, with their consumers, which have no owner and no type.

        It has the members of the aggregates ``named`` and of those of sharing providers; None: of
        all.

        Requests: those of ``providers``; for each provider one for its inventories and one for its
        allocations; one for the traits that are in use, and one listing for each, or if there are
        fewer providers one for the traits of each. For the aggregates those of ``members``, or for
        None one for each provider.
        """
        uuids = [item.uuid for item in self.listed]
        inventories = self.inventories(uuids)
        in_use = self._client.list_traits(associated=True)
        few = len(in_use) < len(uuids)
        traits_of = self.with_traits(in_use) if few else inverted(self.traits(uuids))
        members = self.members(uuids, (), named or (), with_aggregates=named is None)
        base = self.state(inventories, {}, traits_of, members)
        self._add_shares(base, uuids)
        return base

    def _add_shares(self, base: state.CloudState, uuids: Iterable[str]) -> None:
        """Add the consumers on some providers, with what they have there, without owner and type.

        Requests: one for each provider.
        """
        show = self._client.list_provider_allocations
        answers = self._reader.existing(show, uuids, "reading allocations")
        consumers: dict[str, record.ConsumerRecord] = {}
        for place, answer in answers.items():
            for uuid, item in answer.allocations.items():
                before = consumers.get(uuid)
                allocations = {**(before.allocations if before else {}), place: item.resources}
                generation = item.consumer_generation or 0
                consumers[uuid] = record.ConsumerRecord(uuid, generation, "", "", allocations)
        base.apply(record.Changes({}, consumers))

    def concerned(self, planned: plan.Plan) -> state.CloudState:
        """What decides whether the changes of a plan are accepted: all names, and their subjects.

        Requests: one listing and those of ``add_planned``; four for each provider that a change
        names, or on which a consumer that it names has allocations now.
        """
        read = self._reader.consumers(planned.consumers())
        named = planned.providers().union(*(item.allocations for item in read.values()))
        uuids = [item.uuid for item in self.listed if item.uuid in named]
        members = inverted(self._reader.aggregates(uuids, "reading aggregates"))
        base = self.state(self.inventories(uuids), {}, inverted(self.traits(uuids)), members)
        self._add_shares(base, uuids)
        self._add_names(base)
        _add_consumers(base, read)
        return base

    def add_planned(self, base: state.CloudState, planned: plan.Plan) -> None:
        """Add to a state what a plan can depend on: custom names, and the consumers it changes.

        Requests: two listings, and one for each consumer.
        """
        self.add_consumers(base, planned.consumers())
        self._add_names(base)

    def _add_names(self, base: state.CloudState) -> None:
        """Add the custom traits and resource classes. Requests: two listings."""
        traits = dict.fromkeys(self._client.list_traits("startswith:CUSTOM_"), 0.0)
        names = self._client.list_resource_classes()
        classes = dict.fromkeys(set(names).difference(standard.RESOURCE_CLASSES), 0.0)
        base.apply(record.Changes(traits=traits, resource_classes=classes))

    def add_consumers(self, base: state.CloudState, uuids: Iterable[str]) -> None:
        """Add consumers to a state, whole and with their owners. Requests: one for each."""
        _add_consumers(base, self._reader.consumers(uuids))

    def state(
        self,
        inventories: Mapping[str, inventory.Inventories],
        used: Mapping[str, Mapping[str, int]],
        traits_of: Mapping[str, Collection[str]],
        members: Mapping[str, Collection[str]],
    ) -> state.CloudState:
        """All providers; ``traits_of`` and ``members`` are ``{name: UUIDs of providers}``."""
        provider_traits, provider_aggregates = inverted(traits_of), inverted(members)
        records: dict[str, record.ProviderRecord | None] = {
            provider.uuid: record.ProviderRecord(
                provider.uuid,
                provider.name,
                root_uuid=provider.root_uuid or provider.uuid,
                parent_uuid=provider.parent_uuid,
                generation=provider.generation,
                inventories=inventories.get(provider.uuid, {}),
                traits=frozenset(provider_traits.get(provider.uuid, ())),
                aggregates=tuple(provider_aggregates.get(provider.uuid, ())),
            )
            for provider in self.listed
        }
        usage = {_USAGE: record.ConsumerRecord(_USAGE, 0, "", "", used)} if used else {}
        base = state.CloudState()
        base.apply(record.Changes(records, usage))
        return base


def _add_consumers(base: state.CloudState, read: Mapping[str, allocation.Consumer]) -> None:
    """Replace consumers in a state by those that were read; without allocations there is none."""
    existing = {uuid: consumer for uuid, consumer in read.items() if consumer.allocations}
    gone = dict.fromkeys(uuid for uuid in read if uuid in base.consumers)
    records = {uuid: _record_of(base, consumer) for uuid, consumer in existing.items()}
    base.apply(record.Changes(consumers={**gone, **records}))


def _record_of(base: state.CloudState, consumer: allocation.Consumer) -> record.ConsumerRecord:
    """The record of a consumer, without providers that were created after the listing."""
    is_typed = consumer.consumer_type not in (None, allocation.UNKNOWN_TYPE)
    return record.ConsumerRecord(
        consumer.uuid,
        consumer.generation or 0,
        consumer.project_id or "",
        consumer.user_id or "",
        {uuid: amounts for uuid, amounts in consumer.allocations.items() if uuid in base.providers},
        consumer.consumer_type if is_typed else None,
    )


def inverted(members: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """``{member: keys}`` of ``{key: members}``."""
    inverted: dict[str, list[str]] = {}
    for key, uuids in members.items():
        for uuid in uuids:
            inverted.setdefault(uuid, []).append(key)
    return inverted
