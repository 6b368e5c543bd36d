"""Opening snapshot files for reading."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping

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


def check_comparable(sides: Mapping[str, Snapshot], *, with_live: bool = False) -> None:
    """Refuse to compare pseudonyms with real names, or with those of another key.

    ``sides`` is ``{file: snapshot}``. Errors: PlacementError.
    """
    keys = {path: _key_of(side) for path, side in sides.items()}
    if with_live:
        keys["the cloud"] = ""
    if len(set(keys.values())) > 1:
        raise errors.PlacementError(
            f"{' and '.join(keys)} cannot be compared: they do not have the same pseudonyms."
            " Compare files with real names, or files that were anonymized with the same key file"
        )


def _key_of(side: Snapshot) -> str:
    """The identity of the key of an anonymized snapshot; empty for any other."""
    return side.metadata.origin if side.metadata and side.metadata.anonymized else ""
