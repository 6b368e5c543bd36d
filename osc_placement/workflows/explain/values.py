"""The parts of an explanation, as values."""

from __future__ import annotations

import dataclasses

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
    conditions other than amounts. ``detail`` has the amounts of a condition between groups.
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
    detail: str = ""
