# SPDX-License-Identifier: Apache-2.0
"""The search in one tree: it fills the slots of a plan depth first, candidate after candidate.

``Matching`` finds early that some groups cannot get a provider each, by augmenting paths.
``DeadEnds`` remembers what could not be completed: equal providers and equal groups are
interchangeable, so a dead end is recognized by what is taken from how many providers of which kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.engine.candidates.plans import QueryPlan, Slot
from osc_placement.model import allocation
from osc_placement.model.candidate import Candidate

Options = Sequence[record.ProviderRecord]


class Matching:
    """A matching of choices to providers; each provider can be used ``uses`` times.

    ``step`` is called for each choice that is rematched, so that it can stop a long matching.
    """

    def __init__(
        self,
        choices: Sequence[Options],
        uses: Callable[[record.ProviderRecord], int],
        step: Callable[[], None],
    ) -> None:
        self._choices = choices
        self._uses = uses
        self._step = step
        self._free: dict[str, int] = {}
        self._matched: dict[str, dict[int, None]] = {}

    def exists(self) -> bool:
        """Whether every choice can have one of its providers."""
        return all(map(self._augment, range(len(self._choices))))

    def _augment(self, choice: int) -> bool:
        """Match one more choice; rematches others if that helps."""
        # {uuid: the choice that wants this provider}, along the augmenting path.
        wanting: dict[str, int] = {}
        matched_to: dict[int, str] = {}
        queue = [choice]
        for moving in queue:
            self._step()
            for provider in self._choices[moving]:
                uuid = provider.uuid
                if uuid in wanting:
                    continue
                wanting[uuid] = moving
                if uuid not in self._free:
                    self._free[uuid], self._matched[uuid] = int(self._uses(provider)), {}
                if self._free[uuid] > 0:
                    self._free[uuid] -= 1
                    self._move(uuid, wanting, matched_to)
                    return True
                for other in self._matched[uuid]:
                    if other not in matched_to:
                        matched_to[other] = uuid
                        queue.append(other)
        return False

    def _move(self, uuid: str, wanting: Mapping[str, int], matched_to: Mapping[int, str]) -> None:
        """Rematch all choices on the augmenting path."""
        while True:
            choice = wanting[uuid]
            self._matched[uuid][choice] = None
            if choice not in matched_to:
                return
            uuid = matched_to[choice]
            del self._matched[uuid][choice]


#: Dead ends of one tree that are kept; each takes about eight bytes per provider in use.
MAX_KEPT = 50_000

Key = tuple[int, ...]


class DeadEnds:
    """The dead ends of one tree.

    ``options`` are the providers of each level, ``classes`` the resource classes of several slots.
    """

    def __init__(
        self,
        base: state.CloudState,
        options: Iterable[Sequence[record.ProviderRecord]],
        classes: Iterable[str],
    ) -> None:
        self._base = base
        self._classes = sorted(classes)
        self._levels: dict[str, list[int]] = {}
        self._numbers: dict[object, int] = {}
        self._kinds: dict[str, int] = {}
        self._kept: set[Key] = set()
        distinct = {id(providers): providers for providers in options}
        for number, providers in enumerate(distinct.values()):
            for provider in providers:
                self._levels.setdefault(provider.uuid, []).append(number)

    def key(
        self,
        depth: int,
        used: Iterable[str],
        allocations: Mapping[str, allocation.Resources],
    ) -> Key:
        """A partial candidate: equal keys can be completed in the same way.

        ``used`` are its providers, with or without allocations.
        """
        taken = (
            self._number((self._kind(uuid), frozenset(allocations.get(uuid, {}).items())))
            for uuid in used
        )
        return (depth, *sorted(taken))

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def add(self, key: Key) -> None:
        """Remember a dead end."""
        if len(self._kept) < MAX_KEPT:
            self._kept.add(key)

    def _number(self, value: object) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _kind(self, uuid: str) -> int:
        kind = self._kinds.get(uuid)
        if kind is None:
            inventories = self._base.providers[uuid].inventories
            used = self._base.used(uuid)
            amounts = tuple(
                (name, inventory.max_unit, inventory.capacity - used.get(name, 0))
                for name in self._classes
                if (inventory := inventories.get(name)) is not None
            )
            kind = self._kinds[uuid] = self._number((tuple(self._levels.get(uuid, ())), amounts))
        return kind


#: Steps without a candidate, beyond one per slot, after which each step looks ahead first.
LOOKAHEAD_AFTER = 50
#: Slots up to which a search starts without looking ahead.
SMALL = 4

_Path = tuple[str, ...]
_Allocations = dict[str, allocation.Resources]
_Mappings = dict[str, tuple[str, ...]]


class _Level(NamedTuple):
    """A slot at its depth of the search, with the conditions that depend on other slots."""

    slot: Slot
    options: Options
    isolated: bool
    group_required: tuple[frozenset[str], ...]
    subtrees: tuple[tuple[int, ...], ...]


class _Lineages(dict[str, frozenset[str]]):
    """``{provider uuid: the provider and all its ancestors}``, computed at the first look-up."""

    def __init__(self, base: state.CloudState) -> None:
        super().__init__()
        self._providers = base.providers

    def __missing__(self, uuid: str) -> frozenset[str]:
        above = []
        parent: str | None = uuid
        while parent is not None:
            above.append(parent)
            parent = self._providers[parent].parent_uuid
        found = self[uuid] = frozenset(above)
        return found


class Walk:
    """A search through one tree; ``options`` are the providers that fit each slot."""

    def __init__(
        self,
        base: state.CloudState,
        plan: QueryPlan,
        root_uuid: str,
        options: Mapping[Slot, Options],
        budget: SearchBudget,
    ) -> None:
        self.base = base
        self.plan = plan
        self.root_uuid = root_uuid
        self.budget = budget
        self._levels = _levels(base, plan, options)
        self._look_ahead_after = LOOKAHEAD_AFTER + len(self._levels)
        self._steps_since_candidate = 0
        self._found = 0
        self._dead_ends: DeadEnds | None = None
        if plan.nested and not any(
            level.group_required or level.subtrees for level in self._levels
        ):
            self._dead_ends = DeadEnds(base, options.values(), plan.repeated)
        self._lineages = _Lineages(base)

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate of the tree, once."""
        root_uuid = self.root_uuid
        if len(self._levels) > SMALL and not self._can_complete((), {}):
            return
        # A stack instead of recursion: a query may have more groups than Python has frames.
        levels = len(self._levels)
        stack = [self._fill(0, (), {}, {})]
        while stack:
            if len(stack) == levels:
                for _, allocations, mappings in stack.pop():
                    self._steps_since_candidate = 0
                    self._found += 1
                    self.budget.step()
                    yield Candidate(root_uuid, allocations, mappings)
                continue
            filled = next(stack[-1], None)
            if filled is None:
                stack.pop()
            else:
                stack.append(self._fill(len(stack), *filled))

    def _fill(
        self, depth: int, path: _Path, allocations: _Allocations, mappings: _Mappings
    ) -> Iterator[tuple[_Path, _Allocations, _Mappings]]:
        """Every way to fill the next slot."""
        self._steps_since_candidate += 1
        self.budget.step()
        if self._steps_since_candidate <= self._look_ahead_after:
            return self._fill_level(depth, path, allocations, mappings)
        return self._fill_ahead(depth, path, allocations, mappings)

    def _fill_ahead(
        self, depth: int, path: _Path, allocations: _Allocations, mappings: _Mappings
    ) -> Iterator[tuple[_Path, _Allocations, _Mappings]]:
        """The same without dead ends, as far as looking ahead shows them."""
        key = None
        if self._dead_ends is not None:
            used = set(path) if self.plan.isolate else allocations.keys()
            key = self._dead_ends.key(depth, used, allocations)
            if key in self._dead_ends:
                return
        found = self._found
        if self._can_complete(path, allocations):
            yield from self._fill_level(depth, path, allocations, mappings)
        if self._dead_ends is not None and key is not None and self._found == found:
            self._dead_ends.add(key)

    def _fill_level(
        self, depth: int, path: _Path, allocations: _Allocations, mappings: _Mappings
    ) -> Iterator[tuple[_Path, _Allocations, _Mappings]]:
        level = self._levels[depth]
        resources = level.slot.resources
        suffix = level.slot.group.suffix
        mapped = mappings.get(suffix, ())
        isolated = level.isolated
        checked = bool(level.group_required or not self.plan.nested)
        for provider in self._in_subtrees(level, path) if level.subtrees else level.options:
            uuid = provider.uuid
            if isolated and uuid in path:
                continue
            now_path = (*path, uuid)
            if checked and not self._fits(level, now_path):
                continue
            amounts = resources
            if uuid in allocations:
                amounts = allocation.add_resources(allocations[uuid], resources)
                if not self._has_capacity(provider, amounts):
                    continue
            yield (
                now_path,
                {**allocations, uuid: amounts} if amounts else allocations,
                {**mappings, suffix: mapped if uuid in mapped else (*mapped, uuid)},
            )

    def _has_capacity(self, provider: record.ProviderRecord, amounts: allocation.Resources) -> bool:
        """Whether one provider can supply the ``amounts`` of several slots together."""
        return all(
            amounts[resource_class] <= _room(self.base, provider, resource_class)
            for resource_class in self.plan.repeated & amounts.keys()
        )

    # What depends on the providers chosen before

    def _fits(self, level: _Level, path: _Path) -> bool:
        """Whether the last provider of the path is compatible with those before it."""
        if not self.plan.nested and not self._is_flat(path):
            return False
        return not level.group_required or self._traits_possible(level, path)

    def _is_flat(self, path: _Path) -> bool:
        providers = self.base.providers
        last = path[-1]
        root_uuid = providers[last].root_uuid
        return all(uuid == last or providers[uuid].root_uuid != root_uuid for uuid in path)

    def _traits_possible(self, level: _Level, path: _Path) -> bool:
        """Whether the providers of the group have its traits in sum, or still can."""
        there: set[str] = set()
        for uuid, other in zip(path, self._levels, strict=False):
            if other.slot.group is level.slot.group:
                there |= self.base.providers[uuid].traits
        missing = [any_of for any_of in level.group_required if there.isdisjoint(any_of)]
        for other in self._levels[len(path) :] if missing else ():
            for provider in other.options:
                there |= provider.traits
        return not any(there.isdisjoint(any_of) for any_of in missing)

    def _in_subtrees(self, level: _Level, path: _Path) -> Sequence[record.ProviderRecord]:
        """The options of a level with which each of its subtrees has, or still can have, a provider
        that is an ancestor of all its others.
        """
        lineages = self._lineages
        options = level.options
        for places in level.subtrees:
            chosen = [path[place] for place in places if place < len(path)]
            above = frozenset.intersection(*[lineages[uuid] for uuid in chosen])
            heads = above.intersection(chosen).union(
                provider.uuid
                for place in places
                if place > len(path)
                for provider in self._levels[place].options
                if provider.uuid in above
            )
            options = [
                provider
                for provider in options
                if provider.uuid in above or not heads.isdisjoint(lineages[provider.uuid])
            ]
        return options

    # Looking ahead

    def _can_complete(self, path: _Path, allocations: _Allocations) -> bool:
        """Whether the remaining slots can be filled, by isolation and by each class separately."""
        ahead = self._levels[len(path) :]
        if self.plan.isolate:
            isolated = [level.options for level in ahead if level.isolated]
            if not self._matches(isolated, lambda provider: provider.uuid not in path):
                return False
        return all(
            self._can_supply(resource_class, ahead, allocations)
            for resource_class in self.plan.repeated
        )

    def _can_supply(
        self, resource_class: str, ahead: Sequence[_Level], allocations: _Allocations
    ) -> bool:
        requesting = [level for level in ahead if resource_class in level.slot.resources]
        if not requesting:
            return True
        amounts = [level.slot.resources[resource_class] for level in requesting]
        least = min(amounts)
        rooms: dict[str, int] = {}
        distinct = {id(level.options): level.options for level in requesting}
        for providers in distinct.values():
            self.budget.step()
            for provider in providers:
                if provider.uuid not in rooms:
                    taken = allocations.get(provider.uuid, {}).get(resource_class, 0)
                    rooms[provider.uuid] = max(
                        _room(self.base, provider, resource_class) - taken, 0
                    )
        if sum(room for room in rooms.values() if room >= least) < sum(amounts):
            return False
        return self._matches(
            [level.options for level in requesting], lambda provider: rooms[provider.uuid] // least
        )

    def _matches(
        self,
        choices: Sequence[Options],
        uses: Callable[[record.ProviderRecord], int],
    ) -> bool:
        return Matching(choices, uses, self.budget.step).exists()


def _room(base: state.CloudState, provider: record.ProviderRecord, resource_class: str) -> int:
    """The amount that one candidate may take from a provider."""
    _, most, _ = base.rooms(resource_class)[provider.uuid]
    return most


def _levels(
    base: state.CloudState, plan: QueryPlan, options: Mapping[Slot, Options]
) -> list[_Level]:
    """The slots in search order.

    Suffixed groups first, because only they are isolated; then the slots with the fewest providers
    and the largest amounts, so that dead ends show early.
    """
    largest: dict[tuple[int, str], int] = {}

    def order(slot: Slot) -> tuple[bool, int, float]:
        share = 0.0
        for name in plan.repeated & slot.resources.keys():
            key = id(options[slot]), name
            if key not in largest:
                largest[key] = max(_room(base, provider, name) for provider in options[slot])
            share = max(share, slot.resources[name] / max(largest[key], 1))
        return not slot.group.suffix, len(options[slot]), -share

    slots = sorted(options, key=order)
    places = {slot.group.suffix: place for place, slot in enumerate(slots)}
    subtrees = [tuple(places[suffix] for suffix in suffixes) for suffixes in plan.subtrees]
    return [
        _Level(
            slot,
            options[slot],
            isolated=plan.isolate and bool(slot.group.suffix),
            group_required=slot.group.group_required,
            # The first provider of a subtree can always be in it.
            subtrees=tuple(
                subtree for subtree in subtrees if place in subtree and place > min(subtree)
            ),
        )
        for place, slot in enumerate(slots)
    ]
