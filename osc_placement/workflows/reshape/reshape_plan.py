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
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.plan import change, plan, result
from osc_placement.plan.kinds import registry, reshape
from osc_placement.plan.reasons import Code
from osc_placement.workflows.cloud import on_a_copy, selector
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
    """Plan a reshape and rehearse it. Requests: those of ``observe``; nothing is written.

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
        on_a_copy.rehearse(records, planned, client.microversion, expected)
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


#: ``{resource class: {"used": amount, "capacity": amount}}`` of a provider, or ``{resource
#: class: amount}`` of a consumer on it; None if there is none.
Cell = Mapping[str, object] | None


#: The status of a row with several changes is the first of these.
_WORST = (
    result.Status.FAILED,
    result.Status.STALE,
    result.Status.REFUSED,
    result.Status.SKIPPED,
    result.Status.PLANNED,
    result.Status.APPLIED,
    result.Status.UNCHANGED,
)


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeRow:
    """One provider, or one consumer on a provider."""

    uuid: str
    before: Cell
    after: Cell
    status: str
    reason: str = ""
    code: str = ""


class ReshapeRows:
    """The rows of a reshape with the results of its changes."""

    def __init__(
        self,
        before: snapshot.TreeSnapshot,
        after: snapshot.TreeSnapshot,
        placed: Sequence[assignment.Placed],
        results: Iterable[result.ChangeResult],
    ) -> None:
        self._before, self._after = before, after
        self._names = {**before.names(), **after.names()}
        self._results: dict[str, list[result.ChangeResult]] = {}
        for item in results:
            for uuid in _providers(item) or [item.subject.uuid]:
                self._results.setdefault(uuid, []).append(item)
        self._guesses: dict[tuple[str, str], str] = {}
        for one in placed:
            key = one.request.consumer, one.option.root_uuid
            reason = "assigned" if one.request.assigned else ""
            reason = f"guessed ({one.guess})" if one.guess else reason
            self._guesses[key] = self._guesses.get(key, "") or reason
        self._consumers: dict[str, list[str]] = {}
        for uuid, providers in before.changed_allocations(after).items():
            for provider_uuid in providers:
                self._consumers.setdefault(provider_uuid, []).append(uuid)

    def tree(self) -> provider.ProviderTree:
        """All providers before or after the reshape, in their tree after it."""
        nodes = {**self._before.inside, **self._after.inside}
        ordered = sorted(nodes.values(), key=lambda node: node.provider.name)
        return provider.ProviderTree(node.provider for node in ordered)

    def provider(self, uuid: str) -> ReshapeRow:
        """The row of a provider."""
        was, now = self._before.nodes.get(uuid), self._after.nodes.get(uuid)
        results = self._results.get(uuid, [])
        reason = _reason(uuid, results, self._names)
        status, code = _worst(results)
        return ReshapeRow(uuid, _usage(was), _usage(now), status, reason, code)

    def consumers(self, uuid: str) -> Iterator[ReshapeRow]:
        """The rows of the consumers whose allocation on a provider changes."""
        status, code = _worst(item for item in self._results.get(uuid, []) if _providers(item))
        for consumer in self._consumers.get(uuid, ()):
            was = self._before.consumers[consumer].allocations.get(uuid)
            now = self._after.consumers[consumer].allocations.get(uuid)
            guess = self._guesses.get((consumer, uuid), "") if now else ""
            yield ReshapeRow(consumer, was, now, status, guess, code)


def _providers(item: result.ChangeResult) -> list[str]:
    """The providers of a change of several providers; empty for any other change."""
    return [] if item.after is None else [*registry.CHANGE_TYPES[item.kind].providers(item.after)]


def _usage(node: snapshot.Node | None) -> Cell:
    if node is None:
        return None
    return {
        name: {"used": node.used.get(name, 0), "capacity": item.capacity}
        for name, item in sorted(node.inventories.items())
    }


def _worst(results: Iterable[result.ChangeResult]) -> tuple[str, str]:
    """The status of a row, and the code of the change that it is from."""
    worst = min(results, key=lambda item: _WORST.index(item.status), default=None)
    return (str(worst.status), worst.code) if worst is not None else ("unchanged", "")


def _reason(uuid: str, results: Sequence[result.ChangeResult], names: change.Names) -> str:
    """The other changes of a provider, and why changes were not applied."""
    reasons = []
    for item in results:
        reasons += registry.describe_change(item.kind, item.before, item.after, names)
        is_good = item.status in (result.Status.PLANNED, result.Status.APPLIED)
        if not is_good or (_providers(item) and item.subject.uuid == uuid):
            reasons.append(item.reason)
    return "; ".join(dict.fromkeys(filter(None, reasons)))
