# SPDX-License-Identifier: Apache-2.0
"""An allocation candidates query, prepared for the search.

A query's groups become *slots*; one provider fills each slot. A suffixed group is one slot with all
its resources. The unsuffixed group is one slot per resource class, because different providers of a
tree can supply its classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from osc_placement.engine import inventories, record, state
from osc_placement.model import candidate


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The conditions of a request group for its providers, apart from amounts.

    Each provider must meet ``required``; all providers of the group must meet ``group_required`` in
    sum. ``root_aggregates_apply``: the aggregates of a root count for its whole tree. ``root_uuid``
    is the root of the in_tree provider. No provider can serve an ``impossible`` group.
    """

    suffix: str
    required: tuple[frozenset[str], ...]
    group_required: tuple[frozenset[str], ...]
    forbidden: frozenset[str]
    member_of: tuple[frozenset[str], ...]
    forbidden_aggregates: frozenset[str]
    root_aggregates_apply: bool
    root_uuid: str | None
    impossible: bool

    def admits(self, base: state.CloudState, provider: record.ProviderRecord) -> bool:
        """Whether a provider meets the conditions."""
        traits = provider.traits
        for any_of in self.required:
            if traits.isdisjoint(any_of):
                return False
        if self.forbidden and not traits.isdisjoint(self.forbidden):
            return False
        if self.root_uuid is not None and provider.root_uuid != self.root_uuid:
            return False
        if self.impossible:
            return False
        if self.member_of and not self.admits_member(base, provider):
            return False
        return not self.forbidden_aggregates or self.forbidden_aggregates.isdisjoint(
            self.aggregates_of(base, provider)
        )

    def admits_member(self, base: state.CloudState, provider: record.ProviderRecord) -> bool:
        """Whether a provider, or its root if that counts, meets member_of."""
        if self._meets_member_of(provider.aggregates):
            return True
        return self.root_aggregates_apply and self._meets_member_of(
            base.providers[provider.root_uuid].aggregates
        )

    def _meets_member_of(self, aggregates: tuple[str, ...]) -> bool:
        for any_of in self.member_of:  # noqa: SIM110 - a hot path, without a generator
            if any_of.isdisjoint(aggregates):
                return False
        return True

    def aggregates_of(
        self, base: state.CloudState, provider: record.ProviderRecord
    ) -> frozenset[str]:
        """The aggregates that count for a provider in this group."""
        own = frozenset(provider.aggregates)
        if self.root_aggregates_apply and provider.root_uuid != provider.uuid:
            return own.union(base.providers[provider.root_uuid].aggregates)
        return own


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One provider to choose for a group; it supplies ``resources``, which may be empty."""

    group: Group
    resources: Mapping[str, int]

    def fits(self, base: state.CloudState, provider: record.ProviderRecord) -> bool:
        """Whether a provider can fill this slot if no other slot uses it."""
        return inventories.can_supply(base, provider, self.resources) and self.group.admits(
            base, provider
        )


@dataclasses.dataclass(frozen=True, slots=True)
class QueryPlan:
    """A prepared query.

    ``slots`` start with those of suffixed groups. ``equal_slots`` are the same slots, grouped by
    equal conditions and amounts. ``subtrees`` are sets of suffixes. ``demands`` is ``{resource
    class: (total, the amount of each slot)}``. ``totals`` is what one provider supplies that fills
    every slot. ``repeated`` are the classes of more than one slot.
    """

    groups: tuple[Group, ...]
    slots: tuple[Slot, ...]
    equal_slots: tuple[tuple[Slot, ...], ...]
    subtrees: tuple[frozenset[str], ...]
    isolate: bool
    nested: bool
    root_required: frozenset[str]
    root_forbidden: frozenset[str]
    demands: Mapping[str, tuple[int, tuple[int, ...]]]
    totals: Mapping[str, int]
    repeated: frozenset[str]

    @property
    def needs_several_providers(self) -> bool:
        """Whether one provider alone can never serve the query."""
        return self.isolate and sum(1 for group in self.groups if group.suffix) > 1

    def without_group_required(self) -> QueryPlan:
        """The same plan without the traits that a group requires in sum."""
        changed = {group: dataclasses.replace(group, group_required=()) for group in self.groups}
        slots = tuple(Slot(changed[slot.group], slot.resources) for slot in self.slots)
        return dataclasses.replace(
            self, groups=tuple(changed.values()), slots=slots, equal_slots=_equal_slots(slots)
        )

    def admits_root(self, root: record.ProviderRecord) -> bool:
        """Whether a tree with this root can have candidates."""
        return self.root_required <= root.traits and self.root_forbidden.isdisjoint(root.traits)


def prepare(base: state.CloudState, query: candidate.CandidateQuery) -> QueryPlan:
    """Prepare a query; an in_tree with an unknown provider makes its group impossible."""
    groups = {group.suffix: _group(base, group) for group in query.groups}
    slots = [
        Slot(groups[request_group.suffix], resources)
        for request_group in sorted(
            query.groups, key=lambda request_group: not request_group.suffix
        )
        for resources in _parts(request_group)
    ]
    amounts: dict[str, list[int]] = {}
    for slot in slots:
        for resource_class, amount in slot.resources.items():
            amounts.setdefault(resource_class, []).append(amount)
    return QueryPlan(
        groups=tuple(groups.values()),
        slots=tuple(slots),
        equal_slots=_equal_slots(slots),
        subtrees=tuple(suffixes for suffixes in query.same_subtree if len(suffixes) > 1),
        isolate=query.isolate,
        nested=query.nested,
        root_required=query.root_required,
        root_forbidden=query.root_forbidden,
        demands={name: (sum(parts), tuple(parts)) for name, parts in amounts.items()},
        totals={name: sum(parts) for name, parts in amounts.items()},
        repeated=frozenset(name for name, parts in amounts.items() if len(parts) > 1),
    )


def _equal_slots(slots: Iterable[Slot]) -> tuple[tuple[Slot, ...], ...]:
    equal_slots: dict[object, list[Slot]] = {}
    for slot in slots:
        nameless = dataclasses.replace(slot.group, suffix="", group_required=())
        equal_slots.setdefault((nameless, frozenset(slot.resources.items())), []).append(slot)
    return tuple(tuple(slots_of_key) for slots_of_key in equal_slots.values())


def _group(base: state.CloudState, request_group: candidate.RequestGroup) -> Group:
    # A single provider must meet all conditions of its group.
    single_provider = bool(request_group.suffix) or len(request_group.resources) == 1
    tree = None if request_group.in_tree is None else base.providers.get(request_group.in_tree)
    return Group(
        suffix=request_group.suffix,
        required=request_group.required if single_provider else (),
        group_required=() if single_provider else request_group.required,
        forbidden=request_group.forbidden,
        member_of=request_group.member_of,
        forbidden_aggregates=request_group.forbidden_aggregates,
        root_aggregates_apply=not request_group.suffix,
        root_uuid=tree.root_uuid if tree is not None and request_group.resources else None,
        impossible=(request_group.in_tree is not None and tree is None)
        or not (request_group.resources or request_group.required or request_group.member_of),
    )


def _parts(request_group: candidate.RequestGroup) -> list[dict[str, int]]:
    if request_group.suffix:
        return [dict(request_group.resources)]
    return [{resource_class: amount} for resource_class, amount in request_group.resources.items()]
