"""The state and its store; all changes go through here."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from osc_placement.engine import draft, record, state
from osc_placement.server.store import errors


class Store(Protocol):
    """Keeps records."""

    def load(self) -> record.Changes:
        """All records."""

    def commit(self, changes: record.Changes) -> None:
        """Store the changes, all or none; raises StoreError if it stored none."""

    def close(self) -> None:
        """Close files."""


class Repository:
    """A state that one caller at a time reads or writes."""

    def __init__(
        self,
        store: Store,
        first_generation: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._first_generation = first_generation
        self._clock = clock
        self._lock = threading.RLock()
        self._state = state.State()
        self._state.apply(store.load())

    @contextlib.contextmanager
    def read(self) -> Iterator[state.State]:
        """The state, which does not change during the block."""
        with self._lock:
            yield self._state

    @contextlib.contextmanager
    def write(self) -> Iterator[draft.Draft]:
        """A draft that is committed at the end of the block, and dropped if the block raises."""
        with self._lock:
            pending = draft.Draft(self._state, self._clock(), self._first_generation)
            yield pending
            changes = pending.changes()
            if changes:
                self._store.commit(changes)
                self._state.apply(changes)

    def load(self, changes: record.Changes) -> None:
        """Take over records with their generations; raises NotEmpty."""
        with self._lock:
            if not self._state.is_empty():
                raise errors.NotEmpty(
                    "the database is not empty: load the document into a new database"
                )
            self._store.commit(changes)
            self._state.apply(changes)

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            self._store.close()
