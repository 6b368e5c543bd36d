"""Assigning a target to each demand: builds the input of ``assignment``, and explains its answers.

Pure. Demands that cannot compete for a target, of other classes or trees, are assigned separately.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.workflows.reshape import consumers, resolve, snapshot
from osc_placement.workflows.reshape.assignment import demand as question, search

LOG = logging.getLogger(__name__)

#: The default time limit in seconds.
TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class AssignOptions:
    """The strategy where evidence leaves a choice, and the time limit in seconds."""

    strategy: question.Strategy | None = None
    timeout: float = TIMEOUT


def assign(
    demands: Sequence[consumers.Demand],
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    inventories: Mapping[str, inventory.Inventories],
    options: AssignOptions,
    problems: errors.InputErrors,
) -> list[consumers.Placed]:
    """The target of each demand. Why demands cannot be placed is added to ``problems``."""
    end = time.monotonic() + options.timeout
    moving: dict[resolve.Place, dict[str, int]] = {}
    for demand in demands:
        for resource_class, amount in demand.resources.items():
            held = moving.setdefault((demand.source, resource_class), {})
            held[demand.consumer] = held.get(demand.consumer, 0) + amount
    placed: list[consumers.Placed] = []
    for group in _groups(demands):
        LOG.debug("assigning targets to %d allocations", len(group))
        one = _Question(group, before, resolved, inventories, moving)
        placed += one.answer(options, max(end - time.monotonic(), 0.1), problems)
    return placed


def _groups(demands: Iterable[consumers.Demand]) -> list[list[consumers.Demand]]:
    """Groups of demands that can compete for the same class on a target."""
    groups: list[tuple[set[resolve.Place], list[consumers.Demand]]] = []
    group_of: dict[resolve.Place, int] = {}
    for demand in demands:
        places = {(option.target, name) for option in demand.options for name in option.classes}
        met = sorted({group_of[place] for place in places if place in group_of})
        if not met:
            met = [len(groups)]
            groups.append((set(), []))
        first, *others = met
        for other in others:
            groups[first][0].update(groups[other][0])
            groups[first][1].extend(groups[other][1])
            groups[other][1].clear()
        groups[first][0].update(places)
        groups[first][1].append(demand)
        group_of.update(dict.fromkeys(groups[first][0], first))
    return [group for _, group in groups if group]


class _Question:
    """Demands that can compete, as input of ``assignment``.

    A target is a provider. Where a class can become several classes on the same provider, it is
    a provider with the new classes: ``<uuid> <classes>``.
    """

    def __init__(
        self,
        demands: Sequence[consumers.Demand],
        before: snapshot.TreeSnapshot,
        resolved: resolve.Resolved,
        inventories: Mapping[str, inventory.Inventories],
        moving: Mapping[resolve.Place, Mapping[str, int]],
    ) -> None:
        self._demands, self._before, self._resolved = demands, before, resolved
        self._inventories, self._moving = inventories, moving
        becomes: dict[resolve.Place, set[str]] = {}
        for demand in demands:
            for option in demand.options:
                for name, there in zip(demand.resources, option.classes, strict=True):
                    becomes.setdefault((option.target, name), set()).add(there)
        self._ambiguous = {place for place, classes in becomes.items() if len(classes) > 1}

    def answer(
        self, options: AssignOptions, seconds: float, problems: errors.InputErrors
    ) -> list[consumers.Placed]:
        """All demands placed; or none, and the reason in ``problems``."""
        together = frozenset(
            name for each in self._demands if len(each.resources) > 1 for name in each.resources
        )
        inputs = [
            question.Demand(each.consumer, _source(each), each.resources) for each in self._demands
        ]
        rules = question.Rules(together, options.strategy)
        answer = search.assign(inputs, self._targets(), rules, seconds)
        if isinstance(answer, question.Found):
            return [self._placed(each, answer, options) for each in self._demands]
        problems.add(self._explain(answer, options))
        return []

    def _explain(self, answer: question.Answer, options: AssignOptions) -> str:
        classes = ", ".join(sorted({name for each in self._demands for name in each.resources}))
        sources = sorted({self._before.name_of(each.source) for each in self._demands})
        what = f"the {classes} of {', '.join(sources)}"
        if isinstance(answer, question.Undecided):
            return (
                f"{what} has several possible targets for these consumers: assign them, or"
                f" choose a --strategy: {', '.join(answer.consumers)}"
            )
        if isinstance(answer, question.Impossible):
            names = {target.name: self._target_name(target.name) for target in self._targets()}
            names |= {_source(each): self._source_name(each) for each in self._demands}
            reasons = "; ".join(_replace_names(reason, names) for reason in answer.reasons)
            misfits = f"; these consumers do not fit: {', '.join(answer.consumers)}"
            return f"{what} cannot be placed: {reasons}{misfits if answer.consumers else ''}"
        return (
            f"gave up the search for targets for {what} after {options.timeout:g} seconds, without"
            " a solution or a proof that there is none; assign some consumers"
        )

    def _target_name(self, target: str) -> str:
        uuid, _, classes = target.partition(" ")
        name = self._resolved.name_of(uuid)
        return f"{name} ({classes})" if classes else name

    def _source_name(self, demand: consumers.Demand) -> str:
        name = self._before.name_of(demand.source)
        if demand.assigned is None:
            return name
        return f"{name}, assigned to {self._resolved.name_of(demand.assigned.target)},"

    def _target_of(self, demand: consumers.Demand, option: consumers.Option) -> str:
        classes = [
            there
            for name, there in zip(demand.resources, option.classes, strict=True)
            if (option.target, name) in self._ambiguous
        ]
        return f"{option.target} {','.join(classes)}".rstrip()

    def _placed(
        self, demand: consumers.Demand, answer: question.Found, options: AssignOptions
    ) -> consumers.Placed:
        key = question.Key(demand.consumer, _source(demand), next(iter(demand.resources)))
        (target,) = answer.placed[key]
        option = next(each for each in demand.options if self._target_of(demand, each) == target)
        is_guess = demand.consumer in answer.guessed and demand.assigned is None
        return consumers.Placed(demand, option, str(options.strategy) if is_guess else "")

    def _targets(self) -> list[question.Target]:
        """The targets in the order of the document's moves."""
        accepts: dict[str, dict[str, set[str]]] = {}
        becomes: dict[str, dict[str, str]] = {}
        for demand in self._demands:
            for option in demand.options:
                target = self._target_of(demand, option)
                sources = accepts.setdefault(target, {})
                if demand.assigned in (None, option):
                    sources.setdefault(_source(demand), set()).update(demand.resources)
                pairs = zip(demand.resources, option.classes, strict=True)
                becomes.setdefault(target, {}).update(pairs)
        order = {move.destination: at for at, move in enumerate(self._resolved.moves)}

        def rank(target: str) -> tuple[int, str]:
            uuid = target.partition(" ")[0]
            ranks = [order.get((uuid, there), len(order)) for there in becomes[target].values()]
            return min(ranks), target

        return [
            self._target(target, accepts[target], becomes[target])
            for target in sorted(accepts, key=rank)
        ]

    def _target(
        self, target: str, accepts: Mapping[str, Iterable[str]], becomes: Mapping[str, str]
    ) -> question.Target:
        """A target with the usage that does not move."""
        uuid = target.partition(" ")[0]
        node = self._before.nodes.get(uuid)
        competing = {demand.consumer for demand in self._demands}
        used: dict[str, int] = {}
        held: dict[str, dict[str, int]] = {}
        for name, there in becomes.items():
            moving = self._moving.get((uuid, there), {})
            total = node.used.get(there, 0) if node is not None else 0
            used[name] = total - sum(moving.values())
            for consumer, amount in self._before.consumers_of(uuid, there).items():
                if consumer in competing and consumer not in moving:
                    held.setdefault(consumer, {})[name] = amount
        offered = self._inventories[uuid]
        return question.Target(
            target,
            {name: offered[there] for name, there in becomes.items() if there in offered},
            {source: frozenset(classes) for source, classes in accepts.items()},
            used,
            held,
        )


def _source(demand: consumers.Demand) -> str:
    """Classes that stay together, and assigned amounts, have a source of their own."""
    assigned = [demand.assigned.target, *demand.assigned.classes] if demand.assigned else []
    return " ".join([demand.source, *demand.resources, *assigned])


def _replace_names(text: str, names: Mapping[str, str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text
