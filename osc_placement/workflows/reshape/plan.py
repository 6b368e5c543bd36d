"""Planning a reshape: read the trees, decide, list the changes, rehearse them.

``placement reshape`` calls ``plan_reshape`` and applies the plan; a program can do the same. The
rehearsal applies the plan to an embedded Placement that holds the snapshot, under Placement's own
rules, and compares the result with the expected snapshot.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence

from osc_placement import errors, microversion
from osc_placement.client import api
from osc_placement.engine import standard
from osc_placement.model import allocation, name as names, provider
from osc_placement.plan import attempt, change, executor, journal, plan, result
from osc_placement.plan.kinds import base, memberships, reshape
from osc_placement.workflows import selector as batch_selector
from osc_placement.workflows.context import HostAggregates, ReadContext
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    consumers,
    decide,
    invariants,
    observe,
    resolve,
    sandbox,
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
    rehearsal: Rehearsal | None = None


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
        notes=notes(decision),
        capacities=capacities(decision.before, changes),
    )
    after = decision.after.without(decision.resolved.deleted)
    prepared = Prepared(
        plan.ObservedPlan(full_plan), decision.before, after, tuple(decision.placed)
    )
    if not full_plan.changes:
        return prepared
    rehearsal = rehearse(
        decision.before, after, full_plan.changes, decision.allowed, client.microversion
    )
    return dataclasses.replace(prepared, rehearsal=rehearsal)


def notes(decision: decide.Decision) -> tuple[str, ...]:
    """All notes of a plan."""
    before, after = decision.before, decision.after
    return (
        *invariants.nova_notes(before, decision.resolved),
        *_totals(decision.resolved),
        *_over_capacity(before, after),
        *_guesses(after, decision.placed),
    )


def capacities(
    before: snapshot.TreeSnapshot, changes: Sequence[change.Change]
) -> dict[str, plan.Capacity]:
    """``{resource class: Capacity}`` over the named trees, for the classes that change."""
    capacity = reshape.capacities({uuid: node.inventories for uuid, node in before.inside.items()})
    touched = sorted({name for item in changes for name in item.capacity})
    return {name: plan.capacity_after(name, capacity[name], changes) for name in touched}


def _totals(resolved: resolve.Resolved) -> Iterator[str]:
    """One line per class whose sum a document changes."""
    growth = collections.Counter[str]()
    for (_, name), amount in resolved.growth.items():
        growth[name] += amount
    for name, amount in sorted(growth.items()):
        yield f"the document changes the totals: {name} {amount:+} in sum"


def _over_capacity(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
    """Providers that stay over capacity and whose allocations are written again."""
    written = {
        (uuid, name)
        for key, consumer in after.consumers.items()
        if consumer.allocations != before.consumers[key].allocations
        for uuid, held in consumer.allocations.items()
        for name in held
    }
    for provider_name, name in sorted(
        (before.name_of(uuid), name)
        for uuid, node in after.nodes.items()
        for name, _, _ in node.over_capacity
        if (uuid, name) in written
    ):
        yield (
            f"{provider_name} is over capacity with {name}: a Placement older than 2025.2 refuses"
            " to write any allocation there again, and so the whole reshape"
        )


def _guesses(after: snapshot.TreeSnapshot, placed: Iterable[consumers.Placed]) -> Iterator[str]:
    """One line per target with the consumers that a strategy placed there."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in placed:
        if each.guess:
            key = after.name_of(each.option.target), each.guess
            found.setdefault(key, []).append(each.demand.consumer)
    for (name, guess), guessed in sorted(found.items()):
        yield f"guessed ({guess}): to {name}: {', '.join(dict.fromkeys(guessed))}"


LOG = logging.getLogger(__name__)


class Refused(errors.PlacementError):
    """The rehearsal failed; no change was sent to the cloud."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsal:
    """``requests`` are the writes in their order; ``result`` is the snapshot after them."""

    requests: tuple[sandbox.Request, ...]
    result: snapshot.TreeSnapshot


def rehearse(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    changes: Sequence[change.Change],
    allowed: invariants.Expected,
    version: microversion.Microversion,
) -> Rehearsal:
    """Apply ``changes`` to ``before`` and compare the result with ``after``.

    Errors: Refused with all failures and differences; CannotRehearse.
    """
    LOG.info("rehearsing %d changes", len(changes))
    before, after = _comparable(before), _comparable(after)
    changes = _only_known(changes)
    # The cloud has all these classes, as ``observe`` has checked.
    nodes = [*before.nodes.values(), *after.nodes.values()]
    classes = {name for node in nodes for name in node.inventories}
    with sandbox.embedded(before, classes, version) as stage:
        run_context = attempt.RunContext(
            base.Services(stage.client), journal.MemoryJournal(), threading.Event()
        )
        run = executor.execute(changes, run_context, executor.Limits(workers=1))
        failed = [item for item in run.results if not item.succeeded]
        if failed:
            raise Refused(_failures(failed))
        context = ReadContext(workers=1)
        found = _comparable(observe.read_trees(stage.client, after.roots, context))
        requests = tuple(stage.recorder.requests)
    # Providers that no consumer uses any more are not read; they cannot have changed.
    unread = {uuid: node for uuid, node in after.nodes.items() if uuid not in found.nodes}
    consumers = {uuid: item for uuid, item in found.consumers.items() if uuid in before.consumers}
    found = dataclasses.replace(found, nodes={**found.nodes, **unread}, consumers=consumers)
    problems = [
        *invariants.violations(before, found, allowed),
        *invariants.differences(found, after),
    ]
    if problems:
        header = "the result of the rehearsal differs from the plan, so nothing was changed:"
        raise Refused("\n".join([header, *problems]))
    return Rehearsal(requests, found)


def _comparable(trees: snapshot.TreeSnapshot) -> snapshot.TreeSnapshot:
    """The snapshot without standard traits that are newer than this program.

    No rule depends on them. Below 1.38 consumers have no type, which is read as unknown.
    """
    return dataclasses.replace(
        trees,
        nodes={
            uuid: dataclasses.replace(node, traits=frozenset(filter(_is_known, node.traits)))
            for uuid, node in trees.nodes.items()
        },
        consumers={
            uuid: dataclasses.replace(
                item, consumer_type=item.consumer_type or allocation.UNKNOWN_TYPE
            )
            for uuid, item in trees.consumers.items()
        },
    )


def _only_known(changes: Sequence[change.Change]) -> list[change.Change]:
    """The changes without standard traits that are newer than this program."""
    found = []
    for item in changes:
        if isinstance(item.after, memberships.Traits):
            known = {name: has for name, has in item.after.present.items() if _is_known(name)}
            if not known:
                continue
            before = memberships.Traits({name: not has for name, has in known.items()})
            item = dataclasses.replace(item, before=before, after=memberships.Traits(known))
        found.append(item)
    return found


def _is_known(trait: str) -> bool:
    return names.is_custom(trait) or trait in standard.traits()


def _failures(results: Sequence[result.ChangeResult]) -> str:
    lines = [
        f"{item.kind} {item.subject.name}: {item.status}, {item.reason}"
        for item in results
        if item.status is not result.Status.PLANNED
    ]
    return "\n".join(["the rehearsal of the plan failed, so nothing was changed:", *lines])
