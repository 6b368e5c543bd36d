"""The candidates of one provider tree and the providers that share with it.

``Walk`` fills the slots of a plan depth first and yields each complete candidate at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement.engine import errors, record, state
from osc_placement.engine.candidates import plan as plans
from osc_placement.model import allocation
from osc_placement.model.candidate import Candidate

#: Steps without a candidate after which each step looks ahead first.
LOOKAHEAD_AFTER = 50
#: Steps with look-ahead and without a candidate after which the search stops.
MAX_DEAD_END_STEPS = 100_000

_Options = Sequence[record.ProviderRecord]
_Path = tuple[str, ...]
_Allocations = dict[str, allocation.Resources]
_Mappings = dict[str, tuple[str, ...]]


class TooManyCandidates(errors.EngineError):
    """The query has more candidates than the caller accepts."""

    text = "There are more than {max_candidates} allocation candidates. Give a limit."


class SearchTooLong(TooManyCandidates):
    """The search took too many steps without a candidate."""

    text = "No further allocation candidate was found in {steps} steps. Ask for less at once."


class SearchBudget:
    """The steps without a candidate that one search may still take, over all trees."""

    def __init__(self) -> None:
        self.steps = 0

    def take_step(self) -> None:
        """Count one step; raises SearchTooLong after the last one."""
        self.steps += 1
        if self.steps > MAX_DEAD_END_STEPS:
            raise SearchTooLong(steps=MAX_DEAD_END_STEPS)


class _Level(NamedTuple):
    """A slot at its depth of the search, with the conditions that depend on other slots."""

    slot: plans.Slot
    options: _Options
    isolated: bool
    group_required: tuple[frozenset[str], ...]
    subtrees: tuple[tuple[int, ...], ...]


class Walk:
    """A search through one tree; ``options`` are the providers that fit each slot."""

    def __init__(
        self,
        base: state.State,
        plan: plans.Plan,
        root_uuid: str,
        options: Mapping[plans.Slot, _Options],
        budget: SearchBudget,
    ) -> None:
        self.base = base
        self.plan = plan
        self.root_uuid = root_uuid
        self.budget = budget
        self._levels = _levels(plan, options)
        self._steps_since_candidate = 0
        self._is_over = False
        self._lineages: dict[str, frozenset[str]] = {}

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate of the tree, once."""
        root_uuid = self.root_uuid
        # A stack instead of recursion: a query may have more groups than Python has frames.
        stack = [self._fill(0, (), {}, {})]
        while stack:
            if len(stack) == len(self._levels):
                for _, allocations, mappings in stack.pop():
                    self._steps_since_candidate = 0
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
        if self._steps_since_candidate > LOOKAHEAD_AFTER and self._is_dead_end(path, allocations):
            return
        level = self._levels[depth]
        resources = level.slot.resources
        suffix = level.slot.group.suffix
        mapped = mappings.get(suffix, ())
        isolated = level.isolated
        checked = bool(level.group_required or level.subtrees or not self.plan.nested)
        for provider in level.options:
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
        used = self.base.used(provider.uuid)
        for resource_class in self.plan.repeated & amounts.keys():
            inventory = provider.inventories[resource_class]
            amount = amounts[resource_class]
            if amount > inventory.max_unit or not inventory.has_room(
                used.get(resource_class, 0), amount
            ):
                return False
        return True

    # What depends on the providers chosen before

    def _fits(self, level: _Level, path: _Path) -> bool:
        """Whether the last provider of the path is compatible with those before it."""
        if not self.plan.nested and not self._is_flat(path):
            return False
        if level.group_required and not self._traits_possible(level, path):
            return False
        return all(self._subtree_possible(places, path) for places in level.subtrees)

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

    def _subtree_possible(self, places: tuple[int, ...], path: _Path) -> bool:
        """Whether one of the providers at ``places`` is, or still can be, an ancestor of all
        others.
        """
        depth = len(path)
        chosen = [path[place] for place in places if place < depth]
        if len(chosen) == 1:
            return True
        lineages = [self._lineage(uuid) for uuid in chosen]
        above = lineages[0].intersection(*lineages[1:])
        if not above.isdisjoint(chosen):
            return True
        if len(chosen) == len(places):
            return False
        return any(
            provider.uuid in above
            for place in places
            if place >= depth
            for provider in self._levels[place].options
        )

    def _lineage(self, uuid: str) -> frozenset[str]:
        """A provider and all its ancestors."""
        found = self._lineages.get(uuid)
        if found is None:
            above = []
            parent: str | None = uuid
            while parent is not None:
                above.append(parent)
                parent = self.base.providers[parent].parent_uuid
            found = self._lineages[uuid] = frozenset(above)
        return found

    # Looking ahead, when steps were in vain

    def _is_dead_end(self, path: _Path, allocations: _Allocations) -> bool:
        if self._steps_since_candidate == LOOKAHEAD_AFTER + 1:
            self._is_over = not self._can_complete((), {})
        if self._is_over:
            return True
        self.budget.take_step()
        return not self._can_complete(path, allocations)

    def _can_complete(
        self,
        path: _Path,
        allocations: _Allocations,
    ) -> bool:
        """Whether the remaining slots can be filled, by isolation and by each class separately."""
        ahead = self._levels[len(path) :]
        if self.plan.isolate:
            isolated = [level.options for level in ahead if level.isolated]
            if not _can_match(isolated, lambda provider: provider.uuid not in path):
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
        least = min(level.slot.resources[resource_class] for level in requesting)

        def uses(provider: record.ProviderRecord) -> int:
            inventory = provider.inventories[resource_class]
            taken = allocations.get(provider.uuid, {}).get(resource_class, 0)
            used = self.base.used(provider.uuid).get(resource_class, 0)
            room = min(inventory.max_unit, inventory.capacity - used) - taken
            return max(room, 0) // least

        return _can_match([level.options for level in requesting], uses)


def _levels(plan: plans.Plan, options: Mapping[plans.Slot, _Options]) -> list[_Level]:
    """The slots in search order.

    Suffixed groups first, because only they are isolated; then the slots with the fewest providers,
    so that dead ends show early.
    """
    slots = sorted(options, key=lambda slot: (not slot.group.suffix, len(options[slot])))
    places = {slot.group.suffix: place for place, slot in enumerate(slots)}
    return [
        _Level(
            slot,
            options[slot],
            isolated=plan.isolate and bool(slot.group.suffix),
            group_required=slot.group.group_required,
            subtrees=tuple(
                tuple(places[suffix] for suffix in suffixes)
                for suffixes in plan.subtrees
                if slot.group.suffix in suffixes
            ),
        )
        for slot in slots
    ]


def _can_match(choices: Sequence[_Options], uses: Callable[[record.ProviderRecord], int]) -> bool:
    """Whether each choice can have one of its providers, none used more than ``seats`` times.

    Bipartite matching by augmenting paths.
    """
    free: dict[str, int] = {}
    matched: dict[str, dict[int, None]] = {}
    return all(_augment(choice, choices, uses, free, matched) for choice in range(len(choices)))


def _augment(
    choice: int,
    choices: Sequence[_Options],
    uses: Callable[[record.ProviderRecord], int],
    free: dict[str, int],
    matched: dict[str, dict[int, None]],
) -> bool:
    """Match one more choice; rematches others if that helps."""
    # {uuid: the choice that wants this provider}, along the augmenting path.
    wanting_choice: dict[str, int] = {}
    matched_to: dict[int, str] = {}
    queue = [choice]
    for moving in queue:
        for provider in choices[moving]:
            uuid = provider.uuid
            if uuid in wanting_choice:
                continue
            wanting_choice[uuid] = moving
            if uuid not in free:
                free[uuid], matched[uuid] = int(uses(provider)), {}
            if free[uuid] > 0:
                free[uuid] -= 1
                _move(uuid, wanting_choice, matched_to, matched)
                return True
            for other in matched[uuid]:
                if other not in matched_to:
                    matched_to[other] = uuid
                    queue.append(other)
    return False


def _move(
    uuid: str,
    wanting_choice: Mapping[str, int],
    matched_to: Mapping[int, str],
    matched: Mapping[str, dict[int, None]],
) -> None:
    """Rematch all choices on the augmenting path."""
    while True:
        choice = wanting_choice[uuid]
        matched[uuid][choice] = None
        if choice not in matched_to:
            return
        uuid = matched_to[choice]
        del matched[uuid][choice]
