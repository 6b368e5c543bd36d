# SPDX-License-Identifier: Apache-2.0
"""The changes of a reshape: the difference of two snapshots, in the order of execution. Pure.

Order: custom traits, renames, new and moved providers from the top down, traits and aggregates, one
reshape per group of trees that share consumers, and then the deletions, from the bottom up.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_placement.model import allocation, inventory, provider
from osc_placement.model.name import and_more, counted, is_custom
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import memberships, reshape
from osc_placement.plan.kinds.provider import ABSENT, TYPE, ProviderState
from osc_placement.search import placing
from osc_placement.workflows.reshape import assignment, resolve, snapshot
from osc_placement.workflows.reshape.decision import ReshapeDecision

_CUSTOM_TRAITS, _RENAMES, _PARENTS = -1, 1, 2

_NEEDED = "the reshape needs it"
_DELETED = "its provider is deleted"


def make_plan(
    decision: ReshapeDecision,
    skipped: Iterable[change.Skipped],
    notes: Sequence[str] = (),
    allow: Collection[str] = (),
) -> plan.Plan:
    """The plan of a decision, with notes and the capacities that change."""
    listed = list(_Changes(decision).all())
    capacities = _capacities(decision.before, listed)
    return plan.make(
        [*listed, *skipped],
        # A relative plan keeps its file, and is never computed again after concurrent changes.
        relative=True,
        allow=tuple(sorted(allow)),
        names=decision.after.names(),
        notes=tuple(notes),
        capacities=capacities,
    )


def _capacities(
    before: snapshot.TreeSnapshot, changes: Sequence[change.Change[Any]]
) -> dict[str, plan.CapacityChange]:
    """``{resource class: Capacity}`` over the named trees, for the classes that change."""
    capacity = reshape.capacities({uuid: node.inventories for uuid, node in before.inside.items()})
    touched = sorted({name for item in changes for name in item.capacity})
    return {name: plan.capacity_after(name, capacity[name], changes) for name in touched}


class _Changes:
    def __init__(self, decision: ReshapeDecision) -> None:
        before, after, resolved = decision.before, decision.after, decision.resolved
        self._before, self._after, self._deleted = before, after, resolved.deleted
        self._reasons = _reasons(after, decision.placed)
        self._tree = provider.ProviderTree(node.provider for node in after.inside.values())
        self._depth = {item.uuid: depth for depth, item in self._tree.walk()}
        deepest = max(self._depth.values(), default=0)
        self._traits = _PARENTS + deepest + 1
        self._reshape = self._traits + 2
        self._strip = self._reshape + 1
        self._delete = self._strip + 2
        self._moving = before.changed_allocations(after)
        #: ``{provider: the classes whose inventories change}``
        self._classes = {
            uuid: classes
            for uuid, node in after.inside.items()
            if (classes := _differing(before.offers(uuid), node.inventories))
        }
        self._groups = self._grouped(resolved)

    def all(self) -> Iterator[change.Change[Any]]:
        yield from self._custom_traits()
        for uuid, node in self._after.inside.items():
            was = self._before.nodes.get(uuid)
            yield from self._provider(uuid, node, was)
            start = was or snapshot.Node(node.provider)
            yield from self._memberships(uuid, start, node, self._traits)
        yield from self._reshapes()
        yield from self._deletions()

    def _custom_traits(self) -> Iterator[change.Change[Any]]:
        existing = self._before.traits.union(*(node.traits for node in self._before.nodes.values()))
        now = {name for _, node in self._after.inside.items() for name in node.traits}
        for name in sorted(filter(is_custom, now - existing)):
            yield memberships.creation(name, _NEEDED, _CUSTOM_TRAITS)

    def _provider(
        self, uuid: str, node: snapshot.Node, was: snapshot.Node | None
    ) -> Iterator[change.Change[Any]]:
        now = _identity(node.provider)
        before = _identity(was.provider) if was else ABSENT
        if before == now:
            return
        # From the top down, so that each parent is in place before its children.
        stays = was is not None and before.parent == now.parent
        # Renames come first, because a new provider may take an old name.
        stage = _RENAMES if stays else _PARENTS + self._depth[uuid]
        if was is not None:
            now = _changed(before, now)
            before = TYPE.select(before, now)
        yield self._change(TYPE.name, uuid, before, now, stage)

    def _memberships(
        self, uuid: str, was: snapshot.Node, now: snapshot.Node, stage: int, reason: str = ""
    ) -> Iterator[change.Change[Any]]:
        """The changes of a provider's traits, and in the next stage of its aggregates."""
        kinds: Iterable[
            tuple[memberships.MembershipType[Any], Collection[str], Collection[str]]
        ] = (
            (memberships.TRAITS, was.traits, now.traits),
            (memberships.AGGREGATES, was.aggregates, now.aggregates),
        )
        for at, (kind, old, new) in enumerate(kinds, stage):
            if differing := sorted({*old} ^ {*new}):
                before = kind.state({name: name in old for name in differing})
                after = kind.state({name: name in new for name in differing})
                yield self._change(kind.name, uuid, before, after, at, reason)

    def _deletions(self) -> Iterator[change.Change[Any]]:
        """Remove traits and aggregates before deleting, so that undo restores them."""
        for uuid in sorted(self._deleted):
            node = self._after.nodes[uuid]
            empty = snapshot.Node(node.provider)
            yield from self._memberships(uuid, node, empty, self._strip, _DELETED)
            stage = self._delete + max(self._depth.values()) - self._depth[uuid]
            kind, identity = TYPE.name, _identity(node.provider)
            yield self._change(kind, uuid, identity, ABSENT, stage, "it is empty")

    def _change(
        self,
        kind: str,
        uuid: str,
        before: change.State,
        after: change.State,
        stage: int,
        reason: str = "",
    ) -> change.Change[Any]:
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

    def _reshapes(self) -> Iterator[change.Change[Any]]:
        """One reshape per group of trees, with everything that changes in them."""
        providers: dict[str, list[str]] = {}
        moving: dict[str, list[str]] = {}
        for uuid in self._classes:
            providers.setdefault(self._group_of(uuid), []).append(uuid)
        for uuid, changed in self._moving.items():
            moving.setdefault(self._group_of(next(iter(changed))), []).append(uuid)
        for name in sorted(providers):
            yield self._reshape_group(name, providers[name], moving.get(name, []))

    def _reshape_group(
        self, group: str, providers: Sequence[str], consumers: Sequence[str]
    ) -> change.Change[Any]:
        before, after = self._states(providers, consumers)
        roots = self._groups[group]
        ordered = sorted(roots, key=lambda uuid: (self._after.name_of(uuid), uuid))
        names = [self._after.name_of(uuid) for uuid in ordered]
        capacity = reshape.capacities(after.inventories)
        capacity.subtract(reshape.capacities(before.inventories))
        return change.Change(
            reshape.TYPE.name,
            change.Subject(and_more(names), group),
            before,
            after,
            reason="; ".join(self._reasons[uuid] for uuid in ordered if uuid in self._reasons),
            stage=self._reshape,
            group=group,
            capacity={name: added for name, added in sorted(capacity.items()) if added},
        )

    def _states(
        self, providers: Iterable[str], consumers: Iterable[str]
    ) -> tuple[reshape.ReshapeState, reshape.ReshapeState]:
        """The states of one reshape, before and after."""
        moving = {uuid: self._moving[uuid] for uuid in consumers}
        others: dict[str, dict[str, int]] = {}
        for uuid in providers:
            used = self._before.nodes[uuid].used if uuid in self._before.nodes else {}
            moved = allocation.add_resources(
                *(self._before.consumers[key].allocations.get(uuid, {}) for key in moving)
            )
            others[uuid] = {
                name: used.get(name, 0) - moved.get(name, 0) for name in self._classes[uuid]
            }

        def state(trees: snapshot.TreeSnapshot) -> reshape.ReshapeState:
            inventories = {
                uuid: {name: trees.offers(uuid).get(name) for name in self._classes[uuid]}
                for uuid in others
            }
            allocations = {
                uuid: {
                    key: {
                        name: trees.consumers[uuid].allocations.get(key, {}).get(name, 0)
                        for name in names
                    }
                    for key, names in by_provider.items()
                }
                for uuid, by_provider in moving.items()
            }
            return reshape.ReshapeState(inventories, allocations, others)

        return state(self._before), state(self._after)

    def _grouped(self, resolved: resolve.Resolved) -> dict[str, set[str]]:
        """``{root: all roots that go in one request with it}``."""
        changed = itertools.chain(self._classes, *self._moving.values())
        touched = {self._after.root_of(key) for key in changed}
        before, after = self._before.consumers, self._after.consumers
        together: list[Iterable[str]] = [
            *([root] for root in touched),
            *({*before[uuid].allocations, *after[uuid].allocations} for uuid in self._moving),
            *((move.source[0], move.to[0]) for move in resolved.moves),
        ]
        roots = [touched & {self._after.root_of(key) for key in keys} for keys in together]
        groups = (set().union(*parts) for parts in placing.separate(filter(None, roots), set))
        return {root: group for group in groups for root in group}


def _differing(before: inventory.Inventories, after: inventory.Inventories) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _reasons(
    after: snapshot.TreeSnapshot, placed: Sequence[assignment.Placed]
) -> Mapping[str, str]:
    """``{root uuid: the number of consumers that move, and how many are guessed}``"""
    moved: dict[str, dict[str, bool]] = {}
    for placed_amount in placed:
        guessed = moved.setdefault(after.root_of(placed_amount.request.source), {})
        consumer = placed_amount.request.consumer
        guessed[consumer] = guessed.get(consumer, False) or bool(placed_amount.guess)
    return {
        root: counted(len(guessed), "consumer")
        + (f", {sum(guessed.values())} guessed" if any(guessed.values()) else "")
        for root, guessed in moved.items()
    }


def _identity(item: provider.Provider) -> ProviderState:
    return ProviderState(item.name, item.parent_uuid)


def _changed(before: ProviderState, after: ProviderState) -> ProviderState:
    """The fields of ``after`` that differ."""
    old = before.values()
    changed = {field: value for field, value in after.values().items() if value != old[field]}
    return ProviderState(**changed)
