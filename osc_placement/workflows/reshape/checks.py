# SPDX-License-Identifier: Apache-2.0
"""Checks of a reshape: laws, reasons to refuse its document, and notes for the operator. Pure.

* A consumer keeps its sums, no provider gets over capacity, and amounts suit the units.
* Refusals are deletions and moves that would not work or would not last. Nova-compute writes the
  inventories of its own trees at each periodic run. With libvirt these are VCPU, MEMORY_MB and
  others on the root, VGPU on children with the name ``<root's name>_<physical GPU>``, and
  MEM_ENCRYPTION_CONTEXT on children such as ``<root's name>_amd_sev``. A move to this shape lasts;
  any other is reverted or duplicated within a minute.

An example, with a move of 4 VCPU of cn1 to PCPU of cn1::

    before  cn1: 16 VCPU; server a has 4 VCPU
    after   cn1: 12 VCPU, 4 PCPU; server a has 4 PCPU   kept: VCPU and PCPU count as one class
    after   cn1: 12 VCPU, 4 PCPU; server a has 4 VCPU   kept: a stays on shared CPUs
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from osc_placement import errors
from osc_placement.model import allocation
from osc_placement.nova import pci
from osc_placement.nova.flavor import MEM_ENCRYPTION_CONTEXT
from osc_placement.plan import guards
from osc_placement.plan.kinds.inventories import ONE_TIME_USE, is_used_up
from osc_placement.plan.reasons import Code
from osc_placement.scheduling.traits import ENCRYPTION_MODELS, OWNER
from osc_placement.search import placing
from osc_placement.search.placing import Slot
from osc_placement.workflows.reshape import resolve, snapshot
from osc_placement.workflows.reshape.decision import ReshapeDecision


def _sums_of_consumers(decision: ReshapeDecision) -> Iterator[str]:
    """A consumer has as much as before, over all providers.

    Classes of which one becomes the other, such as VCPU and PCPU, count as the first of them.
    """
    # Lists of (class, becomes) pairs; pairs with a class in common are in the same list.
    groups = placing.separate(
        [(move.source[1], move.to[1]) for move in decision.resolved.moves], tuple
    )
    classes = {name: pairs[0][0] for pairs in groups for pair in pairs for name in pair}
    for uuid, was in sorted(decision.before.consumers.items()):
        now = decision.after.consumers[uuid]
        if _counted(was, classes) != _counted(now, classes):
            yield f"consumer {uuid} would have {now.total()} in sum instead of {was.total()}"


def _capacities(decision: ReshapeDecision) -> Iterator[str]:
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


def _units(decision: ReshapeDecision) -> Iterator[str]:
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


_LAWS = (_sums_of_consumers, _capacities, _units)


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


def check(decision: ReshapeDecision, allow: Collection[str], reasons: Iterable[str]) -> None:
    """Raise Refused with ``reasons`` and all refusals; ``allow`` are the guards to skip.

    Only what is not refused is held against the laws.
    """
    before, resolved = decision.before, decision.resolved
    refused = {Code.RESHAPE_REFUSED: [*reasons, *_impossible_deletions(before, resolved)]}
    for guard, code, refusals in (
        (guards.ONE_TIME_USE, Code.ONE_TIME_USE, _released),
        (guards.NOVA_OWNED, Code.NOVA_OWNED, _nova_owned),
    ):
        refused[code] = [] if guard in allow else [*refusals(before, resolved)]
    if not any(refused.values()):
        refused[Code.RESHAPE_REFUSED] = [reason for law in _LAWS for reason in law(decision)]
    first = next((code for code, texts in refused.items() if texts), None)
    if first is not None:
        raise Refused(dict.fromkeys(itertools.chain(*refused.values())), first)


def _released(before: snapshot.TreeSnapshot, resolved: resolve.Resolved) -> Iterator[str]:
    """One-time-use devices in use that would get capacity, where they are or where they move."""
    slots: dict[Slot, set[Slot]] = {}
    for move in resolved.moves:
        slots.setdefault(move.source, {move.source}).add(move.to)
    devices = {
        (uuid, name): node
        for uuid, node in before.inside.items()
        for name, item in node.inventories.items()
        if ONE_TIME_USE in node.traits and node.used.get(name) and is_used_up(item)
    }
    for (uuid, name), node in devices.items():
        for key, becomes in sorted(slots.get((uuid, name), {(uuid, name)})):
            renewed = resolved.nodes[key].inventories.get(becomes)
            if renewed is not None and renewed.capacity > 0:
                yield (
                    f"{resolved.document.at(0)}{becomes} of the one-time-use device"
                    f" {resolved.name_of(key)} would be free with {node.used[name]} in use"
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
        f"{resolved.document.at(line)}nova-compute owns the tree of"
        f" {before.name_of(before.root_of(uuid))} and writes {name} on {before.name_of(uuid)} at"
        " its next periodic run"
        for line, (uuid, name) in _rewritten(before, resolved, owned)
    ]
    reasons += [
        f"{resolved.document.at(0)}nova-compute finds {name} by its name, and would create it again"
        for name in _lost_names(before, resolved, owned)
    ]
    hint = f" (--allow {guards.NOVA_OWNED} to do it anyway)"
    return [reason + hint for reason in dict.fromkeys(reasons)]


def notes(decision: ReshapeDecision) -> tuple[str, ...]:
    """What an operator should know of a reshape that is not refused."""
    return tuple(text for note in _NOTES for text in note(decision))


def _nova_compute(decision: ReshapeDecision) -> Iterator[str]:
    """When to stop and start nova-compute."""
    before, resolved = decision.before, decision.resolved
    owned = _owned_roots(before)
    written = {uuid for move in resolved.moves for uuid, _ in (move.source, move.to)}
    written |= {uuid for uuid, _ in resolved.growth}
    changed = {before.root_of(uuid) for uuid in written if uuid in before.nodes} & owned
    if changed:
        yield (
            "nova-compute owns the tree of"
            f" {', '.join(sorted(before.name_of(root) for root in changed))}: stop it before the"
            " reshape, and start it only with a release and a configuration that report the new"
            " shape"
        )


def _changed_totals(decision: ReshapeDecision) -> Iterator[str]:
    """One line per class whose sum a document changes."""
    growth = collections.Counter[str]()
    for (_, name), amount in decision.resolved.growth.items():
        growth[name] += amount
    for name, amount in sorted(growth.items()):
        yield f"the document changes the totals: {name} {amount:+} in sum"


def _over_capacity(decision: ReshapeDecision) -> Iterator[str]:
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


def _guesses(decision: ReshapeDecision) -> Iterator[str]:
    """One line per provider with the consumers that a strategy placed there."""
    guesses: dict[tuple[str, str], list[str]] = {}
    for placed in decision.placed:
        if placed.guess:
            key = decision.after.name_of(placed.option.root_uuid), placed.guess
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


def _rewritten(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[tuple[int, Slot]]:
    """``(line, slot)`` of each move and given total that nova-compute reverts by writing it."""

    def is_written(slot: Slot) -> bool:
        uuid, name = slot
        if uuid not in before.nodes or before.root_of(uuid) not in owned:
            return False
        return name in _REPORTED or pci.MANAGED in before.nodes[uuid].traits

    for move in resolved.moves:
        roots = {before.root_of(uuid) for uuid, _ in (move.source, move.to) if uuid in before.nodes}
        if is_written(move.source):
            if not _matches_nova_compute(move, before, resolved):
                yield move.line, move.source
        elif is_written(move.to) and (len(roots) > 1 or move.source[0] not in before.nodes):
            yield move.line, move.to
    for slot in sorted(filter(is_written, resolved.growth)):
        yield 0, slot


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
    move: resolve.InventoryMove, before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> bool:
    """Whether nova-compute makes the same move itself."""
    (source, name), (uuid, becomes) = move.source, move.to
    if source == uuid:
        return (name, becomes) in {("VCPU", "PCPU"), ("PCPU", "VCPU")}
    root, after = before.root_of(source), resolved.nodes[uuid].provider
    suffix = after.name.removeprefix(f"{before.name_of(root)}_")
    if after.parent_uuid != root or suffix == after.name or name != becomes:
        return False
    return becomes == "VGPU" or (becomes == MEM_ENCRYPTION_CONTEXT and suffix in _ENCRYPTED)
