"""An allocation candidates query, prepared for the search.

A query's groups become *slots*: each slot is filled by one provider. A suffixed group is
one slot with all its resources; the unsuffixed group is one slot per resource class,
since its classes may come from different providers of a tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from osc_placement.engine import record, state
from osc_placement.model import candidate


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """What a provider must be like to serve a request group, whatever it gives.

    ``required`` must be met by each provider, ``together`` only by all providers of the
    group in sum. ``spans`` says that the aggregates of a root count for its whole tree.
    ``root_uuid`` is the tree of in_tree. ``hopeless`` groups are served by nobody.
    """

    suffix: str
    required: tuple[frozenset[str], ...]
    together: tuple[frozenset[str], ...]
    forbidden: frozenset[str]
    member_of: tuple[frozenset[str], ...]
    forbidden_aggregates: frozenset[str]
    spans: bool
    root_uuid: str | None
    hopeless: bool

    def admits(self, base: state.State, provider: record.ProviderRecord) -> bool:
        """Whether a provider is of the kind that the group asks for."""
        traits = provider.traits
        for any_of in self.required:
            if traits.isdisjoint(any_of):
                return False
        if self.forbidden and not traits.isdisjoint(self.forbidden):
            return False
        if self.root_uuid is not None and provider.root_uuid != self.root_uuid:
            return False
        if self.hopeless:
            return False
        if self.member_of and not self.admits_member(base, provider):
            return False
        return not self.forbidden_aggregates or self.forbidden_aggregates.isdisjoint(
            self.aggregates_of(base, provider)
        )

    def admits_member(self, base: state.State, provider: record.ProviderRecord) -> bool:
        """Whether a provider, or the root that counts for it, meets all of member_of."""
        if self._meets_member_of(provider.aggregates):
            return True
        return self.spans and self._meets_member_of(base.providers[provider.root_uuid].aggregates)

    def _meets_member_of(self, aggregates: tuple[str, ...]) -> bool:
        return not any(any_of.isdisjoint(aggregates) for any_of in self.member_of)

    def aggregates_of(self, base: state.State, provider: record.ProviderRecord) -> frozenset[str]:
        """The aggregates that count for a provider in this group."""
        own = frozenset(provider.aggregates)
        if self.spans and provider.root_uuid != provider.uuid:
            return own.union(base.providers[provider.root_uuid].aggregates)
        return own


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One provider to be chosen: for a group, to give ``resources``, which may be none."""

    group: Group
    resources: Mapping[str, int]

    def suits(self, base: state.State, provider: record.ProviderRecord) -> bool:
        """Whether a provider could fill this slot, were it the only one."""
        return gives(base, provider, self.resources) and self.group.admits(base, provider)


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A query in the search's own terms.

    ``slots`` have those of suffixed groups first; ``kinds`` are the same slots, those
    together that the same providers suit. ``subtrees`` are sets of suffixes.
    ``demands`` is ``{resource class: (total, the amount of each slot)}``; ``totals`` is
    what one provider gives that fills every slot; ``repeated`` are the classes that more than
    one slot asks for.
    """

    groups: tuple[Group, ...]
    slots: tuple[Slot, ...]
    kinds: tuple[tuple[Slot, ...], ...]
    subtrees: tuple[frozenset[str], ...]
    isolate: bool
    nested: bool
    root_required: frozenset[str]
    root_forbidden: frozenset[str]
    demands: Mapping[str, tuple[int, tuple[int, ...]]]
    totals: Mapping[str, int]
    repeated: frozenset[str]

    @property
    def needs_many(self) -> bool:
        """Whether no single provider can serve the query, whatever it has."""
        return self.isolate and sum(1 for group in self.groups if group.suffix) > 1

    def without_together(self) -> Plan:
        """The same plan, where nothing is required of the unsuffixed group in sum."""
        changed = {group: dataclasses.replace(group, together=()) for group in self.groups}
        slots = tuple(Slot(changed[slot.group], slot.resources) for slot in self.slots)
        return dataclasses.replace(
            self, groups=tuple(changed.values()), slots=slots, kinds=_kinds(slots)
        )

    def admits_root(self, root: record.ProviderRecord) -> bool:
        """Whether a tree with this root may give candidates."""
        return self.root_required <= root.traits and self.root_forbidden.isdisjoint(root.traits)


def prepare(base: state.State, query: candidate.CandidateQuery) -> Plan:
    """Prepare a query; an in_tree that names an unknown provider is served by nobody."""
    groups = {group.suffix: _group(base, group) for group in query.groups}
    slots = [
        Slot(groups[asked.suffix], resources)
        for asked in sorted(query.groups, key=lambda asked: not asked.suffix)
        for resources in _parts(asked)
    ]
    amounts: dict[str, list[int]] = {}
    for slot in slots:
        for resource_class, amount in slot.resources.items():
            amounts.setdefault(resource_class, []).append(amount)
    return Plan(
        groups=tuple(groups.values()),
        slots=tuple(slots),
        kinds=_kinds(slots),
        subtrees=tuple(suffixes for suffixes in query.same_subtree if len(suffixes) > 1),
        isolate=query.isolate,
        nested=query.nested,
        root_required=query.root_required,
        root_forbidden=query.root_forbidden,
        demands={name: (sum(each), tuple(each)) for name, each in amounts.items()},
        totals={name: sum(each) for name, each in amounts.items()},
        repeated=frozenset(name for name, each in amounts.items() if len(each) > 1),
    )


def _kinds(slots: Iterable[Slot]) -> tuple[tuple[Slot, ...], ...]:
    kinds: dict[object, list[Slot]] = {}
    for slot in slots:
        nameless = dataclasses.replace(slot.group, suffix="", together=())
        kinds.setdefault((nameless, frozenset(slot.resources.items())), []).append(slot)
    return tuple(tuple(alike) for alike in kinds.values())


def gives(base: state.State, provider: record.ProviderRecord, resources: Mapping[str, int]) -> bool:
    """Whether a provider has room for all of ``resources``, in suitable units."""
    inventories = provider.inventories
    for resource_class in resources:
        if resource_class not in inventories:
            return False
    used = base.used(provider.uuid)
    for resource_class, amount in resources.items():
        inventory = inventories[resource_class]
        if (
            not inventory.min_unit <= amount <= inventory.max_unit
            or amount % inventory.step_size
            or used.get(resource_class, 0) + amount > inventory.capacity
        ):
            return False
    return True


def _group(base: state.State, asked: candidate.RequestGroup) -> Group:
    # One provider alone must be all that its group asks for.
    alone = bool(asked.suffix) or len(asked.resources) == 1
    tree = None if asked.in_tree is None else base.providers.get(asked.in_tree)
    return Group(
        suffix=asked.suffix,
        required=asked.required if alone else (),
        together=() if alone else asked.required,
        forbidden=asked.forbidden,
        member_of=asked.member_of,
        forbidden_aggregates=asked.forbidden_aggregates,
        spans=not asked.suffix,
        root_uuid=tree.root_uuid if tree is not None and asked.resources else None,
        hopeless=(asked.in_tree is not None and tree is None)
        or not (asked.resources or asked.required or asked.member_of),
    )


def _parts(asked: candidate.RequestGroup) -> list[dict[str, int]]:
    if asked.suffix:
        return [dict(asked.resources)]
    return [{resource_class: amount} for resource_class, amount in asked.resources.items()]
