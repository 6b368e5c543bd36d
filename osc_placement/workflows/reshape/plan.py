"""Planning a reshape: observe, decide, list the changes, rehearse them.

``placement reshape`` calls ``plan_reshape`` and applies the plan; a program can do the same.
"""

from __future__ import annotations

import dataclasses

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model import provider
from osc_placement.plan import plan
from osc_placement.workflows import selector as batch_selector
from osc_placement.workflows.context import HostAggregates, ReadContext
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    consumers,
    decide,
    dry_run,
    notes,
    observe,
    snapshot,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A rehearsed plan with the snapshots before and after it.

    ``rehearsal`` is None if there are no changes.
    """

    planned: plan.ObservedPlan
    before: snapshot.TreeSnapshot
    after: snapshot.TreeSnapshot
    placed: tuple[consumers.Placed, ...] = ()
    rehearsal: dry_run.Rehearsal | None = None


def select_roots(
    client: api.Client,
    selector: batch_selector.Selector,
    host_aggregates: HostAggregates | None = None,
) -> tuple[provider.Provider, ...]:
    """The root providers among the selected providers. Requests: those of ``select``.

    Errors: InvalidInput for an invalid selection, or one without a root.
    """
    chosen = batch_selector.select(client, selector, host_aggregates).providers
    roots = tuple(item for item in chosen if item.root_uuid in (None, item.uuid))
    if not roots:
        raise errors.InvalidInput(["none of the selected providers is the root of a tree"])
    return roots


def plan_reshape(
    client: api.Client, request: decide.ReshapeRequest, context: ReadContext
) -> Prepared:
    """Plan a reshape and rehearse it. Requests: those of ``observe``; nothing is written.

    Errors: InvalidInput with all errors of a document; Refused when the rehearsal fails.
    With ``roots``, a tree that cannot be reshaped is skipped instead.
    """
    client.require_feature("reshaper", "reshaping")
    trees = observe.observe(client, request.tree or request.document, request.roots, context)
    decision, skipped = decide.decide_request(request, trees)
    changes = reshape_changes.changes(decision)
    full_plan = plan.make(
        [*changes, *skipped],
        # A relative plan keeps its file, and is never computed again after concurrent changes.
        relative=True,
        allow=tuple(sorted(request.allow)),
        names=decision.after.names(),
        notes=notes.notes(decision),
    )
    after = decision.after.without(decision.resolved.deleted)
    prepared = Prepared(
        plan.ObservedPlan(full_plan), decision.before, after, tuple(decision.placed)
    )
    if not full_plan.changes:
        return prepared
    rehearsal = dry_run.rehearse(
        decision.before, after, full_plan.changes, decision.allowed, client.microversion
    )
    return dataclasses.replace(prepared, rehearsal=rehearsal)
