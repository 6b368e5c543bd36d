# SPDX-License-Identifier: Apache-2.0
"""The state and its store; all changes go through here."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator

from osc_placement.engine import draft, record, state
from osc_placement.server.store import errors, sqlite


class Repository:
    """A state with any number of readers and one writer at a time.

    A read waits while the changes of a write are applied, not while they are computed and stored.
    ``lazily``: the records are loaded by ``open``, or by the first use.
    """

    def __init__(
        self,
        store: sqlite.SqliteStore | None = None,
        first_generation: int = 0,
        *,
        lazily: bool = False,
    ) -> None:
        """A state in memory, or that of a file, which keeps every change."""
        self._store = store
        self._first_generation = first_generation
        self._clock: Callable[[], float] = time.time
        self._writing = threading.RLock()
        self._changing = threading.RLock()
        self._snapshots = 0
        self._state = state.CloudState()
        self._is_open = store is None
        if not lazily:
            self.open()

    def open(self) -> None:
        """Load the records unless they are loaded; raises StoreError."""
        with self._changing:
            if self._store is not None and not self._is_open:
                with _without_collection():
                    self._state.apply(self._store.load())
                self._is_open = True

    @contextlib.contextmanager
    def read(self) -> Iterator[state.CloudState]:
        """The state, which does not change during the block."""
        self.open()
        with self._changing:
            yield self._state

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[state.CloudState]:
        """The same for a long block: writes go on, in a copy of the state if necessary."""
        self.open()
        with self._changing:
            base = self._state
            self._snapshots += 1
        try:
            yield base
        finally:
            with self._changing:
                if base is self._state:
                    self._snapshots -= 1

    @contextlib.contextmanager
    def write(self) -> Iterator[draft.Draft]:
        """A draft that is committed at the end of the block, and dropped if the block raises."""
        self.open()
        with self._writing:
            pending = draft.Draft(self._state, self._clock(), self._first_generation)
            yield pending
            changes = pending.changes()
            if changes:
                self._apply(changes)

    def load(self, changes: record.Changes) -> None:
        """Take over records with their generations; raises NotEmpty."""
        with self._writing:
            if not self._state.is_empty():
                raise errors.NotEmpty(
                    "the database is not empty: load the document into a new database"
                )
            self._apply(changes)

    def _apply(self, changes: record.Changes) -> None:
        if self._store is not None:
            self._store.commit(changes)
        with self._changing:
            if self._snapshots:
                self._state, self._snapshots = self._state.copy(), 0
            self._state.apply(changes)

    def close(self) -> None:
        """Close the store."""
        with self._writing:
            if self._store is not None:
                self._store.close()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the garbage collector: it would visit all new records again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
