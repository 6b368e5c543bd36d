"""What no reshape may break, checked between two pictures: before and after. Pure.

Asked of the compiled plan and, again, of what a rehearsal has left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from osc_placement.model import allocation, inventory
from osc_placement.workflows.reshape import snapshot

#: A provider's UUID and a class.
Place = tuple[str, str]

#: ``{resource class: what it counts as}``: classes that a declared change joins count as one.
Classes = Mapping[str, str]


def joined(changes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Classes that declared changes ``(from, to)`` join, each by one name of its kind."""
    found: dict[str, str] = {}
    for one, other in changes:
        first, second = found.get(one, one), found.get(other, other)
        for name in [*found, one, other]:
            if found.get(name, name) in (first, second):
                found[name] = min(first, second)
    return found


def broken(
    before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot, classes: Classes | None = None
) -> list[str]:
    """Every rule that ``after`` breaks; empty when all is well."""
    known = classes or {}
    return [
        *_consumers(before, after, known),
        *_totals(before, after, known),
        *_capacities(before, after),
        *_units(before, after),
        *_outside(before, after),
    ]


def strayed(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    moves: Iterable[tuple[Place, Place, int]],
    told: Collection[Place],
) -> Iterator[str]:
    """What would change though no move is about it.

    ``moves`` are from where to where and how much of the total; ``told`` are the places of
    which somebody gave fields of inventories.
    """
    grows: dict[Place, int] = {}
    for source, target, amount in moves:
        grows[source] = grows.get(source, 0) - amount
        grows[target] = grows.get(target, 0) + amount
    offered, offers = _inventories(before), _inventories(after)
    for place in sorted(offered.keys() | offers.keys() | grows.keys()):
        was, now = offered.get(place), offers.get(place)
        growth = (now.total if now else 0) - (was.total if was else 0)
        kept = place in grows or place in told or was == now
        if growth != grows.get(place, 0) or not kept:
            yield f"{place[1]} of {after.name_of(place[0])} would change beside what is moved"
    for uuid, consumer in sorted(after.consumers.items()):
        if strange := _changed(before.consumers[uuid], consumer) - grows.keys():
            names = ", ".join(f"{name} of {after.name_of(key)}" for key, name in sorted(strange))
            yield f"consumer {uuid} would have another amount of {names}, which is not moved"


def difference(one: snapshot.TreeSnapshot, other: snapshot.TreeSnapshot) -> list[str]:
    """Where two pictures differ in named trees and consumers, but for generations."""
    names = {**other.names(), **one.names()}
    inside = {uuid for seen in (one, other) for uuid, _ in seen.inside()}
    found = [
        f"{names[uuid]}: {what}"
        for uuid in sorted(inside)
        for what in _nodes_differ(one.nodes.get(uuid), other.nodes.get(uuid))
    ]
    return found + [
        f"consumer {uuid} is not as it should be"
        for uuid in sorted(one.consumers.keys() | other.consumers.keys())
        if _plain(one.consumers.get(uuid)) != _plain(other.consumers.get(uuid))
    ]


def _consumers(
    before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot, classes: Classes
) -> Iterator[str]:
    for uuid in sorted(before.consumers.keys() | after.consumers.keys()):
        was, now = before.consumers.get(uuid), after.consumers.get(uuid)
        if was is None or now is None:
            yield f"consumer {uuid} would {'appear' if was is None else 'vanish'}"
            continue
        if _owner(was) != _owner(now):
            yield f"consumer {uuid} would change hands"
        if _counted(was.total(), classes) != _counted(now.total(), classes):
            yield f"consumer {uuid} would have {now.total()} in all instead of {was.total()}"


def _totals(
    before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot, classes: Classes
) -> Iterator[str]:
    was, now = _offered(before, classes), _offered(after, classes)
    for resource_class in sorted(was.keys() | now.keys()):
        if was.get(resource_class, 0) != now.get(resource_class, 0):
            yield (
                f"the trees would offer {now.get(resource_class, 0)} {resource_class} in all"
                f" instead of {was.get(resource_class, 0)}"
            )


def _capacities(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
    for uuid, node in after.nodes.items():
        old = before.nodes.get(uuid)
        for resource_class, used in sorted(node.used.items()):
            held = node.inventories.get(resource_class)
            capacity = held.capacity if held is not None else 0
            same = old is not None and (old.inventories.get(resource_class), used) == (
                held,
                old.used.get(resource_class, 0),
            )
            if used > capacity and not same:
                name = after.name_of(uuid)
                yield f"{name} would be over capacity: {used} {resource_class} used of {capacity}"


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
            yield f"{node.provider.name} is in none of the named trees and would change"
    for uuid, consumer in before.consumers.items():
        now_has = after.consumers[uuid].allocations if uuid in after.consumers else {}
        for provider_uuid, resources in consumer.allocations.items():
            outside = not before.is_inside(provider_uuid)
            if outside and dict(now_has.get(provider_uuid, {})) != dict(resources):
                yield f"consumer {uuid} would lose what it has of {before.name_of(provider_uuid)}"


def _offered(seen: snapshot.TreeSnapshot, classes: Classes) -> dict[str, int]:
    total: dict[str, int] = {}
    for _, node in seen.inside():
        for resource_class, held in node.inventories.items():
            name = classes.get(resource_class, resource_class)
            total[name] = total.get(name, 0) + held.total
    return total


def _inventories(seen: snapshot.TreeSnapshot) -> dict[Place, inventory.Inventory]:
    return {
        (uuid, name): held
        for uuid, node in seen.inside()
        for name, held in node.inventories.items()
    }


def _changed(before: allocation.Consumer, after: allocation.Consumer) -> set[Place]:
    """The places of which a consumer has another amount."""
    was, now = (
        {
            (uuid, name, amount)
            for uuid, has in item.allocations.items()
            for name, amount in has.items()
        }
        for item in (before, after)
    )
    return {(uuid, name) for uuid, name, _ in was ^ now}


def _counted(resources: allocation.Resources, classes: Classes) -> dict[str, int]:
    return allocation.add_resources(
        *({classes.get(name, name): amount} for name, amount in resources.items())
    )


def _owner(consumer: allocation.Consumer) -> tuple[str | None, ...]:
    return consumer.project_id, consumer.user_id, consumer.consumer_type


def _plain(consumer: allocation.Consumer | None) -> object:
    if consumer is None:
        return None
    allocations = {uuid: dict(resources) for uuid, resources in consumer.allocations.items()}
    return allocations, _owner(consumer)


def _nodes_differ(one: snapshot.Node | None, other: snapshot.Node | None) -> Iterator[str]:
    if one is None or other is None:
        yield "it is there" if one is None else "it is not there"
        return
    for what, of in (
        ("name", lambda node: node.provider.name),
        ("parent", lambda node: node.provider.parent_uuid),
        ("inventories", lambda node: dict(node.inventories)),
        ("usage", lambda node: _present(node.used)),
        ("traits", lambda node: node.traits),
        ("aggregates", lambda node: node.aggregates),
    ):
        if of(one) != of(other):
            yield f"{what} {of(other)} instead of {of(one)}"


def _present(used: allocation.Resources) -> dict[str, int]:
    return {name: amount for name, amount in used.items() if amount}
