"""The invariants of a reshape, checked between the snapshots before and after. Pure.

They are checked for the planned result, and again for the result of the rehearsal.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from osc_placement.model import allocation, inventory
from osc_placement.workflows.reshape import consumers, resolve, snapshot

#: ``{resource class: the class that it counts as}``: joined classes count as one.
Classes = Mapping[str, str]


def join_classes(moves: Iterable[resolve.InventoryMove]) -> dict[str, str]:
    """Join the classes of which one becomes the other; the first name stands for all."""
    found: dict[str, str] = {}
    for move in moves:
        one, other = move.resource_class, move.becomes
        first, second = found.get(one, one), found.get(other, other)
        for name in [*found, one, other]:
            if found.get(name, name) in (first, second):
                found[name] = min(first, second)
    return found


class Expected(NamedTuple):
    """What a document changes: the classes that its moves join, and the totals that it gives.

    ``growth`` is ``{place: how much its total changes besides the moves}``.
    """

    classes: Classes = {}
    growth: Mapping[resolve.Place, int] = {}


def expected(resolved: resolve.Resolved) -> Expected:
    """What the invariants must allow for a document."""
    return Expected(join_classes(resolved.moves), resolved.growth)


def violations(
    before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot, allowed: Expected
) -> list[str]:
    """The invariants that ``after`` violates."""
    return [
        *_consumers(before, after, allowed.classes),
        *_totals(before, after, allowed),
        *_capacities(before, after),
        *_units(before, after),
        *_outside(before, after),
    ]


def unexpected_changes(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    moves: Iterable[resolve.InventoryMove],
    given: Collection[resolve.Place],
    given_growth: Mapping[resolve.Place, int] | None = None,
) -> Iterator[str]:
    """Changes that no move and no given total explains.

    ``given`` are the places with given inventory fields, ``given_growth`` is of their totals.
    """
    growth = collections.Counter(given_growth or {})
    for move in moves:
        growth[move.origin] -= move.amount
        growth[move.destination] += move.amount
    was, now = _inventories(before), _inventories(after)
    for place in sorted(was.keys() | now.keys() | growth.keys()):
        old, new = was.get(place), now.get(place)
        difference = (new.total if new else 0) - (old.total if old else 0)
        expected = place in growth or place in given or old == new
        if difference != growth[place] or not expected:
            yield f"{place[1]} of {after.name_of(place[0])} would change without a move"
    for uuid, consumer in sorted(after.consumers.items()):
        if unexpected := _changed(before.consumers[uuid], consumer) - growth.keys():
            names = ", ".join(f"{name} of {after.name_of(key)}" for key, name in sorted(unexpected))
            yield f"consumer {uuid} would have another amount of {names}, without a move"


def misplaced(after: snapshot.TreeSnapshot, placed: Iterable[consumers.Placed]) -> Iterator[str]:
    """Consumers without the amounts that were decided, or against the evidence."""
    for each in placed:
        move = each.move
        held = after.consumers[move.consumer].allocations.get(move.target, {})
        is_there = all(held.get(name, 0) >= amount for name, amount in move.given.items())
        if not is_there or each.demand.assigned not in (None, each.option):
            yield f"consumer {move.consumer} would not be on its target"


def differences(found: snapshot.TreeSnapshot, expected: snapshot.TreeSnapshot) -> list[str]:
    """The differences in named trees and consumers, without generations."""
    names = {**expected.names(), **found.names()}
    inside = {uuid for each in (found, expected) for uuid in each.inside}
    return [
        f"{names[uuid]}: {what}"
        for uuid in sorted(inside)
        for what in _node_differences(found.nodes.get(uuid), expected.nodes.get(uuid))
    ] + [
        f"consumer {uuid} differs"
        for uuid in sorted(found.consumers.keys() | expected.consumers.keys())
        if _comparable(found.consumers.get(uuid)) != _comparable(expected.consumers.get(uuid))
    ]


def _consumers(
    before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot, classes: Classes
) -> Iterator[str]:
    for uuid in sorted(before.consumers.keys() | after.consumers.keys()):
        was, now = before.consumers.get(uuid), after.consumers.get(uuid)
        if was is None or now is None:
            yield f"consumer {uuid} would {'appear' if was is None else 'disappear'}"
            continue
        if _owner(was) != _owner(now):
            yield f"consumer {uuid} would have another owner"
        if _counted(was, classes) != _counted(now, classes):
            yield f"consumer {uuid} would have {now.total()} in sum instead of {was.total()}"


def _totals(
    before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot, allowed: Expected
) -> Iterator[str]:
    target, now = _offered(before, allowed.classes), _offered(after, allowed.classes)
    for (_, name), amount in allowed.growth.items():
        target[allowed.classes.get(name, name)] += amount
    for resource_class in sorted(target.keys() | now.keys()):
        if target[resource_class] != now[resource_class]:
            yield (
                f"the trees would have {now[resource_class]} {resource_class} in sum"
                f" instead of {target[resource_class]}"
            )


def _capacities(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
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


def _units(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
    for uuid, consumer in sorted(after.consumers.items()):
        was = before.consumers.get(uuid)
        if was is None or was.allocations == consumer.allocations:
            continue
        for provider_uuid, resources in consumer.allocations.items():
            offered = after.nodes[provider_uuid].inventories
            for resource_class, amount in resources.items():
                held = offered.get(resource_class)
                if held is not None and not held.suits_units(amount):
                    yield (
                        f"{amount} {resource_class} of consumer {uuid} does not suit"
                        f" {after.name_of(provider_uuid)}: min_unit {held.min_unit},"
                        f" max_unit {held.max_unit}, step_size {held.step_size}"
                    )


def _outside(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
    for uuid, node in before.nodes.items():
        if before.is_inside(uuid):
            continue
        now = after.nodes.get(uuid)
        if now is None or (now.inventories, _present(now.used)) != (
            node.inventories,
            _present(node.used),
        ):
            yield f"{node.provider.name} is outside the named trees and would change"
    for uuid, consumer in before.consumers.items():
        now_has = after.consumers[uuid].allocations if uuid in after.consumers else {}
        for provider_uuid, resources in consumer.allocations.items():
            outside = not before.is_inside(provider_uuid)
            if outside and dict(now_has.get(provider_uuid, {})) != dict(resources):
                name = before.name_of(provider_uuid)
                yield f"consumer {uuid} would lose its allocation on {name}"


def _offered(trees: snapshot.TreeSnapshot, classes: Classes) -> collections.Counter[str]:
    """The totals of the named trees by class."""
    total: collections.Counter[str] = collections.Counter()
    for (_, name), held in _inventories(trees).items():
        total[classes.get(name, name)] += held.total
    return total


def _inventories(trees: snapshot.TreeSnapshot) -> dict[resolve.Place, inventory.Inventory]:
    return {
        (uuid, name): held
        for uuid, node in trees.inside.items()
        for name, held in node.inventories.items()
    }


def _changed(before: allocation.Consumer, after: allocation.Consumer) -> set[resolve.Place]:
    """The places where a consumer has another amount."""
    was, now = (
        {
            (uuid, name, amount)
            for uuid, held in consumer.allocations.items()
            for name, amount in held.items()
        }
        for consumer in (before, after)
    )
    return {(uuid, name) for uuid, name, _ in was ^ now}


def _counted(consumer: allocation.Consumer, classes: Classes) -> dict[str, int]:
    """The amounts of a consumer by class, on all providers."""
    total: collections.Counter[str] = collections.Counter()
    for held in consumer.allocations.values():
        for name, amount in held.items():
            total[classes.get(name, name)] += amount
    return total


def _owner(consumer: allocation.Consumer) -> tuple[str | None, ...]:
    return consumer.project_id, consumer.user_id, consumer.consumer_type


def _comparable(consumer: allocation.Consumer | None) -> object:
    if consumer is None:
        return None
    allocations = {uuid: dict(resources) for uuid, resources in consumer.allocations.items()}
    return allocations, _owner(consumer)


def _node_differences(found: snapshot.Node | None, expected: snapshot.Node | None) -> Iterator[str]:
    if found is None or expected is None:
        yield "it does not exist" if found is None else "it still exists"
        return
    for what, of in (
        ("name", lambda node: node.provider.name),
        ("parent", lambda node: node.provider.parent_uuid),
        ("inventories", lambda node: dict(node.inventories)),
        ("usage", lambda node: _present(node.used)),
        ("traits", lambda node: node.traits),
        ("aggregates", lambda node: node.aggregates),
    ):
        if of(found) != of(expected):
            yield f"{what} {of(found)} instead of {of(expected)}"


def _present(used: allocation.Resources) -> dict[str, int]:
    return {name: amount for name, amount in used.items() if amount}
