# SPDX-License-Identifier: Apache-2.0
"""Checks a reshape: invariants, reasons to refuse its document, and notes for the operator. Pure.

* Invariants compare the snapshots of the trees before and after the reshape.
* Refusals are deletions and moves that would not work or would not last. Nova-compute writes the
  inventories of its own trees at each periodic run. With libvirt these are VCPU, MEMORY_MB and
  others on the root, VGPU on children with the name ``<root's name>_<physical GPU>``, and
  MEM_ENCRYPTION_CONTEXT on children such as ``<root's name>_amd_sev``. A move to this shape lasts;
  any other is reverted or duplicated within a minute.

An example, with a move of 4 VCPU of cn1 to PCPU of cn1::

    before  cn1: 16 VCPU; server a has 4 VCPU
    after   cn1: 12 VCPU, 4 PCPU; server a has 4 PCPU   kept: VCPU and PCPU count as one class
    after   cn1: 12 VCPU, 4 PCPU; server a has 4 VCPU   kept: a stays on shared CPUs
    after   cn1: 12 VCPU, 6 PCPU                        violated: 2 PCPU appear without a move
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from osc_placement import errors
from osc_placement.model import allocation, inventory
from osc_placement.nova import pci
from osc_placement.nova.flavor import MEM_ENCRYPTION_CONTEXT
from osc_placement.nova.traits import ENCRYPTION_MODELS, OWNER
from osc_placement.plan import guards
from osc_placement.plan.kinds.inventories import ONE_TIME_USE, is_used_up
from osc_placement.plan.reasons import Code
from osc_placement.search import placing
from osc_placement.search.placing import Slot
from osc_placement.workflows.reshape import consumers, resolve, snapshot


def violations(decision: consumers.ReshapeDecision) -> list[str]:
    """The invariants that the snapshot after a reshape violates."""
    return [reason for invariant in _INVARIANTS for reason in invariant(decision)]


def _sums_of_consumers(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """A consumer has as much as before, over all providers.

    Classes of which one becomes the other, such as VCPU and PCPU, count as the first of them.
    """
    # Lists of (class, becomes) pairs; pairs with a class in common are in the same list.
    groups = placing.separate(
        [(move.resource_class, move.becomes) for move in decision.resolved.moves], tuple
    )
    classes = {name: pairs[0][0] for pairs in groups for pair in pairs for name in pair}
    for uuid, was in sorted(decision.before.consumers.items()):
        now = decision.after.consumers[uuid]
        if _counted(was, classes) != _counted(now, classes):
            yield f"consumer {uuid} would have {now.total()} in sum instead of {was.total()}"


def _inventories_change_by_moves(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """No inventory changes without a move, a given total or given fields."""
    growth = _expected_growth(decision.resolved)
    was, now = _inventories(decision.before.inside), _inventories(decision.after.inside)
    for slot in sorted(was.keys() | now.keys() | growth.keys()):
        old, new = was.get(slot), now.get(slot)
        difference = (new.total if new else 0) - (old.total if old else 0)
        expected = slot in growth or slot in decision.resolved.fields or old == new
        if difference != growth[slot] or not expected:
            yield f"{slot[1]} of {decision.after.name_of(slot[0])} would change without a move"


def _allocations_change_by_moves(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """No consumer has another amount where nothing moves; so nothing changes in other trees."""
    before, after, growth = decision.before, decision.after, _expected_growth(decision.resolved)
    for uuid, providers in before.changed_allocations(after).items():
        unexpected = [
            f"{name} of {after.name_of(key)}"
            for key, names in providers.items()
            for name in names
            if (key, name) not in growth
        ]
        if unexpected:
            names = ", ".join(unexpected)
            yield f"consumer {uuid} would have another amount of {names}, without a move"


def _capacities(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """No provider is over capacity, unless it was so before, with the same inventory and usage."""
    before, after = decision.before, decision.after
    for uuid, node in after.nodes.items():
        old = before.nodes.get(uuid, snapshot.Node(node.provider))
        for name, used, capacity in node.over_capacity:
            is_same = (old.inventories.get(name), old.used.get(name)) == (
                node.inventories.get(name),
                used,
            )
            if not is_same:
                what = f"{used} {name} used of {capacity}"
                yield f"{after.name_of(uuid)} would be over capacity: {what}"


def _units(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """The amounts of consumers that change suit the units of their providers."""
    before, after = decision.before, decision.after
    for uuid in before.changed_allocations(after):
        for provider_uuid, resources in after.consumers[uuid].allocations.items():
            offered = after.nodes[provider_uuid].inventories
            for resource_class, amount in resources.items():
                item = offered.get(resource_class)
                if item is not None and not item.suits_units(amount):
                    yield (
                        f"{amount} {resource_class} of consumer {uuid} does not suit"
                        f" {after.name_of(provider_uuid)}: min_unit {item.min_unit},"
                        f" max_unit {item.max_unit}, step_size {item.step_size}"
                    )


def _targets(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """Consumers have the decided amounts on their target: the assigned one, if there is one."""
    for placed in decision.placed:
        request, option = placed.request, placed.option
        present = decision.after.consumers[request.consumer].allocations.get(option.provider, {})
        received = request.received(option)
        is_there = all(present.get(name, 0) >= amount for name, amount in received.items())
        if not is_there or request.assigned not in (None, option):
            yield f"consumer {request.consumer} would not be on its target"


_INVARIANTS = (
    _targets,
    _sums_of_consumers,
    _capacities,
    _units,
    _inventories_change_by_moves,
    _allocations_change_by_moves,
)


def _expected_growth(resolved: resolve.Resolved) -> collections.Counter[Slot]:
    """How much each total changes, by moves and by totals that the document sets."""
    growth = collections.Counter(resolved.growth)
    for move in resolved.moves:
        growth[move.source_slot] -= move.amount
        growth[move.target_slot] += move.amount
    return growth


def _inventories(
    nodes: Mapping[str, snapshot.Node],
) -> dict[Slot, inventory.Inventory]:
    return {
        (uuid, name): item
        for uuid, node in nodes.items()
        for name, item in node.inventories.items()
    }


def _counted(consumer: allocation.Consumer, classes: Mapping[str, str]) -> dict[str, int]:
    """The amounts of a consumer by class, on all providers; some classes count as another."""
    total: collections.Counter[str] = collections.Counter()
    for name, amount in consumer.total().items():
        total[classes.get(name, name)] += amount
    return total


#: A trait with this prefix shows that nova-compute owns the provider, as ``OWNER`` does.
_COMPUTE = "COMPUTE_"

#: Libvirt's driver reports memory encryption on a child ``<root's name>_<one of these>``.
_ENCRYPTED = frozenset(model.replace("-", "_") for model in ENCRYPTION_MODELS)

#: The classes that drivers of nova-compute report.
_REPORTED = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", MEM_ENCRYPTION_CONTEXT})


class Refused(errors.InvalidInput):
    """A document is refused; ``code`` is a guard's if only guards refuse it."""

    def __init__(self, reasons: Iterable[str], code: Code) -> None:
        super().__init__(reasons)
        self.code = code


def check(
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    allow: Collection[str],
    reasons: Iterable[str],
) -> None:
    """Raise Refused with ``reasons`` and all refusals; ``allow`` are the guards to skip."""
    refused = {Code.RESHAPE_REFUSED: [*reasons, *_impossible_deletions(before, resolved)]}
    for guard, code, refusals in (
        (guards.ONE_TIME_USE, Code.ONE_TIME_USE, _released),
        (guards.NOVA_OWNED, Code.NOVA_OWNED, _nova_owned),
    ):
        refused[code] = [] if guard in allow else [*refusals(before, resolved)]
    first = next((code for code, texts in refused.items() if texts), None)
    if first is not None:
        raise Refused(dict.fromkeys(itertools.chain(*refused.values())), first)


def _released(before: snapshot.TreeSnapshot, resolved: resolve.Resolved) -> Iterator[str]:
    """One-time-use devices in use that would get capacity, where they are or where they move."""
    target_slots: dict[Slot, set[Slot]] = {}
    for move in resolved.moves:
        target_slots.setdefault(move.source_slot, {move.source_slot}).add(move.target_slot)
    for (uuid, name), item in _inventories(before.inside).items():
        node = before.nodes[uuid]
        is_device = ONE_TIME_USE in node.traits
        if not (is_device and node.used.get(name) and is_used_up(item)):
            continue
        for target, becomes in sorted(target_slots.get((uuid, name), {(uuid, name)})):
            renewed = resolved.nodes[target].inventories.get(becomes)
            if renewed is not None and renewed.capacity > 0:
                yield (
                    f"{resolved.document.at(0)}{becomes} of the one-time-use device"
                    f" {resolved.name_of(target)} would be free with {node.used[name]} in use"
                    f" (--allow {guards.ONE_TIME_USE} to do it anyway)"
                )


def _impossible_deletions(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> Iterator[str]:
    """Why providers cannot be deleted.

    A plan has one change per provider, so that it cannot create or change a provider and delete it.
    """
    for uuid in sorted(resolved.deleted):
        prefix = f"{resolved.document.at(0)}{resolved.name_of(uuid)} cannot be"
        children = [
            node.provider.name
            for key, node in resolved.nodes.items()
            if node.provider.parent_uuid == uuid and key not in resolved.deleted
        ]
        if kept := ", ".join(sorted(resolved.nodes[uuid].inventories)):
            yield f"{prefix} deleted: it keeps {kept}; move that too"
        if children:
            yield f"{prefix} deleted: it has the children {', '.join(sorted(children))}"
        if uuid not in before.nodes:
            yield f"{prefix} deleted: it does not exist"
        elif _description(resolved.nodes[uuid]) != _description(before.nodes[uuid]):
            yield f"{prefix} changed and deleted in the same plan: do one of it before"


def _description(node: snapshot.Node) -> tuple[object, ...]:
    """What a document may change of a provider."""
    item = node.provider
    return item.name, item.parent_uuid, node.traits, node.aggregates


def _nova_owned(before: snapshot.TreeSnapshot, resolved: resolve.Resolved) -> list[str]:
    """Why changes in trees of nova-compute would not last."""
    owned = _owned_roots(before)
    reasons = [
        f"{resolved.document.at(move.line)}nova-compute owns the tree of"
        f" {before.name_of(root)} and writes {reported} at its next periodic run"
        for move, root, reported in _reverted(before, resolved, owned)
    ]
    reasons += [
        f"{resolved.document.at(0)}nova-compute owns the tree of {before.name_of(root)}"
        f" and writes the total of {resource_class} on {resolved.name_of(uuid)} at its next"
        " periodic run"
        for uuid, resource_class, root in _overwritten_totals(before, resolved, owned)
    ]
    reasons += [
        f"{resolved.document.at(0)}nova-compute finds {name} by its name, and would create it again"
        for name in _lost_names(before, resolved, owned)
    ]
    hint = f" (--allow {guards.NOVA_OWNED} to do it anyway)"
    return [reason + hint for reason in dict.fromkeys(reasons)]


def notes(decision: consumers.ReshapeDecision) -> tuple[str, ...]:
    """What an operator should know of a reshape that is not refused."""
    return tuple(text for note in _NOTES for text in note(decision))


def _nova_compute(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """When to stop and start nova-compute."""
    before, resolved = decision.before, decision.resolved
    owned = _owned_roots(before)
    written = {uuid for move in resolved.moves for uuid in (move.source, move.target)}
    written |= {uuid for uuid, _ in resolved.growth}
    changed = {before.root_of(uuid) for uuid in written if uuid in before.nodes} & owned
    if changed:
        yield (
            "nova-compute owns the tree of"
            f" {', '.join(sorted(before.name_of(root) for root in changed))}: stop it before the"
            " reshape, and start it only with a release and a configuration that report the new"
            " shape"
        )


def _changed_totals(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """One line per class whose sum a document changes."""
    growth = collections.Counter[str]()
    for (_, name), amount in decision.resolved.growth.items():
        growth[name] += amount
    for name, amount in sorted(growth.items()):
        yield f"the document changes the totals: {name} {amount:+} in sum"


def _over_capacity(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """Providers that stay over capacity and whose allocations are written again."""
    before, after = decision.before, decision.after
    written = {
        (uuid, name)
        for key in before.changed_allocations(after)
        for uuid, resources in after.consumers[key].allocations.items()
        for name in resources
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


def _guesses(decision: consumers.ReshapeDecision) -> Iterator[str]:
    """One line per target with the consumers that a strategy placed there."""
    guesses: dict[tuple[str, str], list[str]] = {}
    for placed in decision.placed:
        if placed.guess:
            key = decision.after.name_of(placed.option.provider), placed.guess
            guesses.setdefault(key, []).append(placed.request.consumer)
    for (name, guess), guessed in sorted(guesses.items()):
        yield f"guessed ({guess}): to {name}: {', '.join(dict.fromkeys(guessed))}"


_NOTES = (_nova_compute, _changed_totals, _over_capacity, _guesses)


def _owned_roots(before: snapshot.TreeSnapshot) -> frozenset[str]:
    """The roots of the trees that nova-compute owns, as their traits show."""
    return frozenset(
        before.root_of(uuid)
        for uuid, node in before.inside.items()
        if any(name == OWNER or name.startswith(_COMPUTE) for name in node.traits)
    )


def _reverted(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[tuple[resolve.InventoryMove, str, str]]:
    """``(move, root, inventory)`` of each move that nova-compute reverts by writing it."""
    for move in resolved.moves:
        root = before.root_of(move.source) if move.source in before.nodes else move.source
        if root in owned and _is_reported(move.source_slot, before):
            if not _matches_nova_compute(move, root, before, resolved):
                yield move, root, f"{move.resource_class} on {before.name_of(move.source)}"
        elif move.target in before.nodes and _is_reported(move.target_slot, before):
            other = before.root_of(move.target)
            if other in owned and other != root:
                yield move, other, f"{move.becomes} on {before.name_of(move.target)}"


def _overwritten_totals(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """``(provider, class, root)`` of each given total that nova-compute reports."""
    for uuid, resource_class in sorted(resolved.growth):
        root = _root_after(uuid, resolved)
        if root in owned and _is_reported((uuid, resource_class), before):
            yield uuid, resource_class, root


def _root_after(uuid: str, resolved: resolve.Resolved) -> str:
    """The root of a provider after the reshape; it may be new."""
    parent = resolved.nodes[uuid].provider.parent_uuid
    while parent is not None and parent in resolved.nodes:
        uuid, parent = parent, resolved.nodes[parent].provider.parent_uuid
    return uuid


def _is_reported(slot: Slot, before: snapshot.TreeSnapshot) -> bool:
    """Whether nova-compute reports a class on a provider of its own trees."""
    uuid, resource_class = slot
    is_device = uuid in before.nodes and pci.MANAGED in before.nodes[uuid].traits
    return is_device or resource_class in _REPORTED


def _lost_names(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[str]:
    """The names of providers that nova-compute named, and that get another name."""
    for uuid, node in before.inside.items():
        name, root = node.provider.name, before.root_of(uuid)
        is_novas = root in owned and name.startswith(f"{before.name_of(root)}_")
        if is_novas and uuid not in resolved.deleted and resolved.name_of(uuid) != name:
            yield name


def _matches_nova_compute(
    move: resolve.InventoryMove,
    root: str,
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
) -> bool:
    """Whether nova-compute makes the same move itself."""
    if move.source == move.target:
        return (move.resource_class, move.becomes) in {("VCPU", "PCPU"), ("PCPU", "VCPU")}
    target = resolved.nodes[move.target].provider
    suffix = target.name.removeprefix(f"{before.name_of(root)}_")
    if target.parent_uuid != root or suffix == target.name or move.resource_class != move.becomes:
        return False
    return move.becomes == "VGPU" or (
        move.becomes == MEM_ENCRYPTION_CONTEXT and suffix in _ENCRYPTED
    )
