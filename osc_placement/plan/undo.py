"""The plan that undoes a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from osc_placement.plan import (
    change as change_module,
    journal,
    plan as plan_module,
    reasons,
    result,
)
from osc_placement.plan.kinds import registry

#: The begin of the command of an undo plan.
COMMAND = "undo of: "

_IRREVERSIBLE = "it cannot be undone: {}"
_NOT_APPLIED = reasons.Reason(reasons.Code.NOT_APPLIED, "it was never applied here")

#: States of a change that undo may have to restore.
_APPLIED = frozenset({journal.State.APPLIED, *journal.IN_DOUBT, journal.State.UNDONE})

Entries = Mapping[str, journal.Entry]


def inverse(plan: plan_module.Plan, entries: Entries | None = None) -> plan_module.Plan:
    """The plan that undoes ``plan``.

    With the entries of its journal, only what was applied, to the states that it replaced;
    without, all of it. What cannot be undone, or was not applied, is skipped.
    """
    return _plan_of(plan, [_inverse(item, entries) for item in plan.changes])


def _plan_of(
    plan: plan_module.Plan, items: Sequence[change_module.Change | change_module.Skipped]
) -> plan_module.Plan:
    """The plan of these items that undoes ``plan``, or a part of it."""
    return plan_module.make(
        items,
        command=f"{COMMAND}{plan.command}",
        target=plan.target,
        identity=plan.identity,
        origin=plan.origin,
        microversion=plan.microversion,
        created=plan.created,
        allow=plan.allow,
        undoes=plan.digest,
        names=plan.names,
    )


def restricted(plan: plan_module.Plan, entries: Entries) -> plan_module.Plan:
    """An undo plan without the changes that the journal of its original lists as not applied.

    Without a journal (on another machine) the plan is returned unchanged.
    """
    if not entries:
        return plan
    kept, skipped = [], [*plan.skipped]
    for item in plan.changes:
        if _was_applied(entries.get(item.key)):
            kept.append(item)
        else:
            skipped.append(_skipped(item, _NOT_APPLIED))
    skipped.sort(key=change_module.Skipped.sort_key)
    return dataclasses.replace(
        plan, changes=tuple(kept), skipped=tuple(skipped), relative=False, notes=(), capacities={}
    )


def of_results(
    plan: plan_module.Plan, results: tuple[result.ChangeResult, ...]
) -> plan_module.Plan:
    """The plan that undoes what a run applied, and nothing else."""
    applied = {
        (item.kind, item.subject): item.before
        for item in results
        if item.status is result.Status.APPLIED and item.before is not None
    }
    changes = [
        dataclasses.replace(item, before=applied[item.kind, item.subject])
        for item in plan.changes
        if (item.kind, item.subject) in applied
    ]
    return _plan_of(plan, [_inverse(item, None) for item in changes])


def _inverse(
    change: change_module.Change, entries: Entries | None
) -> change_module.Change | change_module.Skipped:
    undo = change.inverse()
    if change.irreversible:
        text = _IRREVERSIBLE.format(change.irreversible)
        return _skipped(undo, reasons.Reason(reasons.Code.IRREVERSIBLE, text))
    if entries is None:
        return undo
    entry = entries.get(change.key)
    if entry is None or not _was_applied(entry):
        return _skipped(undo, _NOT_APPLIED)
    replaced = registry.load(change.kind, entry.before)
    return undo if replaced is None else dataclasses.replace(undo, after=replaced)


def _was_applied(entry: journal.Entry | None) -> bool:
    return entry is not None and entry.state in _APPLIED


def _skipped(change: change_module.Change, reason: reasons.Reason) -> change_module.Skipped:
    return change_module.Skipped(
        change.kind, change.subject, change.before, change.after, reason.text, reason.code
    )
