# SPDX-License-Identifier: Apache-2.0
"""Facts by key: asking for one reads it, and one that cannot be read raises NotKnown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from osc_placement.errors import NotKnown

K = TypeVar("K")
V = TypeVar("V")

#: Reads keys: ``({key: value}, {key: why it cannot be read})``; a key in neither does not exist.
Read = Callable[[list[K]], tuple[Mapping[K, V], Mapping[K, str]]]


class FactTable(Mapping[K, V], Generic[K, V]):
    """``{key: value}`` of what was read; ``problems`` is ``{key: why it cannot be read}``.

    An answer never depends on what somebody remembered to read: asking for another key reads it.
    ``prefetch`` reads many keys in parallel, and is only speed. A key is read once. ``estimate``
    adds values from another source, which are good enough until somebody asks for the exact one.

    Requests: those of ``read`` for a key that was not read. Errors: NotKnown for one that cannot be
    read, KeyError for one that does not exist.
    """

    def __init__(self, read: Read[K, V]) -> None:
        self._read = read
        self._values: dict[K, V] = {}
        self._estimates: dict[K, V] = {}
        self._absent: set[K] = set()
        self.problems: dict[K, str] = {}

    def prefetch(self, keys: Iterable[K]) -> None:
        """Read the keys that were not read. Requests: those of ``read``."""
        lacking = [key for key in dict.fromkeys(keys) if not self._is_read(key)]
        if not lacking:
            return
        values, problems = self._read(lacking)
        self._values |= values
        self.problems |= problems
        self._absent.update(key for key in lacking if not self._is_read(key))

    def estimate(self, values: Mapping[K, V]) -> None:
        """Take estimates; facts that were read stay."""
        self._estimates |= values

    def exact(self, key: K) -> V:
        """A fact, not an estimate. Requests and errors: as asking for a key."""
        self.prefetch([key])
        if key in self.problems:
            raise NotKnown(self.problems[key])
        return self._values[key]

    def _is_read(self, key: K) -> bool:
        return key in self._values or key in self.problems or key in self._absent

    def __getitem__(self, key: K) -> V:
        if key in self._estimates and key not in self._values:
            return self._estimates[key]
        return self.exact(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._values or key in self._estimates

    def __iter__(self) -> Iterator[K]:
        return iter({**self._values, **self._estimates})

    def __len__(self) -> int:
        return len({**self._values, **self._estimates})


def prefetch(facts: Mapping[K, V], keys: Iterable[K]) -> None:
    """Read many facts in parallel, if they can be read. Requests: those of the table."""
    if isinstance(facts, FactTable):
        facts.prefetch(keys)


def estimate(facts: Mapping[K, V], values: Mapping[K, V]) -> None:
    """Take estimates, where facts can be read."""
    if isinstance(facts, FactTable):
        facts.estimate(values)


def exact(facts: Mapping[K, V], key: K) -> V:
    """A fact, not an estimate. Errors: KeyError, NotKnown."""
    return facts.exact(key) if isinstance(facts, FactTable) else facts[key]


def value(facts: Mapping[K, V], key: K, default: V) -> V:
    """A fact, or the default where something else reports that it cannot be read."""
    try:
        return facts.get(key, default)
    except NotKnown:
        return default
