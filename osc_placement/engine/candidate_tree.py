"""The candidates of one provider tree, and the sharing providers within its reach.

``walk`` fills the slots of a plan one after the other, depth first, and hands out each
candidate as it is complete. What is known to be in vain is not tried, so that the first
candidates of a wide tree come at once, however many there are in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from osc_placement.engine import candidate_plan, errors, record, state
from osc_placement.model import allocation
from osc_placement.model.candidate import Candidate

#: Steps without a candidate after which it is worth to look ahead before each step.
PATIENCE = 50
#: Steps with looking ahead, and still in vain, after which a search is given up.
MAX_VAIN_STEPS = 100_000

_Options = Sequence[record.ProviderRecord]
_Path = tuple[record.ProviderRecord, ...]
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


class Walk:
    """One search through one tree: ``options`` are the providers that suit each slot."""

    def __init__(
        self,
        base: state.State,
        plan: candidate_plan.Plan,
        root_uuid: str,
        options: Mapping[candidate_plan.Slot, _Options],
        effort: Effort,
    ) -> None:
        self.base = base
        self.plan = plan
        self.root_uuid = root_uuid
        # Suffixed groups first, so that a path is what isolation is about; then the
        # scarcest, so that what cannot be shows soon.
        self.slots = sorted(options, key=lambda slot: (not slot.group.suffix, len(options[slot])))
        self.options = [options[slot] for slot in self.slots]
        self.effort = effort
        self._vain = 0
        self._is_over = False
        self._lineages: dict[str, frozenset[str]] = {}
        self._places = {slot.group.suffix: place for place, slot in enumerate(self.slots)}

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate of the tree, once."""
        return self._fill((), {}, {})

    def _fill(
        self,
        path: _Path,
        allocations: dict[str, allocation.Resources],
        mappings: _Mappings,
    ) -> Iterator[Candidate]:
        depth = len(path)
        slot = self.slots[depth]
        suffix = slot.group.suffix
        isolated = self.plan.isolate and bool(suffix)
        checked = self._checks(slot)
        last = depth + 1 == len(self.slots)
        self._vain += 1
        if self._vain > PATIENCE and self._is_in_vain(path, allocations):
            return
        for provider in self.options[depth]:
            if isolated and provider in path:
                continue
            if checked and not self._fits_path(slot, provider, path):
                continue
            uuid = provider.uuid
            amounts = slot.resources
            if uuid in allocations:
                amounts = allocation.add_resources(allocations[uuid], amounts)
                if not self._has_room(provider, amounts):
                    continue
            mapped = mappings.get(suffix, ())
            now_mapped = {**mappings, suffix: mapped if uuid in mapped else (*mapped, uuid)}
            now_allocated = {**allocations, uuid: amounts} if amounts else allocations
            if last:
                self._vain = 0
                yield Candidate(self.root_uuid, now_allocated, now_mapped)
            else:
                yield from self._fill((*path, provider), now_allocated, now_mapped)

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

    def _checks(self, slot: candidate_plan.Slot) -> bool:
        return (
            not self.plan.nested
            or bool(slot.group.together)
            or any(slot.group.suffix in suffixes for suffixes in self.plan.subtrees)
        )

    def _fits_path(
        self,
        slot: candidate_plan.Slot,
        provider: record.ProviderRecord,
        path: _Path,
    ) -> bool:
        if not self.plan.nested:
            for other in path:
                if other.root_uuid == provider.root_uuid and other is not provider:
                    return False
        path = (*path, provider)
        if slot.group.together and not self._traits_possible(slot.group, path):
            return False
        for suffixes in self.plan.subtrees:
            if slot.group.suffix in suffixes and not self._subtree_possible(suffixes, path):
                return False
        return True

    def _traits_possible(self, group: candidate_plan.Group, path: _Path) -> bool:
        """Whether what the group requires in sum is there, or can still come."""
        chosen = [p for p, slot in zip(path, self.slots, strict=False) if slot.group is group]
        to_come = [p for options in self.options[len(path) :] for p in options]
        for any_of in group.together:
            if all(provider.traits.isdisjoint(any_of) for provider in chosen) and all(
                provider.traits.isdisjoint(any_of) for provider in to_come
            ):
                return False
        return True

    def _subtree_possible(self, suffixes: frozenset[str], path: _Path) -> bool:
        """Whether one provider of these groups is, or can still be, above all of them."""
        places = [self._places[suffix] for suffix in suffixes]
        chosen = [path[place].uuid for place in places if place < len(path)]
        above = frozenset.intersection(*(self._lineage(uuid) for uuid in chosen))
        if any(uuid in above for uuid in chosen):
            return True
        return any(
            provider.uuid in above
            for place in places
            if place >= len(path)
            for provider in self.options[place]
        )

    def _lineage(self, uuid: str) -> frozenset[str]:
        """A provider and all above it."""
        found = self._lineages.get(uuid)
        if found is None:
            parent = self.base.providers[uuid].parent_uuid
            above = frozenset[str]() if parent is None else self._lineage(parent)
            found = self._lineages[uuid] = above | {uuid}
        return found

    # Looking ahead, when steps were in vain

    def _is_in_vain(self, path: _Path, allocations: Mapping[str, allocation.Resources]) -> bool:
        if self._vain == PATIENCE + 1:
            self._is_over = not self._is_hopeful((), {})
        if self._is_over:
            return True
        self.effort.take_step()
        return not self._is_hopeful(path, allocations)

    def _is_hopeful(
        self,
        path: _Path,
        allocations: Mapping[str, allocation.Resources],
    ) -> bool:
        """Whether the slots left can be filled, seen by isolation and by each class alone."""
        ahead = range(len(path), len(self.slots))
        if self.plan.isolate:
            isolated = [place for place in ahead if self.slots[place].group.suffix]
            if not _can_seat([self.options[place] for place in isolated], lambda p: p not in path):
                return False
        return all(
            self._class_is_hopeful(resource_class, ahead, allocations)
            for resource_class in self.plan.repeated
        )

    def _class_is_hopeful(
        self, resource_class: str, ahead: range, allocations: Mapping[str, allocation.Resources]
    ) -> bool:
        asking = [p for p in ahead if resource_class in self.slots[p].resources]
        if not asking:
            return True
        least = min(self.slots[place].resources[resource_class] for place in asking)

        def seats(provider: record.ProviderRecord) -> int:
            inventory = provider.inventories[resource_class]
            taken = allocations.get(provider.uuid, {}).get(resource_class, 0)
            used = self.base.used(provider.uuid).get(resource_class, 0)
            room = min(inventory.max_unit, inventory.capacity - used) - taken
            return max(room, 0) // least

        return _can_seat([self.options[place] for place in asking], seats)


def _can_seat(choices: Sequence[_Options], seats: Callable[[record.ProviderRecord], int]) -> bool:
    """Whether each choice can have one of its providers, none taken more than ``seats`` times.

    Bipartite matching by augmenting paths.
    """
    seated: dict[str, list[int]] = {}

    def seat(guest: int, asked: set[str]) -> bool:
        for provider in choices[guest]:
            if provider.uuid in asked:
                continue
            asked.add(provider.uuid)
            here = seated.setdefault(provider.uuid, [])
            if len(here) < seats(provider):
                here.append(guest)
                return True
            for chair, other in enumerate(here):
                if seat(other, asked):
                    here[chair] = guest
                    return True
        return False

    return all(seat(guest, set()) for guest in range(len(choices)))
