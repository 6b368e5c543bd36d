"""What a kind of change is: how it is read and written, and what guards it.

Called by ``attempt`` and ``bulk``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Sequence

from osc_placement.client import api
from osc_placement.plan import change

Reader = Callable[[api.Client, change.Change], change.Observed]
Writer = Callable[[api.Client, change.Change, change.Observed], change.Observed]
Guard = Callable[[api.Client, change.Change, change.Observed, Collection[str]], list[str]]
Intent = tuple[change.Change, change.Observed]


@dataclasses.dataclass(frozen=True, slots=True)
class BulkWrite:
    """How several changes go out in one request, all or none of them.

    ``group``: changes with an equal key may share a request, at most ``size`` of them.
    ``write`` sends it.
    """

    group: Callable[[change.Change], Hashable]
    write: Callable[[api.Client, Sequence[Intent]], None]
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeType:
    """``read`` and ``write`` send one request each and tell how it is; ``refusals`` at most one.

    Only a reshape is read by more (two for each provider and one for each consumer), and a
    provider that goes is looked at by three.
    ``refusals`` are asked when the thing is no longer at the generation it was planned on.
    ``together`` is there for kinds of which one request can write many. ``assumed`` tells
    what need not be read, since a write is refused where it is not so. ``in_parts``: it takes
    several requests, so that a cut connection or a kill may leave it between two states.
    """

    read: Reader
    write: Writer
    refusals: Guard | None = None
    together: BulkWrite | None = None
    assumed: Callable[[change.Change], change.Observed | None] | None = None
    in_parts: bool = False
