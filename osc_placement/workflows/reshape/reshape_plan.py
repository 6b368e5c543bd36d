# SPDX-License-Identifier: Apache-2.0
"""Planning a reshape: read the trees, decide, list the changes, rehearse them, show the result.

``placement reshape`` calls ``plan_reshape`` and applies the plan; a program can do the same. The
decision is a pure function of the snapshot: a document or a target tree gives moves of inventories
(``resolve``), these give the allocations that move (``consumers``), and both give the snapshot
after the reshape, which ``checks`` checks. ``changes`` are the differences of both snapshots.
The rehearsal applies them to a reference server that holds the first snapshot, and compares the
result with the second::

    - {from: cn1, resources: {VGPU: 8}, to: {name: cn1_gpu}}
    before  cn1: 8 VGPU, c0 has 2 of them
    after   cn1: nothing; cn1_gpu: 8 VGPU, c0 has 2 of them
    changes create cn1_gpu; POST /reshaper with both inventories and the allocation of c0
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors, microversion
from osc_placement.client import api
from osc_placement.engine import record, standard, state
from osc_placement.model import allocation, provider
from osc_placement.model.name import is_custom
from osc_placement.plan import change, plan, result
from osc_placement.plan.kinds import registry, reshape
from osc_placement.plan.reasons import Code
from osc_placement.workflows.cloud import on_a_copy, selector
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
from osc_placement.workflows.reshape import (
    changes,
    checks,
    consumers,
    documents,
    observe,
    resolve,
    snapshot,
    target_tree,
)

LOG = logging.getLogger(__name__)


_NOTHING_TO_MOVE = "it has no inventory that the document moves"


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeRequest:
    """A ``document`` of moves, or the target ``tree``.

    ``roots`` are the roots of the trees to which a document with ``$root`` applies, one by one.
    """

    document: documents.Document = dataclasses.field(default_factory=documents.Document)
    tree: target_tree.Tree | None = None
    roots: tuple[provider.Provider, ...] = ()
    options: consumers.AssignOptions = dataclasses.field(default_factory=consumers.AssignOptions)
    allow: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A rehearsed plan with the snapshots before and after it."""

    planned: plan.ObservedPlan
    before: snapshot.TreeSnapshot
    after: snapshot.TreeSnapshot
    placed: tuple[consumers.Placed, ...] = ()


class RehearsalFailed(errors.PlacementError):
    """The rehearsal failed; no change was sent to the cloud."""


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
    trees = observe.observe(client, request.tree or request.document, request.roots, context)
    decision, skipped = decide_request(request, trees)
    after = decision.after.without(decision.resolved.deleted)
    full_plan = changes.make_plan(decision, skipped, request.allow)
    if full_plan.changes:
        rehearse(decision.before, after, full_plan, client.microversion)
    return Prepared(plan.ObservedPlan(full_plan), decision.before, after, tuple(decision.placed))


def decide_request(
    request: ReshapeRequest, before: snapshot.TreeSnapshot
) -> tuple[consumers.ReshapeDecision, list[change.Skipped]]:
    """Decide a request. Errors: InvalidInput with all reasons.

    With ``roots``, a tree that cannot be reshaped is skipped instead.
    """
    document = target_tree.moves(request.tree, before) if request.tree else request.document
    parts: Iterable[target_tree.Part] = [(None, document, before)]
    if request.roots:
        parts = target_tree.for_trees(document, request.roots, before)
    taken = {text for uuid, node in before.nodes.items() for text in (uuid, node.provider.name)}
    decisions, skipped = [], []
    for root, own, tree in parts:
        try:
            if own is None:
                raise checks.Refused([_NOTHING_TO_MOVE], Code.NOTHING_TO_MOVE)
            decision = decide(own, tree, request.options, request.allow, taken if root else ())
        except errors.InvalidInput as error:
            if root is None:
                raise
            reason = "; ".join(error.reasons)
            LOG.info("skipping the tree of %s: %s", root.name, reason)
            skipped.append(
                change.Skipped(
                    reshape.TYPE.name,
                    change.Subject(root.name, root.uuid),
                    reason=reason,
                    code=error.code if isinstance(error, checks.Refused) else Code.RESHAPE_REFUSED,
                    refused=own is not None,
                )
            )
        else:
            taken |= decision.resolved.new_names
            decisions.append(decision)
    return (_merge(decisions, before) if request.roots else decisions[0]), skipped


def decide(
    document: documents.Document,
    before: snapshot.TreeSnapshot,
    options: consumers.AssignOptions,
    allow: Collection[str] = (),
    taken: Collection[str] = (),
) -> consumers.ReshapeDecision:
    """Decide one document. ``taken`` are the UUIDs and names in other trees.

    Errors: InvalidInput with all reasons.
    """
    resolved, reasons = resolve.resolve(document, before, taken)
    requests, misfits = consumers.requests(before, resolved)
    checks.check(before, resolved, allow, [*reasons, *misfits])
    placed, reasons = consumers.assign(requests, before, resolved, options)
    errors.InputErrors(reasons).check()
    decision = consumers.decided(resolved, placed, before)
    errors.InputErrors(checks.violations(decision)).check()
    return decision


def _merge(
    decisions: Sequence[consumers.ReshapeDecision], trees: snapshot.TreeSnapshot
) -> consumers.ReshapeDecision:
    """The decisions on several trees as one."""
    resolved = resolve.Resolved(
        decisions[0].resolved.document if len(decisions) == 1 else documents.Document(),
        {uuid: node for decision in decisions for uuid, node in decision.resolved.nodes.items()},
        tuple(move for decision in decisions for move in decision.resolved.moves),
        growth={
            slot: amount
            for decision in decisions
            for slot, amount in decision.resolved.growth.items()
        },
        deleted=frozenset().union(*(decision.resolved.deleted for decision in decisions)),
    )
    placed = [one for decision in decisions for one in decision.placed]
    return consumers.decided(resolved, placed, trees.restricted_to(resolved.nodes))


def rehearse(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    planned: plan.Plan,
    version: microversion.Microversion,
) -> None:
    """Apply a plan to ``before`` in a reference server: the result must be ``after``.

    Errors: RehearsalFailed with all failures or differences; PlacementError if ``before`` is not
    a valid state; UnsupportedVersion.
    """
    LOG.info("rehearsing %d changes", len(planned.changes))
    expected, present = records(after), _with_names(before, after)
    with on_a_copy.applied(present, planned, version) as copy:
        if copy.failures:
            header = "the rehearsal of the plan failed, so nothing was changed:"
            raise RehearsalFailed("\n".join([header, *copy.failures]))
        problems = differences(copy.state, expected)
    if problems:
        header = "the result of the rehearsal differs from the plan, so nothing was changed:"
        raise RehearsalFailed("\n".join([header, *problems]))


def _with_names(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> record.Changes:
    """The records of the snapshot before, with all classes and traits of both.

    ``observe`` has checked that the cloud has the classes and standard traits of the snapshot
    after; its release may be newer than the standard traits of this program.
    """
    nodes = [*before.nodes.values(), *after.nodes.values()]
    classes = {name for node in nodes for name in node.inventories if is_custom(name)}
    traits = before.traits.union(*(node.traits for node in before.nodes.values()))
    traits |= {name for node in nodes for name in node.traits if not is_custom(name)}
    traits -= standard.traits()
    return dataclasses.replace(
        records(before),
        traits=dict.fromkeys(traits, 0.0),
        resource_classes=dict.fromkeys(classes, 0.0),
    )


#: The owner of the usage by consumers that are not in the snapshot.
_OTHERS = "others"


def records(trees: snapshot.TreeSnapshot) -> record.Changes:
    """The providers and consumers of a snapshot as records of the engine."""
    return record.Changes(
        {
            uuid: record.ProviderRecord(
                uuid,
                node.provider.name,
                trees.root_of(uuid),
                node.provider.parent_uuid,
                node.provider.generation,
                node.inventories,
                node.traits,
                tuple(sorted(node.aggregates)),
            )
            for uuid, node in trees.nodes.items()
        },
        {
            item.uuid: record.ConsumerRecord(
                item.uuid,
                item.generation or 0,
                item.project_id or _OTHERS,
                item.user_id or _OTHERS,
                item.allocations,
                None if item.consumer_type == allocation.UNKNOWN_TYPE else item.consumer_type,
            )
            for item in (*trees.consumers.values(), *_other_consumers(trees))
        },
    )


def _other_consumers(trees: snapshot.TreeSnapshot) -> Iterator[allocation.Consumer]:
    """One consumer per provider for the usage of all consumers that are not in the snapshot."""
    usage: dict[str, dict[str, int]] = {}
    for (uuid, resource_class), amount in trees.other_usage().items():
        usage.setdefault(uuid, {})[resource_class] = amount
    for uuid, resources in usage.items():
        yield allocation.Consumer(resolve.new_uuid(f"others:{uuid}"), {uuid: resources})


#: The fields of a provider and of a consumer that a reshape may change.
_PROVIDER_FIELDS = ("name", "parent_uuid", "inventories", "traits", "aggregates")
_CONSUMER_FIELDS = ("allocations", "project_id", "user_id", "consumer_type")


def differences(actual: record.Changes | state.CloudState, expected: record.Changes) -> list[str]:
    """The differences in providers and consumers, without generations."""
    return [
        *_different(actual.providers, expected.providers, _PROVIDER_FIELDS),
        *_different(actual.consumers, expected.consumers, _CONSUMER_FIELDS),
    ]


def _different(
    actual: Mapping[str, object], expected: Mapping[str, object], fields: Iterable[str]
) -> Iterator[str]:
    for uuid in sorted(actual.keys() | expected.keys()):
        present, wanted = actual.get(uuid), expected.get(uuid)
        name = getattr(present or wanted, "name", f"consumer {uuid}")
        if present is None or wanted is None:
            yield f"{name}: it {'does not exist' if present is None else 'still exists'}"
            continue
        for field in fields:
            value, becomes = getattr(present, field), getattr(wanted, field)
            if value != becomes:
                yield f"{name}: {field} {value} instead of {becomes}"


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
        placed: Sequence[consumers.Placed],
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
            key = one.request.consumer, one.option.provider
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
