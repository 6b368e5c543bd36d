"""Opening snapshot files for reading."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from osc_placement import errors
from osc_placement.server.store import errors as store_errors, snapshot

Snapshot = snapshot.Snapshot


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[Snapshot]:
    """A snapshot, or any database file. Errors: PlacementError, which names it."""
    with explained(), Snapshot(str(path)) as found:
        yield found


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn an error of the store into a PlacementError."""
    try:
        yield
    except store_errors.StoreError as error:
        raise errors.PlacementError(str(error)) from error


def has_owners(side: Snapshot) -> bool:
    """Whether projects, users and types of consumers were saved."""
    return side.metadata is None or side.metadata.owners
