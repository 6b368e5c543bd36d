"""Which requests fit together into free amounts. Pure.

A request has options: each takes amounts from some providers, and one is chosen. ``most`` counts
how often a request fits. ``placing`` finds an option for each of several requests.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

#: ``(provider uuid, resource class)``
Slot = tuple[str, str]

#: ``{slot: amount}``
Amounts = Mapping[Slot, int]

#: Options that ``most`` examines in a part of the cloud before it gives a bound.
EFFORT = 200_000

#: Options of a part of the cloud up to which ``most`` searches.
_MOST_OPTIONS = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One way to serve a request, with resources of the tree ``root_uuid`` or shared with it.

    ``is_of_host``: that tree serves the request. Otherwise sharing providers serve it alone, and
    ``root_uuid`` is the tree of one of them.
    """

    root_uuid: str
    amounts: Amounts
    is_of_host: bool = True

    def fits(self, left: Amounts) -> bool:
        """Whether the amounts are free."""
        return all(amount <= left[slot] for slot, amount in self.amounts.items())

    def repeats(self, left: Amounts) -> int:
        """How often the option fits."""
        return min(max(left[slot], 0) // amount for slot, amount in self.amounts.items())


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """How many requests fit: at least ``least``, at most ``most``.

    ``chosen`` are the options of ``least`` requests, each with its number.
    """

    least: int
    most: int
    chosen: Sequence[tuple[Option, int]] = ()

    @property
    def is_exact(self) -> bool:
        """Whether both bounds are equal."""
        return self.least == self.most


def most(options: Iterable[Option], free: Amounts, effort: int = EFFORT) -> Count:
    """How often a request fits, if each time one of its options is chosen.

    The answer is exact for options of separate providers. Options that compete for a provider are
    searched until ``effort``; then the answer is a bound.
    """
    least, upper = 0, 0
    chosen: list[tuple[Option, int]] = []
    for part in separate_parts(options):
        found = _Part(part, free, effort).count()
        least, upper = least + found.least, upper + found.most
        chosen += found.chosen
    return Count(least, upper, tuple(chosen))


def separate_parts(options: Iterable[Option]) -> list[list[Option]]:
    """The options in parts that have no slot in common."""
    parent: dict[Slot, Slot] = {}

    def find(slot: Slot) -> Slot:
        while parent[slot] != slot:
            parent[slot] = parent[parent[slot]]
            slot = parent[slot]
        return slot

    known = list(options)
    for option in known:
        first, *others = option.amounts
        parent.setdefault(first, first)
        for slot in others:
            parent.setdefault(slot, slot)
            parent[find(slot)] = find(first)
    parts: dict[Slot, list[Option]] = {}
    for option in known:
        parts.setdefault(find(next(iter(option.amounts))), []).append(option)
    return list(parts.values())


class _Part:
    """Options that compete for providers. Branch and bound over how often each is chosen."""

    def __init__(self, options: Sequence[Option], free: Amounts, effort: int) -> None:
        slots = {slot for option in options for slot in option.amounts}
        self._left = {slot: free[slot] for slot in slots}
        # Options that need the smallest share of what is free leave the most for the others. The
        # order of the options must not matter.
        self._options = sorted(
            options, key=lambda each: (self._share(each), sorted(each.amounts.items()))
        )
        self._totals = totals(self._options[0])
        self._units = units(option.amounts for option in options)
        self._effort = effort
        self._numbers = [0] * len(options)
        self._best: tuple[int, ...] = ()

    def _share(self, option: Option) -> float:
        return sum(amount / max(self._left[slot], 1) for slot, amount in option.amounts.items())

    def count(self) -> Count:
        upper = self._bound(0)
        self._fill(0, upper, greedy=True)
        if sum(self._best) < upper and len(self._options) <= _MOST_OPTIONS:
            self._fill(0, upper, greedy=False)
            if self._effort > 0:
                upper = sum(self._best)
        pairs = zip(self._options, self._best, strict=True)
        return Count(sum(self._best), upper, tuple((each, n) for each, n in pairs if n))

    def _fill(self, index: int, enough: int, *, greedy: bool) -> None:
        """Choose how often to use the options from ``index`` on, and keep the best choice."""
        if greedy:
            for at, option in enumerate(self._options):
                self._use(at, option.repeats(self._left))
            self._best = tuple(self._numbers)
            for at, number in enumerate(self._numbers):
                self._use(at, -number)
            return
        done = sum(self._numbers[:index])
        if index == len(self._options):
            if done > sum(self._best):
                self._best = tuple(self._numbers)
            return
        self._effort -= len(self._options) - index
        for number in range(self._options[index].repeats(self._left), -1, -1):
            if self._effort <= 0 or sum(self._best) >= enough:
                return
            self._use(index, number)
            if done + number + self._bound(index + 1) > sum(self._best):
                self._fill(index + 1, enough, greedy=False)
            self._use(index, -number)

    def _use(self, index: int, number: int) -> None:
        self._numbers[index] += number
        for slot, amount in self._options[index].amounts.items():
            self._left[slot] -= number * amount

    def _bound(self, index: int) -> int:
        """The most that may fit with the options from ``index`` on."""
        options = self._options[index:]
        alone = sum(option.repeats(self._left) for option in options)
        slots = {slot for option in options for slot in option.amounts}
        usable = dict.fromkeys(self._totals, 0)
        for slot in slots:
            unit = self._units[slot[1]]
            usable[slot[1]] += max(self._left[slot], 0) // unit * unit
        return min(
            alone, *(usable[name] // amount for name, amount in self._totals.items() if amount)
        )


def totals(option: Option) -> dict[str, int]:
    """``{resource class: amount}``, equal for all options of a request."""
    found: dict[str, int] = {}
    for (_, name), amount in option.amounts.items():
        found[name] = found.get(name, 0) + amount
    return found


def units(requests: Iterable[Amounts]) -> dict[str, int]:
    """``{resource class: the greatest common divisor of its amounts}``.

    What is free beyond a multiple of it cannot be used.
    """
    found: dict[str, int] = {}
    for amounts in requests:
        for (_, name), amount in amounts.items():
            found[name] = math.gcd(found.get(name, 0), amount)
    return found


def slots_of(options: Iterable[Option]) -> Collection[Slot]:
    """All slots that some option uses."""
    return {slot for option in options for slot in option.amounts}
