"""Takes one of several possible allocations if it is certain, or if the operator decides. Pure.

A choice that is not certain is marked as guessed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from osc_placement.model import allocation
from osc_placement.plan import change, reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations.capacity import FreeCapacity
from osc_placement.workflows.allocations.expected import Expected, Option
from osc_placement.workflows.allocations.request import PACK, HealOptions

_SHOWN = 3
_DECIDES = "placement allocation heal --assign or --strategy decides"


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The option taken, and how it was ``guessed`` if it is not certain; or why there is none."""

    option: Option | None = None
    guessed: str = ""
    why_not: Reason = reasons.NONE


def choose(
    server_uuid: str,
    expected: Expected,
    free: FreeCapacity,
    options: HealOptions,
    names: change.Names,
) -> Choice:
    """The option for one server, of those for which there is capacity."""
    if not expected.options:
        return Choice(why_not=expected.why_none)
    shortages = [free.shortages(option.allocations) for option in expected.options]
    fitting = [
        option for option, short in zip(expected.options, shortages, strict=True) if not short
    ]
    if not fitting:
        return Choice(why_not=reasons.first_of(min(shortages, key=len)))
    assigned = options.assigned.get(server_uuid)
    if assigned is not None:
        return _assigned(assigned, fitting, names)
    if len(fitting) == 1 and not expected.doubts:
        return Choice(fitting[0])
    doubts = list(expected.doubts)
    if len(fitting) > 1:
        doubts.insert(0, f"it is on {_alternatives(fitting, names)}")
    if options.strategy is None:
        text = f"ambiguous: {'; '.join(doubts)} ({_DECIDES})"
        return Choice(why_not=Reason(Code.AMBIGUOUS, text))
    return Choice(_by_strategy(options.strategy, fitting, free), guessed=options.strategy)


def _assigned(assigned: frozenset[str], fitting: Sequence[Option], names: change.Names) -> Choice:
    matching = [
        option
        for option in fitting
        if assigned <= {*option.allocations, *(names.get(uuid) for uuid in option.allocations)}
    ]
    if len(matching) == 1:
        return Choice(matching[0], guessed="as assigned")
    text = ", ".join(sorted(names.get(each, each) for each in assigned))
    if not matching:
        why_not = f"it cannot be on {text}, only on {_alternatives(fitting, names)}"
        return Choice(why_not=Reason(Code.NOT_POSSIBLE, why_not))
    why_not = f"ambiguous: on {text} it is on {_alternatives(matching, names)} (assign more)"
    return Choice(why_not=Reason(Code.AMBIGUOUS, why_not))


def _by_strategy(strategy: str, fitting: Sequence[Option], free: FreeCapacity) -> Option:
    """The first of the best; allocations that all options have in common do not count."""
    utilizations = [free.utilization(_distinctive(option, fitting)) for option in fitting]
    best: Callable[[list[float]], float] = max if strategy == PACK else min
    return fitting[utilizations.index(best(utilizations))]


def _distinctive(option: Option, options: Sequence[Option]) -> dict[str, allocation.Resources]:
    """The allocations of an option that another option does not have."""
    return {
        uuid: resources
        for uuid, resources in option.allocations.items()
        if any(each.allocations.get(uuid) != resources for each in options)
    }


def _alternatives(options: Sequence[Option], names: change.Names) -> str:
    """``gpu0 or gpu1``: the providers by which options differ; all providers of a single one."""
    texts = []
    for option in options:
        uuids = _distinctive(option, options) or option.allocations
        texts.append(" and ".join(sorted(names.get(uuid, uuid) for uuid in uuids)))
    more = len(texts) - _SHOWN
    shown = texts[:_SHOWN] + ([f"one of {more} more"] if more > 0 else [])
    return " or ".join(dict.fromkeys(shown))
