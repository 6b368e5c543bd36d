"""The input of an assignment, and its answers, as values.

Targets have any name that the caller chooses, such as a UUID.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, NamedTuple

from osc_placement.model import inventory

#: How to choose where the rules leave a choice.
#:
#: * ``pack``: use as few targets as possible, in the given order, large amounts first.
#: * ``spread``: keep the fullest target as empty as possible, then fill all evenly.
#: * ``in-order``: assign consumers by UUID to targets in the given order, without returning to
#:   an earlier target.
#:
#: A strategy is a preference: it yields where it would leave an amount unplaced.
Strategy = Literal["pack", "spread", "in-order"]


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """The amounts of one consumer on one source that move: ``{class: amount}``."""

    consumer: str
    source: str
    resources: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A provider that can receive amounts.

    ``inventories`` are its inventories after the reshape, and ``used`` is the usage that remains
    there, ``{class: amount}``. ``accepts`` lists the moves to it, ``{source: classes}``.
    ``held`` is the part of ``used`` that belongs to moving consumers: ``{consumer: {class:
    amount}}``.
    """

    name: str
    inventories: inventory.Inventories
    accepts: Mapping[str, frozenset[str]]
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    held: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)

    def free(self, resource_class: str) -> int:
        """The unused capacity of a class; 0 for a class without inventory."""
        offered = self.inventories.get(resource_class)
        return max(0, offered.capacity - self.used.get(resource_class, 0)) if offered else 0

    def held_by(self, consumer: str, resource_class: str) -> int:
        """The amount that a moving consumer already has here and keeps."""
        return self.held.get(consumer, {}).get(resource_class, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The constraints of an assignment, and the strategy for what they leave open.

    A consumer's ``together`` classes of one source go to one target. An amount is never
    split, because Placement never serves a class of one request group from two providers.
    For an amount with a known target, use a source of its own that this target alone accepts.
    """

    together: frozenset[str] = frozenset()
    strategy: Strategy | None = None


class Key(NamedTuple):
    """One amount that moves: one consumer, one source, one class."""

    consumer: str
    source: str
    resource_class: str


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The target of each amount: ``{key: {target: amount}}``, one target per key.

    ``guessed`` are the consumers for which the strategy chose among several possible targets.
    """

    placed: Mapping[Key, Mapping[str, int]]
    guessed: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """These consumers (sorted) have several possible targets, and no strategy is set."""

    consumers: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Impossible:
    """Proved: not all amounts fit.

    All other consumers fit without ``consumers`` (sorted); ``reasons`` are sentences.
    """

    consumers: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GaveUp:
    """Neither solved nor proved impossible within this many seconds."""

    seconds: float


Answer = Found | Undecided | Impossible | GaveUp
