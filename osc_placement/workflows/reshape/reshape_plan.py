# SPDX-License-Identifier: Apache-2.0
"""Planning a reshape: read the trees, decide, list the changes, rehearse them.

``placement reshape`` calls ``plan_reshape`` and applies the plan; a program can do the same. The
decision is a pure function of the trees as they were read. A document or a target tree gives moves
of inventories (``resolve``). These give the allocations that must move (``requests``) and their new
providers (``assignment``). All of it gives the snapshot after the reshape, which ``checks`` checks.
``changes`` are the differences of both snapshots. The rehearsal applies them to a reference server
that holds the first snapshot, and compares the result with the second::

    - {from: cn1, resources: {VGPU: 8}, to: {name: cn1_gpu}}
    before  cn1: 8 VGPU, c0 has 2 of them
    after   cn1: nothing; cn1_gpu: 8 VGPU, c0 has 2 of them
    changes create cn1_gpu; POST /reshaper with both inventories and the allocation of c0
"""

from __future__ import annotations

import dataclasses
import logging

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import reshape
from osc_placement.plan.reasons import Code
from osc_placement.workflows.cloud import rehearsal, selector
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
from osc_placement.workflows.reshape import (
    assignment,
    changes,
    checks,
    documents,
    observe,
    requests as reshape_requests,
    resolve,
    snapshot,
    target_tree,
)
from osc_placement.workflows.reshape.decision import ReshapeDecision, merged

LOG = logging.getLogger(__name__)

_NOTHING_TO_MOVE = "it has no inventory that the document moves"


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeRequest:
    """A document of moves, or a target tree.

    ``roots`` are the roots of the trees to which a document with ``$root`` applies, one by one.
    """

    document: documents.Document | documents.Tree
    roots: tuple[provider.Provider, ...] = ()
    options: assignment.AssignOptions = dataclasses.field(default_factory=assignment.AssignOptions)
    allow: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A rehearsed plan with the snapshots before and after it."""

    planned: plan.ObservedPlan
    before: snapshot.TreeSnapshot
    after: snapshot.TreeSnapshot
    placed: tuple[assignment.Placed, ...] = ()


def select_roots(
    client: api.Client,
    selection: selector.Selector,
    names: NamedAggregates | None = None,
) -> tuple[provider.Provider, ...]:
    """The root providers among the selected providers. Requests: those of ``select``.

    Errors: InvalidInput for an invalid selection, or one without a root.
    """
    chosen = selector.select(client, selection, names).providers
    roots = tuple(item for item in chosen if item.root_uuid in (None, item.uuid))
    if not roots:
        raise errors.InvalidInput(["none of the selected providers is the root of a tree"])
    return roots


def plan_reshape(client: api.Client, request: ReshapeRequest, context: ReadContext) -> Prepared:
    """Plan a reshape and rehearse it; nothing is written.

    Requests: those of ``lookup.find_providers`` and ``observe``.

    Errors: InvalidInput with all errors of a document; RehearsalFailed.
    With ``roots``, a tree that cannot be reshaped is skipped instead.
    """
    client.require_feature("reshaper", "reshaping")
    named = lookup.find_providers(client, request.document.names)
    trees = observe.observe(client, request.document, [*named.values(), *request.roots], context)
    decision, skipped = decide(request, trees)
    notes = checks.notes(decision)
    planned = changes.make_plan(decision, skipped, notes, request.allow)
    before, after = decision.before, decision.after.without(decision.resolved.deleted)
    if planned.changes:
        records, expected = before.records(after), after.records()
        rehearsal.rehearse(records, planned, client.microversion, expected)
    return Prepared(plan.ObservedPlan(planned), before, after, tuple(decision.placed))


def decide(
    request: ReshapeRequest, before: snapshot.TreeSnapshot
) -> tuple[ReshapeDecision, list[change.Skipped]]:
    """Decide a request; pure. Errors: InvalidInput with all reasons.

    With ``roots``, a tree that cannot be reshaped is skipped instead.
    """
    decisions, skipped = [], []
    for part in target_tree.parts(request.document, request.roots, before):
        try:
            if part.is_idle:
                raise checks.Refused([_NOTHING_TO_MOVE], Code.NOTHING_TO_MOVE)
            resolved, problems = resolve.resolve(part.document, part.trees)
            requests, misfits = reshape_requests.find_requests(part.trees, resolved)
            offered = reshape_requests.find_offered(requests, part.trees, resolved)
            names = {**part.trees.names(), **resolved.names()}
            placed, unplaced = assignment.place_requests(requests, offered, request.options, names)
            after = part.trees.after(resolved.nodes, assignment.moved_amounts(placed))
            decision = ReshapeDecision(resolved, placed, part.trees, after)
            checks.check(decision, request.allow, [*problems, *misfits, *unplaced])
        except errors.InvalidInput as error:
            if part.root is None:
                raise
            reason, code = "; ".join(error.reasons), getattr(error, "code", Code.RESHAPE_REFUSED)
            LOG.info("skipping the tree of %s: %s", part.root.name, reason)
            subject = change.Subject(part.root.name, part.root.uuid)
            refused = code != Code.NOTHING_TO_MOVE
            kind = reshape.TYPE.name
            skipped.append(change.Skipped(kind, subject, reason=reason, code=code, refused=refused))
        else:
            decisions.append(decision)
    return (merged(decisions, before) if request.roots else decisions[0]), skipped
