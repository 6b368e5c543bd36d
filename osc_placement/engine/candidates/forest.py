"""Which trees are worth a look, and which providers of each suit which slot.

The trees are found from the rarest thing that a query asks for (a class, a trait, an
aggregate, a tree), through the indexes of the state, one at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import plan as plans, tree as trees
from osc_placement.model.candidate import Candidate

Options = dict[plans.Slot, list[record.ProviderRecord]]


class Forest:
    """All trees of a state, seen with the eyes of one query."""

    def __init__(self, base: state.State, plan: plans.Plan) -> None:
        self.base = base
        self.plan = plan
        self.effort = trees.Effort()
        self.sharing = base.with_trait[standard.SHARING_TRAIT]
        self._shared_suits: dict[tuple[plans.Slot, str], bool] = {}
        self._sharing_in: dict[str, list[str]] = {}

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate of every tree, once."""
        providers = self.base.providers
        # What sharing providers give alone is found again from each tree they share with.
        seen: set[object] = set()
        for root_uuid in self.roots():
            if not self.plan.admits_root(providers[root_uuid]):
                continue
            for candidate in self.candidates_in(root_uuid, seen):
                if self._is_shared(candidate):
                    key = _key(candidate)
                    if key in seen:
                        continue
                    seen.add(key)
                yield candidate

    def candidates_in(self, root_uuid: str, seen: set[object] | None = None) -> Iterator[Candidate]:
        """The candidates of one tree, whatever its root is like.

        ``seen`` remembers what trees without a provider of their own can choose from: the
        second of the same choice is passed over.
        """
        tree = self.base.tree[root_uuid]
        sharing = self.reaching(root_uuid) if self.sharing else ()
        if len(tree) == 1 and not sharing:
            alone = self._alone(self.base.providers[root_uuid])
            return iter(()) if alone is None else iter((alone,))
        options = self.options(tree, sharing)
        if not all(options.values()):
            return iter(())
        if seen is not None and self.sharing:
            key = tuple(tuple(p.uuid for p in suiting) for suiting in options.values())
            if all(self.sharing >= set(uuids) for uuids in key):
                if key in seen:
                    return iter(())
                seen.add(key)
        walk = trees.Walk(self.base, self.plan, root_uuid, options, self.effort)
        return walk.candidates()

    def options(self, tree: Iterable[str], sharing: Iterable[str] = ()) -> Options:
        """``{slot: providers that suit it}`` among those of a tree and those that share."""
        options: Options = {}
        for alike in self.plan.kinds:
            suiting = self._suiting(alike[0], tree)
            for uuid in sharing:
                if self._suits_shared(alike[0], uuid):
                    suiting.append(self.base.providers[uuid])
            for slot in alike:
                options[slot] = suiting
        return options

    def _suiting(self, slot: plans.Slot, tree: Iterable[str]) -> list[record.ProviderRecord]:
        base = self.base
        providers = base.providers
        for resource_class in slot.resources:
            members = base.with_class[resource_class]
            tree = [uuid for uuid in tree if uuid in members]
        return [provider for uuid in tree if slot.suits(base, provider := providers[uuid])]

    def reaching(self, root_uuid: str) -> list[str]:
        """The sharing providers of other trees that share with this one."""
        tree = self.base.tree[root_uuid]
        found: dict[str, None] = {}
        for uuid in tree:
            for aggregate in self.base.providers[uuid].aggregates:
                found.update(dict.fromkeys(self._sharing(aggregate)))
        return [uuid for uuid in found if uuid not in tree]

    # One provider alone

    def _alone(self, provider: record.ProviderRecord) -> Candidate | None:
        """The one candidate of a tree of one provider."""
        base, plan = self.base, self.plan
        if plan.needs_many:
            return None
        inventories = provider.inventories
        used = base.used(provider.uuid)
        for resource_class, (total, amounts) in plan.demands.items():
            inventory = inventories.get(resource_class)
            if (
                inventory is None
                or total > inventory.max_unit
                or used.get(resource_class, 0) + total > inventory.capacity
            ):
                return None
            for amount in amounts:
                if amount < inventory.min_unit or amount % inventory.step_size:
                    return None
        for group in plan.groups:
            if not group.admits(base, provider):
                return None
            for any_of in group.together:
                if provider.traits.isdisjoint(any_of):
                    return None
        mapped = (provider.uuid,)
        return Candidate(
            provider.uuid,
            {provider.uuid: plan.totals},
            {group.suffix: mapped for group in plan.groups},
        )

    # Sharing providers

    def _sharing(self, aggregate: str) -> list[str]:
        found = self._sharing_in.get(aggregate)
        if found is None:
            members = self.base.with_aggregate[aggregate]
            found = [uuid for uuid in self.sharing if uuid in members]
            self._sharing_in[aggregate] = found
        return found

    def _suits_shared(self, slot: plans.Slot, uuid: str) -> bool:
        key = (slot, uuid)
        found = self._shared_suits.get(key)
        if found is None:
            found = slot.suits(self.base, self.base.providers[uuid])
            self._shared_suits[key] = found
        return found

    def _is_shared(self, candidate: Candidate) -> bool:
        if not self.sharing:
            return False
        for uuids in candidate.mappings.values():
            for uuid in uuids:
                if uuid not in self.sharing:
                    return False
        return True

    # Which trees

    def roots(self) -> Iterator[str]:
        """The roots of all trees that may have candidates, each once."""
        if not self.plan.totals or any(group.hopeless for group in self.plan.groups):
            return
        seen: set[str] = set()
        sources: set[str] = set()
        served: set[str] = set()
        for uuid in self._rarest():
            source = self.base.providers[uuid].root_uuid
            if source in sources:
                continue
            sources.add(source)
            reached = self._reached(source, served) if self.sharing else ()
            for root_uuid in itertools.chain((source,), reached):
                if root_uuid not in seen:
                    seen.add(root_uuid)
                    yield root_uuid

    def _reached(self, root_uuid: str, served: set[str]) -> Iterator[str]:
        """The trees with which providers of this tree share, by aggregates not yet ``served``."""
        for uuid in self.base.tree[root_uuid]:
            if uuid not in self.sharing:
                continue
            for aggregate in self.base.providers[uuid].aggregates:
                if aggregate not in served:
                    served.add(aggregate)
                    for member in self.base.with_aggregate[aggregate]:
                        yield self.base.providers[member].root_uuid

    def _rarest(self) -> Iterator[str]:
        """Providers of which each candidate's tree, or one that shares with it, has one."""
        base = self.base
        asked: list[tuple[state.Index, Iterable[str]]] = [
            (base.with_class, (resource_class,)) for resource_class in self.plan.totals
        ]
        asked += [(base.with_trait, (trait,)) for trait in self.plan.root_required]
        for group in self.plan.groups:
            if group.root_uuid is not None:
                asked.append((base.tree, (group.root_uuid,)))
            asked += [(base.with_trait, any_of) for any_of in (*group.required, *group.together)]
            asked += [(base.with_aggregate, any_of) for any_of in group.member_of]
        terms = [[index[key] for key in sorted(any_of)] for index, any_of in asked]
        rarest = min(terms, key=lambda term: sum(len(members) for members in term))
        for members in rarest:
            yield from members


def _key(candidate: Candidate) -> object:
    return (
        frozenset(
            (uuid, frozenset(amounts.items())) for uuid, amounts in candidate.allocations.items()
        ),
        frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items()),
    )
