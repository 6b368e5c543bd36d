"""The whole of a reshape up to its plan: read, decide, compile, rehearse.

Called by ``placement reshape``; what it returns ``carry_out`` applies. Whoever writes a
program of their own (a recipe) hands documents to ``plan_reshape``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api, lookup, retry
from osc_placement.engine import standard
from osc_placement.model import name as names, provider
from osc_placement.plan import change, plan
from osc_placement.workflows import context, selector as batch_selector
from osc_placement.workflows.reshape import (
    assign,
    changes as compiling,
    consumers as reshape_consumers,
    decide,
    dry_run,
    invariants,
    inventories,
    nova_owned,
    observe,
    resolve,
    snapshot,
)
from osc_placement.workflows.reshape.document import target_tree, template, values


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeRequest:
    """What shall be reshaped: ``document``, or the wanted ``tree``.

    ``roots`` are the providers in whose trees a document with ``$root`` is carried out,
    each on its own.
    """

    document: values.Document = dataclasses.field(default_factory=values.Document)
    tree: target_tree.Tree | None = None
    roots: tuple[provider.Provider, ...] = ()
    manner: assign.AssignOptions = dataclasses.field(default_factory=assign.AssignOptions)
    allow: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A plan that has been rehearsed: ``seen`` is before it, ``wanted`` after it.

    ``rehearsed`` is None when there is nothing to do.
    """

    planned: plan.ObservedPlan
    seen: snapshot.TreeSnapshot
    wanted: snapshot.TreeSnapshot
    placed: tuple[reshape_consumers.Placed, ...] = ()
    rehearsed: dry_run.Rehearsal | None = None


def replace(asked: ReshapeRequest, **fields: Any) -> ReshapeRequest:
    """A copy with some fields changed."""
    return dataclasses.replace(asked, **fields)


def select_roots(
    client: api.Client,
    selector: batch_selector.Selector,
    host_aggregates: context.HostAggregates | None = None,
) -> tuple[provider.Provider, ...]:
    """The roots of the trees that selected providers stand in. Cost: as ``select``.

    Errors: InvalidInput for a selection that makes no sense, or that names no root.
    """
    chosen = batch_selector.select(client, selector, host_aggregates).providers
    roots = tuple(item for item in chosen if item.root_uuid in (None, item.uuid))
    if not roots:
        raise errors.InvalidInput(["none of the selected providers is the root of a tree"])
    return roots


def plan_reshape(
    client: api.Client, asked: ReshapeRequest, reading: context.ReadContext
) -> Prepared:
    """Read the trees, decide where everything goes, and try it.

    Cost: the look-ups of named providers, what ``observe_picture`` costs, one request for
    traits and one per custom class that is new to the trees. Nothing is written.
    Errors: InvalidInput with every fault of a document; Refused when the rehearsal fails.
    With ``roots`` a tree that cannot be reshaped is left alone instead.
    """
    client.require_feature("reshaper", "reshaping")
    seen = _observed(client, asked, reading)
    decided, remarks = _decided(seen, asked)
    whole = decide.together(decided)
    _check_classes(client, seen, whole.meant.shifts)
    prepared = _compiled(decide.restricted(seen, whole.meant), whole, asked, remarks)
    changes = prepared.planned.plan.changes
    if not changes:
        return prepared
    rehearsed = dry_run.rehearse(
        prepared.seen, prepared.wanted, changes, whole.classes, client.microversion
    )
    return dataclasses.replace(prepared, rehearsed=rehearsed)


def _observed(
    client: api.Client, asked: ReshapeRequest, reading: context.ReadContext
) -> snapshot.TreeSnapshot:
    targets = [item.target for item in asked.document.moves]
    targets += asked.document.providers
    texts = resolve.texts(asked.document)
    if asked.tree is not None:
        targets = [branch.target for branch in asked.tree.branches]
        texts = asked.tree.texts
    texts = [text for text in texts if text == template.filled_text(text, "")]
    found = lookup.find_providers(client, texts)
    roots = {item.root_uuid or item.uuid for item in (*found.values(), *asked.roots)}
    seen = observe.observe_picture(client, roots, reading)
    return seen.replace(traits=_custom_traits(client, targets))


def _custom_traits(client: api.Client, targets: Iterable[values.Target]) -> frozenset[str]:
    """The operator's own traits that are there; a standard one that is not is a fault."""
    traits = {trait for target in targets for trait in target.traits}
    known = observe.known_traits(client, traits)
    unknown = [trait for trait in sorted(traits - known) if not names.is_custom(trait)]
    errors.InputErrors(f"the cloud does not know the trait {trait}" for trait in unknown).check()
    return frozenset(filter(names.is_custom, known))


def _check_classes(
    client: api.Client, seen: snapshot.TreeSnapshot, shifts: Iterable[resolve.InventoryMove]
) -> None:
    """A class that resources become must be there. One request for each unknown one."""
    offered = {name for node in seen.nodes.values() for name in node.inventories}
    unknown = {shift.becomes for shift in shifts} - offered - set(standard.RESOURCE_CLASSES)
    errors.InputErrors(
        f"unknown resource class {name}: 'openstack resource class create {name}' makes it"
        for name in sorted(unknown)
        if not retry.read(functools.partial(client.resource_class_exists, name))
    ).check()


def _decided(
    seen: snapshot.TreeSnapshot, asked: ReshapeRequest
) -> tuple[list[decide.Decided], list[change.Skipped]]:
    if asked.roots:
        return decide.decide_each(asked.document, asked.roots, seen, asked.manner, asked.allow)
    faults = errors.InputErrors()
    document = asked.document
    if asked.tree is not None:
        document = target_tree.moves(asked.tree, seen, faults)
    faults.check()
    return [decide.decide(document, seen, asked.manner, asked.allow)], []


def _compiled(
    seen: snapshot.TreeSnapshot,
    whole: decide.Decided,
    asked: ReshapeRequest,
    remarks: Sequence[change.Skipped],
) -> Prepared:
    meant = whole.meant
    after = compiling.after(seen, meant, whole.inventories, whole.placed)
    errors.InputErrors(invariants.broken(seen, after, whole.classes)).check()
    changes = compiling.changes(seen, after, meant, _reasons(after, whole.placed))
    made = plan.make(
        [*changes, *remarks],
        # So it keeps its file, and is never planned anew over what somebody else did.
        relative=True,
        allow=tuple(sorted(asked.allow)),
        names=after.names(),
        notes=(
            *nova_owned.notes(seen, meant),
            *_crowded(seen, after),
            *_guesses(after, whole.placed),
        ),
    )
    left = compiling.without(after, meant.deleted)
    return Prepared(plan.ObservedPlan(made), seen, left, tuple(whole.placed))


def _reasons(
    after: snapshot.TreeSnapshot, placed: Sequence[reshape_consumers.Placed]
) -> Mapping[str, str]:
    """``{root uuid: how many consumers move there, and how many by a guess}``"""
    moved: dict[str, dict[str, bool]] = {}
    for item in placed:
        root = after.root_of(item.demand.source)
        of = moved.setdefault(root, {})
        of[item.demand.consumer] = of.get(item.demand.consumer, False) or bool(item.guess)
    return {
        root: f"{len(of)} consumers" + (f", {sum(of.values())} guessed" if any(of.values()) else "")
        for root, of in moved.items()
    }


def _crowded(seen: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
    """Providers that are over capacity, and stay so, where consumers are written again."""
    found = {
        (seen.name_of(uuid), name)
        for consumer in after.consumers.values()
        if consumer.allocations != seen.consumers[consumer.uuid].allocations
        for uuid, has in consumer.allocations.items()
        for name, _, _ in inventories.capacity_over(
            after.nodes[uuid].inventories, {name: after.nodes[uuid].used[name] for name in has}
        )
    }
    for provider_name, name in sorted(found):
        yield (
            f"{provider_name} is over capacity with {name}: a Placement older than 2025.2 refuses"
            " to write any allocation there again, and so the whole reshape"
        )


def _guesses(
    after: snapshot.TreeSnapshot, placed: Sequence[reshape_consumers.Placed]
) -> Iterator[str]:
    """One line for each target whose consumers only a strategy has chosen."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in placed:
        if item.guess:
            key = after.name_of(item.option.target), item.guess
            found.setdefault(key, []).append(item.demand.consumer)
    for (name, guess), consumers in sorted(found.items()):
        yield f"guessed ({guess}): to {name}: {', '.join(dict.fromkeys(consumers))}"
