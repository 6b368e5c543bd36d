# SPDX-License-Identifier: Apache-2.0
"""Which constraints a host fails: the smallest sets without which it can serve the query. Pure.

Trees that fail the same constraints in the same places are searched once.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Collection, Iterable, Sequence

from osc_placement.engine import inventories, record, standard, state
from osc_placement.engine.candidates.plans import QueryPlan
from osc_placement.model import candidate, constraint, inventory
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.explain import amounts

Removed = frozenset[Constraint]

#: Constraints that one change removes or lowers, and steps of one change of a host.
MOST_CONDITIONS = 3

#: The constraint that nova adds for disabled compute services: a request cannot go without it.
_STATUS = Constraint(Kind.ROOT_FORBIDDEN, names=("COMPUTE_STATUS_DISABLED",))

#: Different sums of amounts of a class that tell kinds of trees apart.
_MOST_SUMS = 64

#: Constraints between groups: no single provider meets or fails them.
_BETWEEN = {Kind.ISOLATE, Kind.SAME_SUBTREE}


class Relaxations:
    """The constraints of a query, tree by tree.

    ``order`` has all constraints of the query, those on resources of a group before its others.
    """

    def __init__(
        self, base: state.CloudState, query: candidate.CandidateQuery, order: Sequence[Constraint]
    ) -> None:
        self._base, self._query, self._order = base, query, tuple(order)
        self._search = self.search(frozenset())
        self._passing = {part: self._meeting(part) for part in self._order}
        # All resources may be lowered to 1.
        self._least = [self._supplying(name, 1) for name in sorted(self._search.plan.totals)]
        self._sums = {
            name: _taken(self._search.plan.demands[name][1])
            for name in sorted(self._search.plan.repeated)
        }
        self._brings_more = amounts.brings_more(self._search.plan)
        self._is_plain = not any(group.suffix for group in query.groups)
        self._by_kind: dict[object, tuple[Removed, ...]] = {}
        self._steps: dict[object, int] = {}

    @property
    def plan(self) -> QueryPlan:
        """The prepared query."""
        return self._search.plan

    @property
    def mixes_groups_and_sharing(self) -> bool:
        """Whether sharing providers may serve a query with suffixed groups.

        openstack-placement does not return all candidates of such a query.
        """
        sharing = self._base.with_trait[standard.SHARING_TRAIT]
        return not self._is_plain and any(
            not self._search.plan.totals.keys().isdisjoint(self._base.providers[uuid].inventories)
            for uuid in sharing
        )

    @functools.cache  # noqa: B019 (one object per explanation)
    def search(self, removed: Removed) -> HostSearch:
        """The search for the query without some constraints.

        If these are all resources of the query, their amounts are 1 instead.
        """
        lowered = [part for part in removed if part.kind is Kind.RESOURCES]
        query = constraint.without(self._query, removed.difference(lowered))
        least = amounts.least(query, lowered)
        return HostSearch(self._base, amounts.reduced(query, least))

    def step(self, root_uuid: str) -> int:
        """How many constraints, in order, a host meets together; all only for a candidate."""
        kind = self.kind(root_uuid)
        if kind not in self._steps:
            self._steps[kind] = self._find_step(root_uuid)
        return self._steps[kind]

    def smallest(self, root_uuid: str) -> tuple[Removed, ...]:
        """The smallest sets of constraints without which a host can serve the query.

        No set contains another one, and none has more than ``MOST_CONDITIONS``. The empty set alone
        for a candidate.
        """
        kind = self.kind(root_uuid)
        if kind not in self._by_kind:
            self._by_kind[kind] = tuple(self._find_smallest(root_uuid))
        return self._by_kind[kind]

    def causes(self, roots: Iterable[str]) -> list[str]:
        """Why none of these hosts can serve the query: ``required=A and required=B``.

        Each is enough to go without, for some host; of those, the ones with the fewest constraints.
        Without any, it is what each host fails that fails the fewest.
        """
        roots = list(roots)
        sets = minimal(each for root in roots for each in self.smallest(root))
        if not sets:
            failed = [frozenset(self._failed(root)) for root in roots]
            sets = minimal(each for each in failed if each)
        texts = ([str(part) for part in self._order if part in each] for each in sets)
        return [" and ".join(parts) for parts in texts if len(parts) == len(sets[0])]

    def _failed(self, root_uuid: str) -> Iterable[Constraint]:
        """The constraints that no provider of a host meets."""
        uuids = [*self._base.tree[root_uuid], *self._search.forest.sharing_with(root_uuid)]
        for part, passing in self._passing.items():
            if part.kind not in _BETWEEN and not any(uuid in passing for uuid in uuids):
                yield part

    def _find_step(self, root_uuid: str) -> int:
        every = len(self._order)

        def fails(count: int) -> bool:
            if count == every:
                return not self._search.can_serve(root_uuid)
            removed = frozenset(self._order[count:])
            return count > 0 and not self.search(removed).shared_can_serve(root_uuid)

        return bisect.bisect_left(range(every + 1), True, key=fails) - 1

    def _find_smallest(self, root_uuid: str) -> list[Removed]:
        if self._search.can_serve(root_uuid):
            return [frozenset()]
        relevant = self._relevant(root_uuid)
        if self._is_plain and self._is_flat(root_uuid):
            # One provider serves all or nothing.
            alone = frozenset(relevant)
            fits = len(alone) <= MOST_CONDITIONS and _STATUS not in alone
            return [alone] if fits and self._suffices(alone, root_uuid) else []
        sets: list[Removed] = []
        for chosen in _subsets([part for part in relevant if part != _STATUS]):
            removed = frozenset(chosen)
            if any(smaller <= removed for smaller in sets):
                continue
            if self._suffices(removed, root_uuid):
                sets.append(removed)
        return sets

    def _suffices(self, removed: Removed, root_uuid: str) -> bool:
        """Whether a host can serve the query without constraints, or with smaller amounts."""
        search = self.search(removed)
        if search.can_serve(root_uuid):
            return True
        lowered = [part for part in removed if part.kind is Kind.RESOURCES]
        if not lowered or not search.plan.admits_root(self._base.providers[root_uuid]):
            return False
        # A smaller amount is no easier than none, if its provider brings nothing else.
        is_without = not any(amounts.least(self._query, lowered).values())
        if is_without and not self._brings_more and not search.shared_can_serve(root_uuid):
            return False
        query = constraint.without(self._query, removed.difference(lowered))
        return amounts.sufficient(self._base, query, root_uuid, lowered) is not None

    def _is_flat(self, root_uuid: str) -> bool:
        tree = self._base.tree[root_uuid]
        return len(tree) == 1 and not self._search.forest.sharing_with(root_uuid)

    def _relevant(self, root_uuid: str) -> list[Constraint]:
        """The constraints that a provider of the tree fails or that no single provider decides."""
        providers = [*self._base.tree[root_uuid], *self._search.forest.sharing_with(root_uuid)]
        is_alone = self._is_plain and len(providers) == 1
        undecided = set[Kind]() if is_alone else {*_BETWEEN, Kind.RESOURCES}
        return [
            part
            for part, passing in self._passing.items()
            if part.kind in undecided or any(uuid not in passing for uuid in providers)
        ]

    @functools.cache  # noqa: B019 (one object per explanation)
    def kind(self, root_uuid: str) -> object:
        """Trees of equal kinds meet and fail the same constraints, whichever are removed."""
        tree = self._base.tree[root_uuid]
        places = {uuid: place for place, uuid in enumerate(tree)}
        return (
            tuple(
                (
                    places.get(self._base.providers[uuid].parent_uuid or ""),
                    tuple(uuid in passing for passing in (*self._passing.values(), *self._least)),
                    tuple(self._room(uuid, name) for name in self._sums),
                    tuple(self._units(uuid, name) for name in self._search.plan.totals),
                )
                for uuid in tree
            ),
            tuple(self._search.forest.sharing_with(root_uuid)),
        )

    def _room(self, uuid: str, resource_class: str) -> object:
        """Equal for providers that can supply the same sums of requested amounts."""
        offered = self._base.providers[uuid].inventories.get(resource_class)
        if offered is None:
            return None
        free = offered.capacity - self._base.used(uuid).get(resource_class, 0)
        most = min(free, offered.max_unit)
        sums = self._sums[resource_class]
        return bisect.bisect_right(sums, most) if sums else most

    def _units(self, uuid: str, resource_class: str) -> object:
        """What decides which amounts a provider accepts; equal for most providers."""
        smallest, most, step = self._base.rooms(resource_class).get(uuid, (1, 0, 1))
        if smallest <= 1 and step == 1:
            return None
        return smallest, min(most, self._search.plan.totals[resource_class]), step

    def _supplying(self, resource_class: str, amount: int) -> Collection[str]:
        """The providers with room for an amount of a class."""
        uuids = self._base.with_class[resource_class]
        return set(inventories.suppliers(self._base, uuids, resource_class, amount))

    def _meeting(self, part: Constraint) -> Collection[str]:
        """The providers that meet a constraint by themselves."""
        base, names = self._base, part.names
        if part.kind is Kind.RESOURCES:
            return self._supplying(names[0], part.amount or 0)
        if part.kind in (Kind.REQUIRED, Kind.ROOT_REQUIRED):
            return _members(base.with_trait[name] for name in names)
        if part.kind is Kind.MEMBER_OF:
            return _members(base.with_aggregate[name] for name in names)
        if part.kind in (Kind.FORBIDDEN, Kind.ROOT_FORBIDDEN):
            return base.providers.keys() - base.with_trait[names[0]]
        if part.kind is Kind.NOT_MEMBER_OF:
            return base.providers.keys() - base.with_aggregate[names[0]]
        if part.kind is Kind.IN_TREE:
            provider: record.ProviderRecord | None = base.providers.get(names[0])
            return base.tree[provider.root_uuid] if provider else ()
        return base.providers.keys()


def _taken(requested: Sequence[int]) -> list[int]:
    """What groups may take from one provider, all requested amounts or 1 each; or nothing.

    Empty if there are too many different sums.
    """
    sums = inventory.subset_sums(requested, _MOST_SUMS)
    return sorted(sums | set(range(1, len(requested) + 1))) if sums else []


def _members(parts: Iterable[Collection[str]]) -> Collection[str]:
    members = list(parts)
    return members[0] if len(members) == 1 else set().union(*members)


def _subsets(relevant: Sequence[Constraint]) -> Iterable[tuple[Constraint, ...]]:
    """The subsets of up to ``MOST_CONDITIONS`` constraints, the smallest first."""
    return itertools.chain.from_iterable(
        itertools.combinations(relevant, size) for size in range(1, MOST_CONDITIONS + 1)
    )


def minimal(sets: Iterable[Removed]) -> list[Removed]:
    """The sets that contain no other one, the smallest first."""
    kept: list[Removed] = []
    for removed in sorted(set(sets), key=lambda members: (len(members), sorted(map(str, members)))):
        if not any(smaller <= removed for smaller in kept):
            kept.append(removed)
    return kept
