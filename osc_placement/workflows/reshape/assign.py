"""Deciding where every demand goes: each question put to ``assignment``, its answers in words.

Pure. What cannot get in each other's way is asked apart: other classes, other trees.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.workflows.reshape import consumers, resolve, snapshot
from osc_placement.workflows.reshape.assignment import demand as question, search

#: So long an assignment is looked for, in seconds, unless somebody says how long.
SECONDS = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class AssignOptions:
    """How to choose where evidence leaves a choice, and how many seconds to try."""

    strategy: question.Strategy | None = None
    seconds: float = SECONDS


def solve(
    demands: Sequence[consumers.Demand],
    seen: snapshot.TreeSnapshot,
    meant: resolve.Wanted,
    inventories: Mapping[str, inventory.Inventories],
    manner: AssignOptions,
    faults: errors.InputErrors,
) -> list[consumers.Placed]:
    """Where each demand goes; why some cannot be placed goes to ``faults``."""
    end = time.monotonic() + manner.seconds
    leaving = _leaving(demands)
    placed: list[consumers.Placed] = []
    for group in _groups(demands):
        asked = _Question(group, seen, meant, inventories, leaving)
        left = max(end - time.monotonic(), 0.1)
        placed += asked.answered(manner, left, faults)
    return placed


def _leaving(demands: Iterable[consumers.Demand]) -> dict[tuple[str, str], dict[str, int]]:
    """``{(provider, class): {consumer: amount}}`` of what is up for being placed."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for item in demands:
        for resource_class, amount in item.resources.items():
            of = found.setdefault((item.source, resource_class), {})
            of[item.consumer] = of.get(item.consumer, 0) + amount
    return found


def _groups(demands: Sequence[consumers.Demand]) -> list[list[consumers.Demand]]:
    """Demands of the same classes that could meet on a target, in their order."""
    groups: list[tuple[set[tuple[str, str]], list[consumers.Demand]]] = []
    of: dict[tuple[str, str], int] = {}
    for item in demands:
        places = {(option.target, name) for option in item.options for name in option.classes}
        met = sorted({of[place] for place in places if place in of})
        if not met:
            met = [len(groups)]
            groups.append((set(), []))
        first, *others = met
        for other in others:
            groups[first][0].update(groups[other][0])
            groups[first][1].extend(groups[other][1])
            groups[other][1].clear()
        groups[first][0].update(places)
        groups[first][1].append(item)
        of.update(dict.fromkeys(groups[first][0], first))
    return [group for _, group in groups if group]


class _Question:
    """Demands that may be in each other's way, as ``assignment`` wants them."""

    def __init__(
        self,
        demands: Sequence[consumers.Demand],
        seen: snapshot.TreeSnapshot,
        meant: resolve.Wanted,
        inventories: Mapping[str, inventory.Inventories],
        leaving: Mapping[tuple[str, str], Mapping[str, int]],
    ) -> None:
        self._demands, self._seen, self._meant = demands, seen, meant
        self._inventories, self._leaving = inventories, leaving
        self._forms = self._several_forms()

    def answered(
        self, manner: AssignOptions, seconds: float, faults: errors.InputErrors
    ) -> list[consumers.Placed]:
        """Everything placed, or nothing and a fault; ``seconds`` are those that are left."""
        rules = question.Rules(
            together=self._together(),
            strategy=manner.strategy,
        )
        asked = [
            question.Demand(item.consumer, _source(item), item.resources) for item in self._demands
        ]
        answer = search.assign(asked, self._targets(), rules, seconds)
        if isinstance(answer, question.Found):
            return [self._placed(item, answer, manner) for item in self._demands]
        faults.add(self._told(answer, manner))
        return []

    def _told(self, answer: question.Answer, manner: AssignOptions) -> str:
        classes = ", ".join(sorted({name for item in self._demands for name in item.resources}))
        sources = sorted({self._seen.name_of(item.source) for item in self._demands})
        what = f"the {classes} of {', '.join(sources)}"
        if isinstance(answer, question.Undecided):
            return (
                f"where {what} goes is not decided for these consumers: say so in assign, or"
                f" choose a --strategy: {', '.join(answer.consumers)}"
            )
        if isinstance(answer, question.Impossible):
            names = {target.name: self._called(target.name) for target in self._targets()}
            names |= {_source(item): self._from(item) for item in self._demands}
            reasons = "; ".join(_renamed(reason, names) for reason in answer.reasons)
            who = f"; these consumers do not fit: {', '.join(answer.consumers)}"
            return f"{what} cannot be placed: {reasons}{who if answer.consumers else ''}"
        return (
            f"gave up after {manner.seconds:g} seconds to look for places for {what}: none was"
            " found, and none was ruled out; assign some consumers"
        )

    def _called(self, target: str) -> str:
        uuid, _, classes = target.partition(" ")
        name = self._meant.nodes[uuid].provider.name
        return f"{name} ({classes})" if classes else name

    def _from(self, item: consumers.Demand) -> str:
        name = self._seen.name_of(item.source)
        if item.assigned is None:
            return name
        return f"{name}, assigned to {self._meant.nodes[item.assigned.target].provider.name},"

    def _several_forms(self) -> set[tuple[str, str]]:
        """``(target, class)`` of what may become one class or another on the same target."""
        forms: dict[tuple[str, str], set[str]] = {}
        for item in self._demands:
            for option in item.options:
                for name, there in zip(item.resources, option.classes, strict=True):
                    forms.setdefault((option.target, name), set()).add(there)
        return {place for place, becomes in forms.items() if len(becomes) > 1}

    def _name(self, item: consumers.Demand, option: consumers.Option) -> str:
        """A target is a provider; and where classes change on it, what they become."""
        forms = [
            there
            for name, there in zip(item.resources, option.classes, strict=True)
            if (option.target, name) in self._forms
        ]
        return f"{option.target} {','.join(forms)}".rstrip()

    def _placed(
        self, item: consumers.Demand, answer: question.Found, manner: AssignOptions
    ) -> consumers.Placed:
        key = question.Key(item.consumer, _source(item), next(iter(item.resources)))
        (target,) = answer.placed[key]
        option = next(one for one in item.options if self._name(item, one) == target)
        guessed = item.consumer in answer.guessed and item.assigned is None
        return consumers.Placed(item, option, str(manner.strategy) if guessed else "")

    def _together(self) -> frozenset[str]:
        return frozenset(
            name for item in self._demands if len(item.resources) > 1 for name in item.resources
        )

    def _targets(self) -> list[question.Target]:
        takes: dict[str, dict[str, set[str]]] = {}
        becomes: dict[str, dict[str, str]] = {}
        for item in self._demands:
            for option in item.options:
                target = self._name(item, option)
                sources = takes.setdefault(target, {})
                if item.assigned in (None, option):
                    sources.setdefault(_source(item), set()).update(item.resources)
                named = zip(item.resources, option.classes, strict=True)
                becomes.setdefault(target, {}).update(named)
        order = {
            (shift.target, shift.becomes): position
            for position, shift in enumerate(self._meant.shifts)
        }

        def rank(target: str) -> tuple[int, str]:
            uuid = target.partition(" ")[0]
            ranks = [order.get((uuid, there), len(order)) for there in becomes[target].values()]
            return min(ranks), target

        return [
            self._target(target, takes[target], becomes[target])
            for target in sorted(takes, key=rank)
        ]

    def _target(
        self,
        target: str,
        takes: Mapping[str, Iterable[str]],
        becomes: Mapping[str, str],
    ) -> question.Target:
        """A target as it is filled without what is up for being placed."""
        uuid = target.partition(" ")[0]
        offered = self._inventories[uuid]
        known = self._seen.nodes.get(uuid)
        used: dict[str, int] = {}
        held: dict[str, dict[str, int]] = {}
        for name, there in becomes.items():
            leaving = self._leaving.get((uuid, there), {})
            total = known.used.get(there, 0) if known is not None else 0
            used[name] = total - sum(leaving.values())
            for consumer, amount in self._kept(uuid, there, leaving).items():
                held.setdefault(consumer, {})[name] = amount
        return question.Target(
            target,
            {name: offered[there] for name, there in becomes.items() if there in offered},
            {source: frozenset(classes) for source, classes in takes.items()},
            used,
            held,
        )

    def _kept(self, uuid: str, resource_class: str, leaving: Mapping[str, int]) -> dict[str, int]:
        """What consumers that move have on a target already, and keep."""
        moving = {item.consumer for item in self._demands}
        return {
            consumer: amount
            for consumer, amount in self._seen.holding(uuid, resource_class).items()
            if consumer in moving and consumer not in leaving
        }


def _source(item: consumers.Demand) -> str:
    """Classes that stay together come from a place of their own, and so does what is assigned."""
    assigned = [item.assigned.target, *item.assigned.classes] if item.assigned else []
    return " ".join([item.source, *item.resources, *assigned])


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text
