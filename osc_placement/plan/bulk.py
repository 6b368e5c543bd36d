"""Several changes in one request: all of them, then halves after a refusal, then each alone.

One bad change delays the others but never blocks them. Called by ``executor``, in its
threads, for kinds with a bulk write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.plan import attempt, change as change_module, journal, result
from osc_placement.plan.kinds import base, registry

Prepared = tuple[attempt.Attempt, base.Write[Any]]


def apply_bulk(
    changes: Sequence[change_module.Change],
    context: attempt.RunContext,
    known: Mapping[str, change_module.Observed[Any]],
) -> list[result.ChangeResult]:
    """Apply changes of one kind; ``known`` is ``{change key: the state that planning read}``.

    Requests: one read for each that is not known, and one write for all; for each bad change
    among n about 2 log2(n) more writes, and then those of ``apply_change``.
    Errors: RunHalted, with every result, when every other change would fail too.
    """
    attempts = [attempt.Attempt(item, context, known.get(item.key)) for item in changes]
    try:
        prepared = [(one, write) for one in attempts if (write := one.prepare())]
        _write(prepared, context, registry.CHANGE_TYPES[changes[0].kind])
    except attempt.RunHalted as halted:
        reason = f"not begun: {halted}"
        raise attempt.RunHalted(
            halted, [one.result or one.not_begun(reason) for one in attempts]
        ) from halted
    return [one.result or one.not_begun("the run was stopped") for one in attempts]


def _write(
    prepared: Sequence[Prepared], context: attempt.RunContext, kind: base.ChangeType[Any]
) -> None:
    """One request for all, or for fewer at a time until each has its result."""
    if context.stop.is_set():
        return
    if len(prepared) < 2:
        for one, _ in prepared:
            one.run()
        return
    _note(context, [one.begin_note() for one, _ in prepared])
    try:
        kind.write_bulk(context.services, [write for _, write in prepared])
    except errors.PlacementError as error:
        _divide(error, prepared, context, kind)
    else:
        for one, write in prepared:
            one.applied(write.after)
        _note(context, [one.end_note() for one, _ in prepared])


def _divide(
    error: errors.PlacementError,
    prepared: Sequence[Prepared],
    context: attempt.RunContext,
    kind: base.ChangeType[Any],
) -> None:
    """Find the bad changes by halves, or apply each alone where halves would fail too."""
    in_doubt = isinstance(error, api_errors.OutcomeUnknown | api_errors.UnexpectedResponse)
    status = error.status if isinstance(error, api_errors.ApiError) else None
    if in_doubt or status is None or status in api_errors.ACCESS_DENIED:
        for one, _ in prepared:
            if not isinstance(error, api_errors.UnsupportedVersion):
                one.read_again(in_doubt=in_doubt)
            one.run()
        return
    half = len(prepared) // 2
    for part in (prepared[:half], prepared[half:]):
        if len(part) == 1:
            part[0][0].read_again()
        _write(part, context, kind)


def _note(context: attempt.RunContext, notes: Sequence[journal.Note]) -> None:
    """Write to the journal; without a journal no other change begins."""
    try:
        context.journal.note(*notes)
    except journal.Unwritable as error:
        raise attempt.RunHalted(error, []) from error
