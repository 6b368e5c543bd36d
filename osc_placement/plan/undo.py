"""The plan that takes a plan back: pure."""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.plan import change, journal, plan, result

_IRREVERSIBLE = "it cannot be taken back: {}"

#: Of the plan's own fields, what an undo plan keeps when it is cut down.
_KEPT = ("command", "target", "microversion", "created", "allow", "undoes", "names")
_NOT_APPLIED = "it was never applied here"

#: States of a change that there may be something to take back of.
_APPLIED = frozenset({journal.State.APPLIED, *journal.IN_DOUBT, journal.State.UNDONE})


def inverse(made: plan.Plan, entries: Mapping[str, journal.Entry] | None = None) -> plan.Plan:
    """The plan that takes ``made`` back.

    With ``entries``, the journal's, only what was applied, to what it really replaced;
    without, all of it. What cannot be taken back, or was not applied, is left alone.
    """
    return plan.make(
        [_inverse(item, entries) for item in made.changes],
        command=f"undo of: {made.command}",
        target=made.target,
        microversion=made.microversion,
        created=made.created,
        allow=made.allow,
        undoes=made.digest,
        names=made.names,
    )


def restricted(made: plan.Plan, entries: Mapping[str, journal.Entry]) -> plan.Plan:
    """An undo plan without what the journal of its original knows as never applied.

    Without a journal (on another machine) the plan is all there is: it stays as it is.
    """
    if not entries:
        return made
    kept, alone = [], []
    for item in made.changes:
        entry = entries.get(item.key)
        applied = entry is not None and entry.state in _APPLIED
        kept += [item] if applied else []
        alone += [] if applied else [_left_alone(item.inverse(), _NOT_APPLIED)]
    return plan.make([*kept, *made.remarks, *alone]).replace(
        **{name: getattr(made, name) for name in _KEPT}
    )


def of_outcomes(made: plan.Plan, outcomes: tuple[result.ChangeResult, ...]) -> plan.Plan:
    """The plan that takes back what a run really changed, and nothing else."""
    applied = {
        (item.kind, item.subject): item.before
        for item in outcomes
        if item.status is result.Status.APPLIED
    }
    changes = tuple(
        item.replace(before=applied[item.kind, item.subject])
        for item in made.changes
        if (item.kind, item.subject) in applied
    )
    return inverse(made.replace(changes=changes)).replace(undoes=made.digest)


def _inverse(
    item: change.Change, entries: Mapping[str, journal.Entry] | None
) -> change.Change | change.Skipped:
    if item.irreversible:
        reason = _IRREVERSIBLE.format(item.irreversible)
        return _left_alone(item, reason)
    if entries is None:
        return item.inverse()
    entry = entries.get(item.key)
    if entry is None or entry.state not in _APPLIED:
        return _left_alone(item, _NOT_APPLIED)
    return item.replace(before=entry.before or item.before).inverse()


def _left_alone(item: change.Change, reason: str) -> change.Skipped:
    return change.Skipped(item.kind, item.subject, item.after, item.before, reason)
