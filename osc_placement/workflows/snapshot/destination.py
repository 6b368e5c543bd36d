"""The file that a save writes: which one may be replaced, and how it gets its name."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
from collections.abc import Iterator

from osc_placement import errors
from osc_placement.plan import file as plan_file, plan
from osc_placement.server.store import errors as store_errors, snapshot


def partial_path(path: pathlib.Path) -> pathlib.Path:
    """The file of an unfinished save."""
    return path.with_name(f"{path.name}.partial")


def check_refresh(path: pathlib.Path, target: str, *, refresh: bool) -> None:
    """Refuse to replace a file that is not an unchanged snapshot of the cloud ``target``.

    Errors: PlacementError, StoreError.
    """
    shown = shlex.quote(str(path))
    if not refresh:
        raise errors.PlacementError(
            f"{shown} exists: update it with --refresh, or give another file; nothing was changed"
        )
    with snapshot.Snapshot(str(path)) as existing:
        metadata = existing.metadata
        if metadata is None:
            raise errors.PlacementError(
                f"{shown} is a database, not a snapshot of a cloud: give another file; nothing was"
                " changed"
            )
        if metadata.anonymized:
            raise errors.PlacementError(
                f"{shown} is anonymized: refresh the snapshot that it was made of, and anonymize"
                " that with the same key (placement snapshot anonymize); nothing was changed"
            )
        check_origin(shown, metadata, target)
        if existing.state_hash(generations=True) != metadata.digest:
            raise errors.PlacementError(
                f"{shown} was changed after it was saved, by a rehearsal: generations no longer"
                " show what changed in the cloud. Give another file; nothing was changed"
            )


def check_origin(path: str, metadata: snapshot.Metadata, target: str) -> None:
    """Refuse a file of another cloud. Errors: PlacementError."""
    if metadata.origin != plan.place(target):
        raise errors.PlacementError(
            f"{path} is a snapshot of {metadata.target}, this is {target}: choose that"
            " cloud, or give another file; nothing was changed"
        )


@contextlib.contextmanager
def continuable(partial: pathlib.Path) -> Iterator[None]:
    """Name the file of an unfinished save in errors that end it."""
    try:
        yield
    except (errors.PlacementError, store_errors.StoreError) as error:
        if not partial.exists() or isinstance(error, store_errors.InUse):
            raise
        raise errors.PlacementError(
            f"{error}\nThe snapshot is not complete. {partial} keeps what was read: run the same"
            " command again to continue"
        ) from error


def publish(path: pathlib.Path) -> None:
    """Give the finished file its name."""
    with plan_file.explained(path):
        os.replace(partial_path(path), path)
        plan_file.sync_directory(path.resolve().parent)
