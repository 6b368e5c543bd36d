"""The parts of an explanation, as values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from osc_placement.engine.candidates.report import Reason
from osc_placement.model.constraint import Constraint
from osc_placement.model.inventory import Inventory


@dataclasses.dataclass(frozen=True, slots=True)
class FunnelStep:
    """A constraint, and the number of hosts that meet it and all constraints before it."""

    constraint: Constraint
    hosts: int


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A condition that a host fails.

    ``provider`` is the provider that fails it, None if it is the whole tree that does. ``suffix``
    is the request group, None for conditions on the root and between groups. ``names`` are the
    class, traits, aggregates or suffixes. ``free`` may be negative. ``inventory`` is None for
    conditions other than amounts, and for amounts that were not read.
    """

    host: str
    reason: Reason
    suffix: str | None = None
    provider: str | None = None
    names: tuple[str, ...] = ()
    requested: int | None = None
    free: int | None = None
    used: int | None = None
    inventory: Inventory | None = None


class Action(enum.StrEnum):
    """How a change makes room."""

    RELAX = "relax"
    FREE = "free"
    RAISE = "raise"


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change that gives candidates.

    RELAX changes the query: ``removed`` are the constraints without which, and ``amounts`` the
    largest amounts instead of the requested ones with which, ``hosts`` hosts can serve it; an
    amount is None if it was not determined. FREE and RAISE change the ``provider``: free an
    ``amount`` of a ``resource_class`` that is used there, or raise its capacity by it.
    """

    action: Action
    hosts: int
    removed: tuple[Constraint, ...] = ()
    amounts: Mapping[Constraint, int | None] = dataclasses.field(default_factory=dict)
    provider: str | None = None
    resource_class: str | None = None
    amount: int | None = None
