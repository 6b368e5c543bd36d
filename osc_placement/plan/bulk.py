"""Several changes in one request: all of them, halves after a refusal, in the end each alone.

So a culprit costs the others a few requests more and never their repair. Called by
``execute``, in its threads, for kinds that can be written together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.plan import attempt, change, journal, result
from osc_placement.plan.kinds import base

Ready = tuple[attempt.Attempt, base.Intent]


def settle_together(
    wanted: Sequence[change.Change],
    around: attempt.RunContext,
    known: Mapping[str, change.Observed],
) -> list[result.ChangeResult]:
    """Bring changes of one kind to their ends; ``known`` is ``{change key: what was read}``.

    Cost: one read for each that is not known, and one write for all; for each culprit
    among n about 2 log2(n) writes more, and then what ``settle`` costs.
    Errors: RunHalted, with every outcome, when no other change would fare better.
    """
    each = [attempt.Attempt(item, around, known.get(item.key)) for item in wanted]
    try:
        ready = [(one, intent) for one in each if (intent := one.ready())]
        _write(ready, around, around.kinds[wanted[0].kind].together)
    except attempt.RunHalted as halted:
        reason = f"not begun: {halted}"
        raise attempt.RunHalted(
            halted, [one.ended or one.not_begun(reason) for one in each]
        ) from halted
    return [one.ended or one.not_begun("the run was stopped") for one in each]


def _write(ready: Sequence[Ready], around: attempt.RunContext, by: base.BulkWrite | None) -> None:
    """One request for all that are ready, or fewer at a time until each has its outcome."""
    if around.stop.is_set():
        return
    if by is None or len(ready) < 2:
        for one, _ in ready:
            one.run()
        return
    _note(around, [one.beginning() for one, _ in ready])
    try:
        by.write(around.client, [intent for _, intent in ready])
    except errors.PlacementError as error:
        _refused(error, ready, around, by)
    else:
        for one, (item, _) in ready:
            one.written(item.after)
        _note(around, [one.ending() for one, _ in ready])


def _refused(
    error: errors.PlacementError,
    ready: Sequence[Ready],
    around: attempt.RunContext,
    by: base.BulkWrite,
) -> None:
    """Find the culprits by halves, or leave each to itself where halves would fare no better."""
    in_doubt = isinstance(error, api_errors.OutcomeUnknown | api_errors.UnexpectedResponse)
    if in_doubt or not isinstance(error, api_errors.ApiError) or error.status in (401, 403):
        for one, _ in ready:
            if not isinstance(error, api_errors.UnsupportedVersion):
                one.refused(in_doubt=in_doubt)
            one.run()
        return
    half = len(ready) // 2
    for part in (ready[:half], ready[half:]):
        if len(part) == 1:
            part[0][0].refused()
        _write(part, around, by)


def _note(around: attempt.RunContext, notes: Sequence[journal.Note]) -> None:
    """Tell the journal; when it cannot be told, these changes are the last ones."""
    try:
        around.journal.note(*notes)
    except journal.Unwritable as error:
        raise attempt.RunHalted(error, []) from error
