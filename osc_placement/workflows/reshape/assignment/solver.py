"""The proofs: whether lots that are not placed yet fit beside those that are.

Interchangeable lots are counted, not told apart, so that symmetry costs nothing. Only
this module imports Z3; nothing here prefers anything.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import z3

from osc_placement.workflows.reshape.assignment import deadline, item as assignment_item


class Solver:
    """Asks Z3 about one problem, many times."""

    def __init__(self, problem: assignment_item.Problem, until: deadline.Deadline) -> None:
        self._problem = problem
        self._until = until
        # Of its own, so that what was asked before does not show in the answers.
        self._context = z3.Context()

    def complete(
        self, fixed: assignment_item.Placement, effort: int = 0
    ) -> assignment_item.Placement | None:
        """A way to place all lots beside those that are ``fixed``.

        None when there is none, or when ``effort`` (0: any) did not suffice. Raises OutOfTime.
        """
        counted = collections.Counter(
            (self._problem.lots[index].kind, target) for index, target in fixed.items()
        )
        least = [self._counts[kind][target] >= number for (kind, target), number in counted.items()]
        return self._placement(fixed) if self._ask(least, effort) else None

    def differently(
        self, known: assignment_item.Placement, kinds: Iterable[assignment_item.Kind]
    ) -> assignment_item.Placement | None:
        """Another way in which one of these kinds is placed otherwise; None: there is none.

        Raises OutOfTime.
        """
        counted = collections.Counter(
            (self._problem.lots[index].kind, target) for index, target in known.items()
        )
        other = [
            count != counted[kind, target]
            for kind in kinds
            for target, count in self._counts[kind].items()
        ]
        return self._placement({}) if self._ask([z3.Or(other)], 0) else None

    def _ask(self, conditions: Iterable[Any], effort: int) -> bool:
        """Whether it can be; what could not be told with the effort counts as no."""
        solver = self._solver
        solver.push()
        try:
            solver.add(*conditions)
            solver.set("rlimit", effort)
            solver.set("timeout", max(1, int(self._until.left() * 1000)))
            answer = solver.check()
            self._until.left()
            if answer == z3.sat:
                self._model = solver.model()
        finally:
            solver.pop()
        if answer == z3.unknown and not effort:
            raise deadline.OutOfTime
        return bool(answer == z3.sat)

    def _placement(self, fixed: assignment_item.Placement) -> assignment_item.Placement:
        """The model, with the lots of each kind told apart again."""
        placed = dict(fixed)
        for kind, indexes in self._problem.kinds.items():
            open_lots = iter([index for index in indexes if index not in fixed])
            taken = collections.Counter(fixed[index] for index in indexes if index in fixed)
            for target, count in self._counts[kind].items():
                number = self._model.eval(count, model_completion=True).as_long()
                for _ in range(number - taken[target]):
                    placed[next(open_lots)] = target
        return placed

    @functools.cached_property
    def _counts(self) -> Mapping[assignment_item.Kind, Mapping[int, Any]]:
        """How many lots of a kind go to a target, as Z3 knows it."""
        return {
            kind: {target: z3.Int(f"{number}@{target}", self._context) for target in kind.options}
            for number, kind in enumerate(self._problem.kinds)
        }

    @functools.cached_property
    def _solver(self) -> z3.Solver:
        solver = z3.Solver(ctx=self._context)
        for kind, counts in self._counts.items():
            size = len(self._problem.kinds[kind])
            solver.add(*(count >= 0 for count in counts.values()))
            solver.add(*(count <= size for count in counts.values()))
            solver.add(z3.Sum(list(counts.values())) == size)
        solver.add(*self._capacities(), *self._units(), *self._few_targets())
        return solver

    def _capacities(self) -> Iterable[Any]:
        rows: dict[tuple[int, str], list[Any]] = {}
        for kind, counts in self._counts.items():
            for target, count in counts.items():
                for name, amount in kind.resources:
                    rows.setdefault((target, name), []).append(amount * count)
        for (target, name), row in rows.items():
            yield z3.Sum(row) <= self._problem.rooms[target].get(name, 0)

    def _units(self) -> Iterable[Any]:
        """Units of the sums that consumers with several lots have."""
        rows: dict[tuple[str, str, int], list[Any]] = {}
        for kind, counts in self._counts.items():
            if kind.owner is None:
                continue
            for index, count in counts.items():
                for name, amount in kind.resources:
                    rows.setdefault((kind.owner[0], name, index), []).append(amount * count)
        for (consumer, name, index), row in rows.items():
            target = self._problem.targets[index]
            offered = target.inventories[name]
            amount = z3.Sum(row)
            total = amount + assignment_item.held(target, consumer, name)
            suits = [total >= offered.min_unit, total <= offered.max_unit]
            if offered.step_size > 1:
                suits.append(total % offered.step_size == 0)
            yield z3.Or(amount == 0, z3.And(suits))

    def _few_targets(self) -> Iterable[Any]:
        if self._problem.most_targets is None:
            return
        used = []
        for target in range(len(self._problem.targets)):
            counts = [item[target] for item in self._counts.values() if target in item]
            if counts:
                flag = z3.Bool(f"used@{target}", self._context)
                used.append(flag)
                yield z3.Implies(z3.Sum(counts) > 0, flag)
        yield z3.AtMost(*used, self._problem.most_targets)
