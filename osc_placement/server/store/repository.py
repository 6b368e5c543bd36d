"""The state and its store, group_required: the one place where either changes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from osc_placement.engine import draft, record, state
from osc_placement.server.store import errors


class Store(Protocol):
    """Keeps the records somewhere."""

    def load(self) -> record.Changes:
        """All records that are kept."""

    def commit(self, changes: record.Changes) -> None:
        """Keep the changes, all or none; raises StoreError and has kept none."""

    def close(self) -> None:
        """Let go of files."""


class Repository:
    """A state that is read and written by one caller at a time."""

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
        """The state; it does not change while the block runs."""
        with self._lock:
            yield self._state

    @contextlib.contextmanager
    def write(self) -> Iterator[draft.Draft]:
        """A draft that is committed when the block ends, and dropped when it raises."""
        with self._lock:
            pending = draft.Draft(self._state, self._clock(), self._first_generation)
            yield pending
            changes = pending.changes()
            if changes:
                self._store.commit(changes)
                self._state.apply(changes)

    def load(self, changes: record.Changes) -> None:
        """Take over records as they are, generations included; raises NotEmpty."""
        with self._lock:
            if not self._state.is_empty():
                raise errors.NotEmpty(
                    "there is a state already, which is not empty: load into a new database"
                )
            self._store.commit(changes)
            self._state.apply(changes)

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            self._store.close()
