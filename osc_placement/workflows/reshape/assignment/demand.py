"""The question of an assignment, and its answers, as values.

Targets are called by any name that the caller likes, such as a UUID.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, NamedTuple

from osc_placement.model import inventory

#: How to choose where the rules leave a choice.
#:
#: * ``pack``: as few targets as possible, filled in the order given, large amounts first.
#: * ``spread``: the fullest target as empty as possible, then evenly.
#: * ``same-order``: the consumers by UUID to the targets in the order given, never going
#:   back to one that was left.
#:
#: A preference yields where nothing else fits: what can be placed is placed.
Strategy = Literal["pack", "spread", "same-order"]

STRATEGIES: tuple[Strategy, ...] = ("pack", "spread", "same-order")


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """What a consumer has on one source, of the classes that move: ``{class: amount}``."""

    consumer: str
    source: str
    resources: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A provider that amounts can go to.

    ``inventories`` is what it will offer, ``used`` what others have of it by then, ``{class:
    amount}``. ``takes`` says which moves lead here, ``{source: classes}``. ``held`` is what
    consumers that move have here already, and keep: ``{consumer: {class: amount}}``; it
    is part of ``used``.
    """

    name: str
    inventories: inventory.Inventories
    takes: Mapping[str, frozenset[str]]
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    held: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)

    def room(self, resource_class: str) -> int:
        """How much is free, in units of the class; 0 of what it does not offer."""
        offered = self.inventories.get(resource_class)
        return max(0, offered.capacity - self.used.get(resource_class, 0)) if offered else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What an assignment must keep to, and what decides where it leaves a choice.

    ``together`` are classes that a consumer has on the same target if it has them on the
    same source. Any amount stays whole, as Placement never gives a class of one request
    group from two providers. What evidence has decided comes from a source of its own, to
    which one target alone is open.
    """

    together: frozenset[str] = frozenset()
    strategy: Strategy | None = None


class Key(NamedTuple):
    """One amount that moves: a consumer's, of one class on one source."""

    consumer: str
    source: str
    resource_class: str


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """Where everything goes: ``{key: {target: amount}}``, each to one target.

    ``guessed`` are the consumers that could as well be elsewhere: a strategy chose.
    """

    placed: Mapping[Key, Mapping[str, int]]
    guessed: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """It fits in more than one way, and nothing decides for these consumers; sorted."""

    consumers: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Impossible:
    """Proved: it does not fit.

    Without ``consumers`` (sorted) the others fit; ``reasons`` are sentences.
    """

    consumers: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GaveUp:
    """Neither found nor proved impossible within this many seconds."""

    seconds: float


Answer = Found | Undecided | Impossible | GaveUp
