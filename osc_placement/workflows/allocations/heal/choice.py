"""Taking one of several answers, if it can be told or the operator decides. Pure.

Called by ``heal``. What is decided without knowing is marked as guessed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from osc_placement.model import allocation
from osc_placement.plan import change
from osc_placement.workflows.allocations import capacity, expected

PACK, SPREAD = "pack", "spread"
STRATEGIES = (PACK, SPREAD)

_SHOWN = 3
_DECIDES = "--assign or --strategy decides"


@dataclasses.dataclass(frozen=True, slots=True)
class HealOptions:
    """How the operator decides: ``assigned`` is ``{server uuid: names or UUIDs of providers}``.

    ``strategy`` is for those that are not assigned: ``pack`` takes the providers that are
    the fullest, ``spread`` the emptiest, and both take what hides in an image not to be there.
    """

    strategy: str | None = None
    assigned: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """What a server gets, ``guessed`` telling by what it was decided; or why it gets nothing."""

    option: expected.Option | None = None
    guessed: str = ""
    why_not: str = ""


def choose(
    server_uuid: str,
    found: expected.Expected,
    free: capacity.Room,
    wish: HealOptions,
    names: change.Names,
) -> Choice:
    """The answer for one server, of those for which there is room."""
    if not found.options:
        return Choice(why_not=found.why_none)
    lacking: list[list[str]] = [free.lacking(each.allocations) for each in found.options]
    fitting = [each for each, lacks in zip(found.options, lacking, strict=True) if not lacks]
    if not fitting:
        return Choice(why_not="; ".join(sorted(lacking, key=len)[0]))
    named = wish.assigned.get(server_uuid)
    if named is not None:
        return _assigned(named, fitting, names)
    if len(fitting) == 1 and not found.doubts:
        return Choice(fitting[0])
    told = list(found.doubts)
    if len(fitting) > 1:
        told.insert(0, f"it is on {_listed(fitting, names)}")
    if wish.strategy is None:
        return Choice(why_not=f"ambiguous: {'; '.join(told)} ({_DECIDES})")
    return Choice(_by_strategy(wish.strategy, fitting, free), guessed=wish.strategy)


def _assigned(
    named: frozenset[str], fitting: Sequence[expected.Option], names: change.Names
) -> Choice:
    kept = [
        each
        for each in fitting
        if named <= {*each.allocations, *(names.get(uuid) for uuid in each.allocations)}
    ]
    if len(kept) == 1:
        return Choice(kept[0], guessed="as assigned")
    wanted = ", ".join(sorted(names.get(word, word) for word in named))
    if not kept:
        return Choice(why_not=f"it cannot be on {wanted}, only on {_listed(fitting, names)}")
    return Choice(why_not=f"ambiguous: on {wanted} it is on {_listed(kept, names)} (assign more)")


def _by_strategy(
    strategy: str, fitting: Sequence[expected.Option], free: capacity.Room
) -> expected.Option:
    """The first of the best; what all have in common does not count."""
    parts = [_peculiar(each, fitting) for each in fitting]
    shares = [free.share_of(part) for part in parts]
    best: Callable[[list[float]], float] = max if strategy == PACK else min
    return fitting[shares.index(best(shares))]


def _peculiar(
    one: expected.Option, every: Sequence[expected.Option]
) -> dict[str, allocation.Resources]:
    return {
        uuid: resources
        for uuid, resources in one.allocations.items()
        if any(each.allocations.get(uuid) != resources for each in every)
    }


def _listed(options: Sequence[expected.Option], names: change.Names) -> str:
    """``gpu0 or gpu1``: by what the options differ; the whole of a single one."""
    told = []
    for each in options:
        uuids = _peculiar(each, options) or each.allocations
        told.append(" and ".join(sorted(names.get(uuid, uuid) for uuid in uuids)))
    more = len(told) - _SHOWN
    shown = told[:_SHOWN] + ([f"one of {more} more"] if more > 0 else [])
    return " or ".join(dict.fromkeys(shown))
