"""From what is there and what is wanted to a plan: the difference of two pictures. Pure.

Order: custom traits, renames, new and moved providers from the top down, traits and aggregates, one
reshape per group of trees that share consumers, and then what became empty, bottom up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.engine import standard
from osc_placement.model import allocation, inventory, provider
from osc_placement.plan import change
from osc_placement.plan.kinds import reshape
from osc_placement.workflows.reshape import (
    consumers as reshape_consumers,
    resolve,
    snapshot,
)

_MADE, _RENAMED, _BUILT = -1, 1, 2

#: So many trees are named when they go in one request.
_NAMED = 3

_NEW = "the reshape needs it"
_STRIPPED = "it goes"


def after(
    seen: snapshot.TreeSnapshot,
    meant: resolve.Wanted,
    inventories: Mapping[str, inventory.Inventories],
    placed: Sequence[reshape_consumers.Placed],
) -> snapshot.TreeSnapshot:
    """The picture as it shall be, before anything that becomes empty goes."""
    nodes = {
        uuid: node.replace(inventories=inventories[uuid]) for uuid, node in meant.nodes.items()
    }
    outside = {uuid: node for uuid, node in seen.nodes.items() if uuid not in nodes}
    placed_nodes = _with_roots(nodes)
    roots = frozenset(node.provider.root_uuid or uuid for uuid, node in placed_nodes.items())
    moved = snapshot.TreeSnapshot({**placed_nodes, **outside}, roots | seen.roots, seen.consumers)
    return moved.with_consumers(_moved(seen.consumers, placed))


def without(after: snapshot.TreeSnapshot, deleted: Iterable[str]) -> snapshot.TreeSnapshot:
    """The picture when what became empty is gone."""
    gone = set(deleted)
    kept = {uuid: node for uuid, node in after.nodes.items() if uuid not in gone}
    return after.replace(nodes=kept, roots=after.roots - gone)


def _with_roots(nodes: Mapping[str, snapshot.Node]) -> dict[str, snapshot.Node]:
    """The nodes with the roots that their parents give them."""

    def root(uuid: str) -> str:
        parent = nodes[uuid].provider.parent_uuid
        return uuid if parent is None or parent not in nodes else root(parent)

    return {
        uuid: node.replace(provider=dataclasses.replace(node.provider, root_uuid=root(uuid)))
        for uuid, node in nodes.items()
    }


def _moved(
    consumers: Mapping[str, allocation.Consumer], placed: Sequence[reshape_consumers.Placed]
) -> dict[str, allocation.Consumer]:
    """The consumers with every demand taken from where it is, and put where it goes."""
    found = {
        uuid: {key: dict(has) for key, has in consumer.allocations.items()}
        for uuid, consumer in consumers.items()
    }
    for item in placed:
        of = found[item.demand.consumer]
        for resource_class, amount in item.demand.resources.items():
            _take(of[item.demand.source], resource_class, amount)
    for item in placed:
        of = found[item.demand.consumer]
        target = item.option.target
        of[target] = allocation.add_resources(of.get(target, {}), item.demand.at(item.option))
    return {
        uuid: dataclasses.replace(
            consumers[uuid], allocations={key: has for key, has in of.items() if has}
        )
        for uuid, of in found.items()
    }


def _take(has: dict[str, int], resource_class: str, amount: int) -> None:
    """What is left of nothing is not there."""
    has[resource_class] -= amount
    if not has[resource_class]:
        del has[resource_class]


def changes(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    meant: resolve.Wanted,
    reasons: Mapping[str, str] | None = None,
) -> list[change.Change]:
    """Everything that makes ``after`` of ``before``, and then deletes what is empty.

    ``reasons`` is ``{root uuid: why}`` for the reshape of that tree.
    """
    return list(_Compiler(before, after, meant, reasons or {}).changes())


class _Compiler:
    def __init__(
        self,
        before: snapshot.TreeSnapshot,
        after: snapshot.TreeSnapshot,
        meant: resolve.Wanted,
        reasons: Mapping[str, str],
    ) -> None:
        self._before, self._after, self._deleted = before, after, meant.deleted
        self._reasons = reasons
        self._tree = provider.ProviderTree(node.provider for _, node in after.inside())
        self._depth = {item.uuid: depth for depth, item in self._tree.walk()}
        deepest = max(self._depth.values(), default=0)
        self._traits = _BUILT + deepest + 1
        self._reshape = self._traits + 2
        self._stripped = self._reshape + 1
        self._cut = self._stripped + 2
        self._moving = list(self._movers())
        self._groups = self._grouped(meant)

    def changes(self) -> Iterator[change.Change]:
        yield from self._custom_traits()
        for uuid, node in self._after.inside():
            known = self._before.nodes.get(uuid)
            yield from self._provider(uuid, node, known)
            yield from self._memberships(uuid, node, known or snapshot.Node(node.provider))
        yield from self._reshapes()
        yield from self._deletions()

    def _custom_traits(self) -> Iterator[change.Change]:
        known = self._before.traits.union(*(node.traits for node in self._before.nodes.values()))
        target = {name for _, node in self._after.inside() for name in node.traits}
        for name in sorted(target - known - standard.traits()):
            subject = change.Subject(name, name)
            yield change.Change(
                change.TRAIT, subject, {name: False}, {name: True}, reason=_NEW, stage=_MADE
            )

    def _provider(
        self, uuid: str, node: snapshot.Node, known: snapshot.Node | None
    ) -> Iterator[change.Change]:
        target = _identity(node.provider)
        before = _identity(known.provider) if known else dict.fromkeys(target)
        if before == target:
            return
        # From the top down every parent stands in its place before anything goes below it.
        stays = known is not None and before["parent"] == target["parent"]
        # A name has to be free for who takes it.
        stage = _RENAMED if stays else _BUILT + self._depth[uuid]
        if known is not None:
            changed = [key for key in target if target[key] != before[key]]
            before = {key: before[key] for key in changed}
            target = {key: target[key] for key in changed}
        yield self._change(change.PROVIDER, uuid, before, target, stage)

    def _memberships(
        self, uuid: str, node: snapshot.Node, known: snapshot.Node
    ) -> Iterator[change.Change]:
        for kind, stage, was, now in (
            (change.TRAITS, self._traits, known.traits, node.traits),
            (change.AGGREGATES, self._traits + 1, known.aggregates, node.aggregates),
        ):
            differing = sorted(was ^ now)
            if differing:
                facts_before = {name: name in was for name in differing}
                facts_after = {name: name in now for name in differing}
                yield self._change(kind, uuid, facts_before, facts_after, stage)

    def _deletions(self) -> Iterator[change.Change]:
        """Bare first, so that taking it back dresses them again."""
        for uuid in sorted(self._deleted):
            node = self._after.nodes[uuid]
            for kind, stage, has in (
                (change.TRAITS, self._stripped, node.traits),
                (change.AGGREGATES, self._stripped + 1, node.aggregates),
            ):
                if has:
                    before, target = dict.fromkeys(sorted(has), True), dict.fromkeys(has, False)
                    yield self._change(kind, uuid, before, target, stage, _STRIPPED)
            identity = _identity(node.provider)
            stage = self._cut + max(self._depth.values()) - self._depth[uuid]
            yield self._change(
                change.PROVIDER, uuid, identity, dict.fromkeys(identity), stage, "it is empty"
            )

    def _change(
        self,
        kind: str,
        uuid: str,
        before: change.Facts,
        after: change.Facts,
        stage: int,
        reason: str = "",
    ) -> change.Change:
        node = self._after.nodes[uuid]
        return change.Change(
            kind,
            change.Subject(node.provider.name, uuid),
            before,
            after,
            reason=reason,
            stage=stage,
            group=self._group_of(uuid),
        )

    def _group_of(self, uuid: str) -> str:
        root = self._after.root_of(uuid)
        return min(self._groups.get(root, {root}))

    def _reshapes(self) -> Iterator[change.Change]:
        """One for each group of trees, with all that changes in them."""
        providers: dict[str, list[str]] = {}
        consumers: dict[str, list[str]] = {}
        for uuid in self._changed_providers():
            providers.setdefault(self._group_of(uuid), []).append(uuid)
        for uuid, places in self._moving:
            consumers.setdefault(self._group_of(places[0]), []).append(uuid)
        for name in sorted(providers):
            yield self._reshaped(name, providers[name], consumers.get(name, []))

    def _reshaped(
        self, group: str, providers: Sequence[str], consumers: Sequence[str]
    ) -> change.Change:
        before, target = self._facts(providers, consumers)
        roots = self._groups[group]
        ordered = sorted(roots, key=lambda uuid: (self._after.name_of(uuid), uuid))
        names = [self._after.name_of(uuid) for uuid in ordered]
        return change.Change(
            change.RESHAPE,
            change.Subject(_listed(names), group),
            before,
            target,
            reason="; ".join(self._reasons[uuid] for uuid in ordered if uuid in self._reasons),
            stage=self._reshape,
            group=group,
        )

    def _facts(
        self, providers: Iterable[str], consumers: Sequence[str]
    ) -> tuple[dict[str, change.Value], dict[str, change.Value]]:
        """The facts of one reshape, before and after."""
        was: dict[str, change.Value] = {}
        now: dict[str, change.Value] = {}
        others: dict[str, change.Value] = {}
        moving = [self._before.consumers[uuid].allocations for uuid in consumers]
        for uuid in providers:
            known = self._before.nodes.get(uuid, snapshot.Node(self._after.nodes[uuid].provider))
            offered, offers = known.inventories, self._after.nodes[uuid].inventories
            classes = _differing(offered, offers)
            was |= reshape.of_inventories(uuid, offered, classes)
            now |= reshape.of_inventories(uuid, offers, classes)
            held = allocation.add_resources(*(has.get(uuid, {}) for has in moving))
            others |= {
                reshape.of_others(uuid, name): known.used.get(name, 0) - held.get(name, 0)
                for name in classes
            }
        for uuid in consumers:
            _add_allocations(self._before.consumers[uuid], self._after.consumers[uuid], was, now)
        return was | others, now | others

    def _grouped(self, meant: resolve.Wanted) -> dict[str, set[str]]:
        """``{root: all roots that go in one request with it}``."""
        touched = {*self._changed_providers(), *(key for _, keys in self._moving for key in keys)}
        groups = {root: {root} for root in map(self._after.root_of, touched)}
        for uuid, _ in self._moving:
            used = {
                *self._before.consumers[uuid].allocations,
                *self._after.consumers[uuid].allocations,
            }
            _join(groups, {self._after.root_of(key) for key in used if self._after.is_inside(key)})
        for shift in meant.shifts:
            _join(groups, {self._after.root_of(key) for key in (shift.source, shift.target)})
        return groups

    def _movers(self) -> Iterator[tuple[str, list[str]]]:
        """``(consumer, providers of which it has something else than before)``"""
        for uuid, consumer in sorted(self._after.consumers.items()):
            places = _changed_places(self._before.consumers[uuid].allocations, consumer.allocations)
            if places:
                yield uuid, places

    def _changed_providers(self) -> Iterator[str]:
        for uuid, node in self._after.inside():
            known = self._before.nodes.get(uuid)
            if (known.inventories if known is not None else {}) != node.inventories:
                yield uuid


def _listed(names: Sequence[str]) -> str:
    """What people call a group of trees."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _changed_places(before: allocation.Allocations, after: allocation.Allocations) -> list[str]:
    """The providers of which a consumer has something else than before."""
    return [
        uuid
        for uuid in sorted({*before, *after})
        if dict(before.get(uuid, {})) != dict(after.get(uuid, {}))
    ]


def _join(groups: dict[str, set[str]], roots: Iterable[str]) -> None:
    together: set[str] = set().union(*(groups.get(root, ()) for root in roots))
    for root in together:
        groups[root] = together


def _identity(item: provider.Provider) -> dict[str, change.Value]:
    return {"name": item.name, "parent": item.parent_uuid}


def _differing(before: inventory.Inventories, after: inventory.Inventories) -> list[str]:
    """The classes that two inventories do not have in common as they are."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def _add_allocations(
    before: allocation.Consumer,
    after: allocation.Consumer,
    was: dict[str, change.Value],
    now: dict[str, change.Value],
) -> None:
    for uuid in sorted({*before.allocations, *after.allocations}):
        had, has = before.allocations.get(uuid, {}), after.allocations.get(uuid, {})
        for name in sorted(had.keys() | has.keys()):
            if had.get(name) != has.get(name):
                key = reshape.of_allocation(before.uuid, uuid, name)
                was[key], now[key] = had.get(name), has.get(name)
