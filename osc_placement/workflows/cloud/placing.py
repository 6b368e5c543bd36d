"""An option for each of several requests, so that all fit together; or a proof that there is none.

First each request takes the first option that fits, the largest requests first. If that fails, a
search depth first decides. Three rules keep it small: of equal trees only one is tried, a state
that failed is remembered, and a state is left as soon as a class has less free than the rest needs.
Pure.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from osc_placement.engine.candidates import budget as budgets
from osc_placement.workflows.cloud import packing
from osc_placement.workflows.cloud.packing import Amounts, Option, Slot

#: ``{request: its option}``
Placement = Mapping[str, Option]


def place(
    requests: Mapping[str, Hashable],
    options: Mapping[Hashable, Sequence[Option]],
    free: Amounts,
    budget: budgets.SearchBudget,
) -> Placement | None:
    """An option for each request; None if it is proved that none exists.

    ``requests`` is ``{name: kind}``; requests of one kind have the same ``options``. Raises the
    errors of ``budget``.
    """
    order = _large_first(requests, options, free)
    found = first_fit(order, requests, options, free)
    if len(found) == len(requests):
        return found
    if shortage(requests, options, free):
        return None
    return _Search(order, requests, options, free, budget).run()


def first_fit(
    order: Iterable[str],
    requests: Mapping[str, Hashable],
    options: Mapping[Hashable, Sequence[Option]],
    free: Amounts,
) -> Placement:
    """The requests that fit one after the other, each with the fullest providers that fit."""
    left = dict(free)
    rest = {
        kind: iter(sorted(each, key=lambda option: _room(option, left)))
        for kind, each in options.items()
    }
    current: dict[Hashable, Option | None] = {kind: next(each, None) for kind, each in rest.items()}
    found: dict[str, Option] = {}
    for name in order:
        kind = requests[name]
        # An option that does not fit now does not fit later: amounts only decrease.
        while (option := current[kind]) is not None and not option.fits(left):
            current[kind] = next(rest[kind], None)
        if option is not None:
            found[name] = option
            _take(option, left, 1)
    return found


def shortage(
    requests: Mapping[str, Hashable],
    options: Mapping[Hashable, Sequence[Option]],
    free: Amounts,
) -> str:
    """Why the requests cannot fit together, if an amount shows it; else an empty text."""
    counts = collections.Counter(requests.values())
    for kind, number in counts.items():
        fitting = packing.most(options[kind], free, effort=0).most
        if number > fitting:
            return f"{number} of the servers are alike, and at most {fitting} of them fit"
    for name, (needed, usable) in _needed_and_usable(counts, options, free).items():
        if needed > usable:
            return f"{needed} {name} are needed, and there is room for {usable}"
    return ""


def _needed_and_usable(
    counts: Mapping[Hashable, int],
    options: Mapping[Hashable, Sequence[Option]],
    free: Amounts,
) -> dict[str, tuple[int, int]]:
    """``{class: (what all requests need, what is free in their slots in suitable units)}``."""
    every = [option for kind in counts for option in options[kind]]
    units = packing.units(option.amounts for option in every)
    usable: collections.Counter[str] = collections.Counter()
    for slot in packing.slots_of(every):
        usable[slot[1]] += max(free[slot], 0) // units[slot[1]] * units[slot[1]]
    needed: collections.Counter[str] = collections.Counter()
    for kind, number in counts.items():
        if options[kind]:
            for name, amount in packing.totals(options[kind][0]).items():
                needed[name] += number * amount
    return {name: (amount, usable[name]) for name, amount in needed.items()}


def _large_first(
    requests: Mapping[str, Hashable],
    options: Mapping[Hashable, Sequence[Option]],
    free: Amounts,
) -> list[str]:
    """The requests, those first that need the largest share of a class and have few options."""
    largest: dict[str, int] = {}
    for (_, name), amount in free.items():
        largest[name] = max(largest.get(name, 1), amount)
    ranks: dict[Hashable, tuple[float, int, int]] = {}
    for kind in dict.fromkeys(requests.values()):
        amounts = packing.totals(options[kind][0]) if options[kind] else {}
        share = max((amount / largest[name] for name, amount in amounts.items()), default=0.0)
        ranks[kind] = (-share, len(options[kind]), len(ranks))
    return sorted(requests, key=lambda name: (ranks[requests[name]], name))


def _room(option: Option, left: Amounts) -> int:
    return option.repeats(left)


def _take(option: Option, left: dict[Slot, int], sign: int) -> None:
    for slot, amount in option.amounts.items():
        left[slot] -= sign * amount


class _Search:
    """The search for requests in a fixed order."""

    def __init__(
        self,
        order: Sequence[str],
        requests: Mapping[str, Hashable],
        options: Mapping[Hashable, Sequence[Option]],
        free: Amounts,
        budget: budgets.SearchBudget,
    ) -> None:
        self._order, self._requests, self._budget = order, requests, budget
        self._options = {kind: options[kind] for kind in dict.fromkeys(requests.values())}
        self._free, self._left = free, dict(free)
        self._trees = _Trees(self._options)
        self._path: list[Option] = []
        self._used: collections.Counter[str] = collections.Counter()
        self._failed: set[Hashable] = set()
        self._totals: collections.Counter[str] = collections.Counter()
        every = (option for each in self._options.values() for option in each)
        for slot in packing.slots_of(every):
            self._totals[slot[1]] += max(free[slot], 0)
        self._needed = self._remainders()

    def run(self) -> Placement | None:
        steps = [self._step()]
        while steps:
            self._budget.step()
            if len(self._path) == len(self._order):
                return dict(zip(self._order, self._path, strict=True))
            state, choices = steps[-1]
            option = next(choices, None)
            if option is not None:
                self._put(option)
                steps.append(self._step())
                continue
            steps.pop()
            self._failed.add(state)
            if self._path:
                self._remove()
        return None

    def _remainders(self) -> list[Mapping[str, int]]:
        """What the requests from each position on need, per class."""
        needed: list[Mapping[str, int]] = [{}]
        for name in reversed(self._order):
            more = collections.Counter(needed[-1])
            more.update(packing.totals(self._options[self._requests[name]][0]))
            needed.append(more)
        return needed[::-1]

    def _step(self) -> tuple[Hashable, Iterator[Option]]:
        """The state, and the options to try for the next request, the fullest providers first."""
        at = len(self._path)
        if at == len(self._order):
            return (), iter(())
        state = (at, self._state())
        short = any(self._totals[name] < amount for name, amount in self._needed[at].items())
        if short or state in self._failed:
            return state, iter(())
        distinct: dict[Hashable, Option] = {}
        kind = self._requests[self._order[at]]
        for option in self._options[kind]:
            self._budget.step()
            if option.fits(self._left):
                distinct.setdefault(self._trees.key(kind, option, self._left), option)
        return state, iter(sorted(distinct.values(), key=lambda each: _room(each, self._left)))

    def _state(self) -> Hashable:
        """The trees in use, apart from their names, and what is left of shared slots."""
        changed = sorted(self._trees.change(root, self._free, self._left) for root in self._used)
        return tuple(changed), self._trees.shared_left(self._left)

    def _put(self, option: Option) -> None:
        self._path.append(option)
        self._count(option, 1)

    def _remove(self) -> None:
        self._count(self._path.pop(), -1)

    def _count(self, option: Option, sign: int) -> None:
        _take(option, self._left, sign)
        self._used[option.root_uuid] += sign
        if not self._used[option.root_uuid]:
            del self._used[option.root_uuid]
        for (_, name), amount in option.amounts.items():
            self._totals[name] -= sign * amount


class _Trees:
    """Which trees are interchangeable: equal options of every request, equal amounts left."""

    def __init__(self, options: Mapping[Hashable, Sequence[Option]]) -> None:
        users: dict[Slot, set[str]] = {}
        for each in options.values():
            for option in each:
                for slot in option.amounts:
                    users.setdefault(slot, set()).add(option.root_uuid)
        self._shared = [slot for slot, roots in users.items() if len(roots) > 1]
        shared = set(self._shared)
        self._slots: dict[str, dict[Slot, int]] = {}
        forms: dict[str, list[Hashable]] = {}
        self._places: dict[tuple[Hashable, int], int] = {}
        counts: collections.Counter[tuple[Hashable, str]] = collections.Counter()
        for kind, each in options.items():
            for option in each:
                root = option.root_uuid
                slots = self._slots.setdefault(root, {})
                for slot in option.amounts:
                    if slot not in shared:
                        slots.setdefault(slot, len(slots))
                form = tuple((slots.get(s, s), amount) for s, amount in option.amounts.items())
                forms.setdefault(root, []).append((kind, form))
                self._places[kind, id(option)] = counts[kind, root]
                counts[kind, root] += 1
        numbers: dict[Hashable, int] = {}
        self._forms = {
            root: numbers.setdefault(tuple(form), len(numbers)) for root, form in forms.items()
        }

    def key(self, kind: Hashable, option: Option, left: Amounts) -> Hashable:
        """Equal for options whose choice has the same effect."""
        root = option.root_uuid
        place = self._places[kind, id(option)]
        return self._forms[root], place, tuple(left[slot] for slot in self._slots[root])

    def change(
        self, root: str, free: Amounts, left: Amounts
    ) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The form of a tree, and its amounts at first and now."""
        slots = self._slots[root]
        return (
            self._forms[root],
            tuple(free[slot] for slot in slots),
            tuple(left[slot] for slot in slots),
        )

    def shared_left(self, left: Amounts) -> tuple[int, ...]:
        """What is left of the slots that several trees use."""
        return tuple(left[slot] for slot in self._shared)
