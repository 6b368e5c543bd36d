"""The candidates of one provider tree, and the sharing providers within its reach.

``walk`` fills the slots of a plan one after the other, depth first, and hands out each
candidate as it is complete. What is known to be in vain is not tried, so that the first
candidates of a wide tree come at once, however many there are in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement.engine import errors, record, state
from osc_placement.engine.candidates import plan as plans
from osc_placement.model import allocation
from osc_placement.model.candidate import Candidate

#: Steps without a candidate after which it is worth to look ahead before each step.
LOOKAHEAD_AFTER = 50
#: Steps with looking ahead, and still in vain, after which a search is given up.
MAX_VAIN_STEPS = 100_000

_Options = Sequence[record.ProviderRecord]
_Path = tuple[str, ...]
_Allocations = dict[str, allocation.Resources]
_Mappings = dict[str, tuple[str, ...]]


class TooManyCandidates(errors.EngineError):
    """The answer has more candidates than the caller is ready to take."""

    text = "There are more than {max_candidates} allocation candidates. Give a limit."


class SearchTooLong(TooManyCandidates):
    """The groups of a query hinder each other so much that the search was given up."""

    text = "No further allocation candidate was found in {steps} steps. Ask for less at once."


class Effort:
    """What one search may still spend, over all trees, on steps that are in vain."""

    def __init__(self) -> None:
        self.steps = 0

    def take_step(self) -> None:
        """Count one step; raises SearchTooLong for the last."""
        self.steps += 1
        if self.steps > MAX_VAIN_STEPS:
            raise SearchTooLong(steps=MAX_VAIN_STEPS)


class _Level(NamedTuple):
    """A slot, at the depth at which it is filled, and what stands in the way of filling it."""

    slot: plans.Slot
    options: _Options
    isolated: bool
    together: tuple[frozenset[str], ...]
    subtrees: tuple[tuple[int, ...], ...]


class Walk:
    """One search through one tree: ``options`` are the providers that suit each slot."""

    def __init__(
        self,
        base: state.State,
        plan: plans.Plan,
        root_uuid: str,
        options: Mapping[plans.Slot, _Options],
        effort: Effort,
    ) -> None:
        self.base = base
        self.plan = plan
        self.root_uuid = root_uuid
        self.effort = effort
        self._levels = _levels(plan, options)
        self._vain = 0
        self._is_over = False
        self._lineages: dict[str, frozenset[str]] = {}

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate of the tree, once."""
        root_uuid = self.root_uuid
        # A stack and no recursion: a query may have more groups than Python has frames.
        stack = [self._fill(0, (), {}, {})]
        while stack:
            if len(stack) == len(self._levels):
                for _, allocations, mappings in stack.pop():
                    self._vain = 0
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
        """Every way to go on from what is filled so far, by one slot."""
        self._vain += 1
        if self._vain > LOOKAHEAD_AFTER and self._is_in_vain(path, allocations):
            return
        level = self._levels[depth]
        resources = level.slot.resources
        suffix = level.slot.group.suffix
        mapped = mappings.get(suffix, ())
        isolated = level.isolated
        checked = bool(level.together or level.subtrees or not self.plan.nested)
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
                if not self._has_room(provider, amounts):
                    continue
            yield (
                now_path,
                {**allocations, uuid: amounts} if amounts else allocations,
                {**mappings, suffix: mapped if uuid in mapped else (*mapped, uuid)},
            )

    def _has_room(self, provider: record.ProviderRecord, amounts: allocation.Resources) -> bool:
        """Whether several slots may take ``amounts`` in all from one provider."""
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
        """Whether the last of the path may stand beside those before it."""
        if not self.plan.nested and not self._is_flat(path):
            return False
        if level.together and not self._traits_possible(level, path):
            return False
        return all(self._subtree_possible(places, path) for places in level.subtrees)

    def _is_flat(self, path: _Path) -> bool:
        providers = self.base.providers
        last = path[-1]
        root_uuid = providers[last].root_uuid
        return all(uuid == last or providers[uuid].root_uuid != root_uuid for uuid in path)

    def _traits_possible(self, level: _Level, path: _Path) -> bool:
        """Whether what the group requires in sum is there, or can still come."""
        there: set[str] = set()
        for uuid, other in zip(path, self._levels, strict=False):
            if other.slot.group is level.slot.group:
                there |= self.base.providers[uuid].traits
        missing = [any_of for any_of in level.together if there.isdisjoint(any_of)]
        for other in self._levels[len(path) :] if missing else ():
            for provider in other.options:
                there |= provider.traits
        return not any(there.isdisjoint(any_of) for any_of in missing)

    def _subtree_possible(self, places: tuple[int, ...], path: _Path) -> bool:
        """Whether one provider of these places is, or can still be, above all of them."""
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
        """A provider and all above it."""
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

    def _is_in_vain(self, path: _Path, allocations: _Allocations) -> bool:
        if self._vain == LOOKAHEAD_AFTER + 1:
            self._is_over = not self._is_hopeful((), {})
        if self._is_over:
            return True
        self.effort.take_step()
        return not self._is_hopeful(path, allocations)

    def _is_hopeful(
        self,
        path: _Path,
        allocations: _Allocations,
    ) -> bool:
        """Whether the slots left can be filled, seen by isolation and by each class alone."""
        ahead = self._levels[len(path) :]
        if self.plan.isolate:
            isolated = [level.options for level in ahead if level.isolated]
            if not _can_seat(isolated, lambda provider: provider.uuid not in path):
                return False
        return all(
            self._class_is_hopeful(resource_class, ahead, allocations)
            for resource_class in self.plan.repeated
        )

    def _class_is_hopeful(
        self, resource_class: str, ahead: Sequence[_Level], allocations: _Allocations
    ) -> bool:
        asking = [level for level in ahead if resource_class in level.slot.resources]
        if not asking:
            return True
        least = min(level.slot.resources[resource_class] for level in asking)

        def seats(provider: record.ProviderRecord) -> int:
            inventory = provider.inventories[resource_class]
            taken = allocations.get(provider.uuid, {}).get(resource_class, 0)
            used = self.base.used(provider.uuid).get(resource_class, 0)
            room = min(inventory.max_unit, inventory.capacity - used) - taken
            return max(room, 0) // least

        return _can_seat([level.options for level in asking], seats)


def _levels(plan: plans.Plan, options: Mapping[plans.Slot, _Options]) -> list[_Level]:
    """The slots in the order in which they are filled.

    Suffixed groups first, so that a path is what isolation is about; then the scarcest, so that
    what cannot be shows soon.
    """
    slots = sorted(options, key=lambda slot: (not slot.group.suffix, len(options[slot])))
    places = {slot.group.suffix: place for place, slot in enumerate(slots)}
    return [
        _Level(
            slot,
            options[slot],
            isolated=plan.isolate and bool(slot.group.suffix),
            together=slot.group.together,
            subtrees=tuple(
                tuple(places[suffix] for suffix in suffixes)
                for suffixes in plan.subtrees
                if slot.group.suffix in suffixes
            ),
        )
        for slot in slots
    ]


def _can_seat(choices: Sequence[_Options], seats: Callable[[record.ProviderRecord], int]) -> bool:
    """Whether each choice can have one of its providers, none taken more than ``seats`` times.

    Bipartite matching by augmenting paths.
    """
    free: dict[str, int] = {}
    seated: dict[str, dict[int, None]] = {}
    return all(_seat(guest, choices, seats, free, seated) for guest in range(len(choices)))


def _seat(
    guest: int,
    choices: Sequence[_Options],
    seats: Callable[[record.ProviderRecord], int],
    free: dict[str, int],
    seated: dict[str, dict[int, None]],
) -> bool:
    """Find one guest a seat, moving others where that helps."""
    # Who would have to move from where so that a guest can sit: {uuid: guest who wants in}.
    wanted_by: dict[str, int] = {}
    sits_at: dict[int, str] = {}
    waiting = [guest]
    for moving in waiting:
        for provider in choices[moving]:
            uuid = provider.uuid
            if uuid in wanted_by:
                continue
            wanted_by[uuid] = moving
            if uuid not in free:
                free[uuid], seated[uuid] = int(seats(provider)), {}
            if free[uuid] > 0:
                free[uuid] -= 1
                _move(uuid, wanted_by, sits_at, seated)
                return True
            for other in seated[uuid]:
                if other not in sits_at:
                    sits_at[other] = uuid
                    waiting.append(other)
    return False


def _move(
    uuid: str,
    wanted_by: Mapping[str, int],
    sits_at: Mapping[int, str],
    seated: Mapping[str, dict[int, None]],
) -> None:
    """Let everyone on the way to the free seat move up by one."""
    while True:
        guest = wanted_by[uuid]
        seated[uuid][guest] = None
        if guest not in sits_at:
            return
        uuid = sits_at[guest]
        del seated[uuid][guest]
