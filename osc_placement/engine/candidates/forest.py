# SPDX-License-Identifier: Apache-2.0
"""The trees that can have candidates, and the providers in them that fit each slot.

Trees are found through the indexes of the state, one at a time, by the rarest class, trait,
aggregate or tree of the query.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator

from osc_placement.engine import (
    inventories,
    record,
    standard,
    state,
)
from osc_placement.engine.candidates import tree as trees
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.engine.candidates.plans import QueryPlan, Slot
from osc_placement.model.candidate import Candidate

Options = dict[Slot, list[record.ProviderRecord]]


class Strategy(enum.StrEnum):
    """The order of candidates: the option ``allocation_candidates_generation_strategy``.

    Depth first: all candidates of a tree before the next tree. Breadth first: one candidate of
    each tree, then the second of each tree, and so on.
    """

    DEPTH_FIRST = "depth-first"
    BREADTH_FIRST = "breadth-first"


class Forest:
    """All trees of a state, for one query."""

    def __init__(
        self, base: state.CloudState, plan: QueryPlan, budget: SearchBudget | None = None
    ) -> None:
        self.base = base
        self.plan = plan
        self.budget = budget or SearchBudget()
        self._suffixes = [group.suffix for group in plan.groups]
        self._demands = [
            (base.rooms(name).get, total, amounts)
            for name, (total, amounts) in plan.demands.items()
        ]
        self.sharing = base.with_trait[standard.SHARING_TRAIT]
        self._shared_fits: dict[tuple[Slot, str], bool] = {}
        self._sharing_in: dict[str, list[str]] = {}

    def candidates(self, strategy: Strategy = Strategy.DEPTH_FIRST) -> Iterator[Candidate]:
        """Every candidate of every tree, once."""
        # Each tree that sharing providers share with finds the candidates of those providers alone.
        seen: set[object] = set()
        trees = (self.candidates_in(root_uuid, seen) for root_uuid in self._admitted_roots())
        in_order = _in_turn if strategy is Strategy.BREADTH_FIRST else itertools.chain.from_iterable
        candidates = in_order(trees)
        return self._without_repeated(candidates, seen) if self.sharing else iter(candidates)

    def _without_repeated(
        self, candidates: Iterable[Candidate], seen: set[object]
    ) -> Iterator[Candidate]:
        """The candidates; those of sharing providers alone, which several trees find, only once."""
        for candidate in candidates:
            if self._is_shared(candidate):
                key = _key(candidate)
                if key in seen:
                    continue
                seen.add(key)
            yield candidate

    def _admitted_roots(self) -> Iterator[str]:
        plan, providers = self.plan, self.base.providers
        all_admitted = not (plan.root_required or plan.root_forbidden)
        for root_uuid in self.roots():
            self.budget.step()
            if all_admitted or plan.admits_root(providers[root_uuid]):
                yield root_uuid

    def candidates_in(self, root_uuid: str, seen: set[object] | None = None) -> Iterator[Candidate]:
        """The candidates of one tree; its root is not checked.

        ``seen`` collects the choices of trees that sharing providers serve alone; equal choices are
        searched once.
        """
        tree = self.base.tree[root_uuid]
        sharing = self.sharing_with(root_uuid)
        if len(tree) == 1 and not sharing:
            alone = self._alone(self.base.providers[root_uuid])
            return iter(()) if alone is None else iter((alone,))
        options = self.options(tree, sharing)
        if not all(options.values()):
            return iter(())
        if seen is not None and self.sharing:
            key = tuple(tuple(p.uuid for p in fitting) for fitting in options.values())
            if all(self.sharing >= set(uuids) for uuids in key):
                if key in seen:
                    return iter(())
                seen.add(key)
        walk = trees.Walk(self.base, self.plan, root_uuid, options, self.budget)
        return walk.candidates()

    def options(self, tree: Iterable[str], sharing: Iterable[str] = ()) -> Options:
        """``{slot: providers that fit it}`` in a tree and in the sharing providers."""
        options: Options = {}
        for equal_slots in self.plan.equal_slots:
            fitting = self._fitting(equal_slots[0], tree)
            for uuid in sharing:
                if self._shared_provider_fits(equal_slots[0], uuid):
                    fitting.append(self.base.providers[uuid])
            for slot in equal_slots:
                options[slot] = fitting
        return options

    def _fitting(self, slot: Slot, tree: Iterable[str]) -> list[record.ProviderRecord]:
        base, admits = self.base, slot.group.admits
        providers = base.providers
        for resource_class, amount in slot.resources.items():
            tree = inventories.suppliers(base, tree, resource_class, amount)
        return [provider for uuid in tree if admits(base, provider := providers[uuid])]

    def sharing_with(self, root_uuid: str) -> list[str]:
        """The sharing providers of other trees that share with this tree."""
        if not self.sharing:
            return []
        tree = self.base.tree[root_uuid]
        sharing: dict[str, None] = {}
        for uuid in tree:
            for aggregate in self.base.providers[uuid].aggregates:
                sharing.update(dict.fromkeys(self._sharing(aggregate)))
        return [uuid for uuid in sharing if uuid not in tree]

    # One provider alone

    def _alone(self, provider: record.ProviderRecord) -> Candidate | None:
        """The one candidate of a tree with a single provider, or None."""
        base, plan = self.base, self.plan
        if plan.needs_several_providers:
            return None
        for room_of, total, amounts in self._demands:
            least, most, step = room_of(provider.uuid, state.NO_ROOM)
            if total > most:
                return None
            for amount in amounts:
                if amount < least or amount % step:
                    return None
        for group in plan.groups:
            if not group.admits(base, provider):
                return None
            for any_of in group.group_required:
                if provider.traits.isdisjoint(any_of):
                    return None
        mappings = dict.fromkeys(self._suffixes, (provider.uuid,))
        return Candidate(provider.uuid, {provider.uuid: plan.totals}, mappings)

    # Sharing providers

    def _sharing(self, aggregate: str) -> list[str]:
        sharing = self._sharing_in.get(aggregate)
        if sharing is None:
            members = self.base.with_aggregate[aggregate]
            sharing = [uuid for uuid in self.sharing if uuid in members]
            self._sharing_in[aggregate] = sharing
        return sharing

    def _shared_provider_fits(self, slot: Slot, uuid: str) -> bool:
        key = (slot, uuid)
        fits = self._shared_fits.get(key)
        if fits is None:
            fits = slot.fits(self.base, self.base.providers[uuid])
            self._shared_fits[key] = fits
        return fits

    def _is_shared(self, candidate: Candidate) -> bool:
        for uuids in candidate.mappings.values():
            for uuid in uuids:
                if uuid not in self.sharing:
                    return False
        return True

    # Which trees

    def roots(self) -> Iterator[str]:
        """The roots of all trees that can have candidates, each once."""
        if not self.plan.totals or any(group.impossible for group in self.plan.groups):
            return iter(())
        providers = self.base.providers
        roots = _distinct(providers[uuid].root_uuid for uuid in self._rarest())
        return _distinct(self._with_reached(roots)) if self.sharing else roots

    def _with_reached(self, roots: Iterable[str]) -> Iterator[str]:
        """Roots, and after each the roots of the trees that its providers share with."""
        served: set[str] = set()
        for root_uuid in roots:
            yield root_uuid
            yield from self._reached(root_uuid, served)

    def _reached(self, root_uuid: str, served: set[str]) -> Iterator[str]:
        """The trees that providers of this tree share with, by aggregates that are not in
        ``served``.
        """
        for uuid in self.base.tree[root_uuid]:
            if uuid not in self.sharing:
                continue
            for aggregate in self.base.providers[uuid].aggregates:
                if aggregate not in served:
                    served.add(aggregate)
                    for member in self.base.with_aggregate[aggregate]:
                        yield self.base.providers[member].root_uuid

    def _rarest(self) -> Iterable[str]:
        """Providers of which every candidate's tree, or a tree that shares with it, has one."""
        base = self.base
        terms: list[tuple[state.Index, Iterable[str]]] = [
            (base.with_class, (resource_class,)) for resource_class in self.plan.totals
        ]
        terms += [(base.with_trait, (trait,)) for trait in self.plan.root_required]
        for group in self.plan.groups:
            if group.root_uuid is not None:
                terms.append((base.tree, (group.root_uuid,)))
            terms += [
                (base.with_trait, any_of) for any_of in (*group.required, *group.group_required)
            ]
            terms += [(base.with_aggregate, any_of) for any_of in group.member_of]
        members_by_term = [[index[key] for key in sorted(any_of)] for index, any_of in terms]
        rarest = min(members_by_term, key=lambda term: sum(len(members) for members in term))
        return itertools.chain.from_iterable(rarest)


def _distinct(values: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for value in values:
        if value not in seen:
            seen.add(value)
            yield value


def _in_turn(trees: Iterable[Iterator[Candidate]]) -> Iterator[Candidate]:
    """One candidate of each tree, then the second of each tree, and so on."""
    while trees:
        left = []
        for tree in trees:
            candidate = next(tree, None)
            if candidate is not None:
                left.append(tree)
                yield candidate
        trees = left


def _key(candidate: Candidate) -> int:
    """A hash, because large candidates themselves would take too much memory."""
    key = (
        frozenset(
            (uuid, frozenset(amounts.items())) for uuid, amounts in candidate.allocations.items()
        ),
        frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items()),
    )
    return hash(key)
