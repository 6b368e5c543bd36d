"""Memory of partial candidates that cannot be completed.

Equal providers and equal groups are interchangeable: what cannot be completed with one of them
cannot be completed with another. So a dead end is recognized by what is taken from how many
providers of which kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from osc_placement.engine import record, state
from osc_placement.model import allocation

#: Dead ends of one tree that are kept; each takes about eight bytes per provider in use.
MAX_KEPT = 50_000

Key = tuple[int, ...]


class DeadEnds:
    """The dead ends of one tree.

    ``options`` are the providers of each level, ``classes`` the resource classes of several slots.
    """

    def __init__(
        self,
        base: state.State,
        options: Iterable[Sequence[record.ProviderRecord]],
        classes: Iterable[str],
    ) -> None:
        self._base = base
        self._classes = sorted(classes)
        self._levels: dict[str, list[int]] = {}
        self._numbers: dict[object, int] = {}
        self._kinds: dict[str, int] = {}
        self._kept: set[Key] = set()
        distinct = {id(providers): providers for providers in options}
        for number, providers in enumerate(distinct.values()):
            for provider in providers:
                self._levels.setdefault(provider.uuid, []).append(number)

    def key(
        self,
        depth: int,
        used: Iterable[str],
        allocations: Mapping[str, allocation.Resources],
    ) -> Key:
        """A partial candidate: equal keys can be completed in the same way.

        ``used`` are its providers, with or without allocations.
        """
        taken = (
            self._number((self._kind(uuid), frozenset(allocations.get(uuid, {}).items())))
            for uuid in used
        )
        return (depth, *sorted(taken))

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def add(self, key: Key) -> None:
        """Remember a dead end."""
        if len(self._kept) < MAX_KEPT:
            self._kept.add(key)

    def _number(self, value: object) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _kind(self, uuid: str) -> int:
        kind = self._kinds.get(uuid)
        if kind is None:
            inventories = self._base.providers[uuid].inventories
            used = self._base.used(uuid)
            amounts = tuple(
                (name, inventory.max_unit, inventory.capacity - used.get(name, 0))
                for name in self._classes
                if (inventory := inventories.get(name)) is not None
            )
            kind = self._kinds[uuid] = self._number((tuple(self._levels.get(uuid, ())), amounts))
        return kind
