"""Plan files and the state directory: written with care, read with suspicion.

A file appears whole or not at all (temporary file, flush, rename) and only its owner may
read it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from osc_placement import errors
from osc_placement.plan import plan

#: So much of a file shows whether it is a plan (bytes).
_START = 200


def state_directory() -> pathlib.Path:
    """``$XDG_STATE_HOME/osc-placement``, by default under ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return pathlib.Path(base).expanduser() / "osc-placement"


def default_path(made: plan.Plan, role: str) -> pathlib.Path:
    """Where a plan (``role`` plan) or what takes it back (undo) is kept when nobody says where."""
    when = "".join(character for character in made.created if character.isalnum())
    digest = made.digest.removeprefix("sha256:")[:8]
    return state_directory() / f"{when}-{digest}.{role}.json"


def write(path: pathlib.Path, made: plan.Plan) -> None:
    """Write a plan file, mode 0600; a plan that stood there is replaced whole.

    Errors: PlacementError for a file that is no plan: a name mistyped must not cost a
    database.
    """
    if path.is_file() and not _may_be_replaced(path):
        raise errors.PlacementError(
            f"{path} is there and is no plan. Nothing was changed. Give another path, or remove it"
        )
    replace(path, made.to_json())


def _may_be_replaced(path: pathlib.Path) -> bool:
    with explained(path), path.open("rb") as file:
        start = file.read(_START)
    return not start.strip() or b'"format_version"' in start


def replace(path: pathlib.Path, text: str) -> None:
    """Write a file whole or not at all, mode 0600. Errors: PlacementError, which names it.

    What is no plain file (``/dev/null``, ``/dev/stdout``) is written to: nothing takes its place.
    """
    with explained(path):
        if is_special(path):
            path.write_text(text, encoding="utf-8")
            return
        path = path.resolve()
        make_directory(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            pathlib.Path(name).replace(path)
        except BaseException:
            pathlib.Path(name).unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def remove(path: pathlib.Path) -> None:
    """Remove a file that ``write`` wrote, if it is one."""
    if not is_special(path):
        path.unlink(missing_ok=True)


def is_special(path: pathlib.Path) -> bool:
    """Whether there is something that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def read(path: pathlib.Path) -> plan.Plan:
    """Read a plan file. Errors: PlanRefused, which names the file and why."""
    try:
        return plan.from_json(path.read_text(encoding="utf-8"))
    except (plan.PlanRefused, UnicodeDecodeError) as error:
        raise plan.PlanRefused(f"{path}: {error}") from error
    except OSError as error:
        raise plan.PlanRefused(f"{path} cannot be read: {error.strerror}") from error


def make_directory(path: pathlib.Path) -> None:
    """Make a directory that only its owner may enter; one that is there stays as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def sync_directory(path: pathlib.Path) -> None:
    """Put a directory's entries on disk, so that a new name survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(path: pathlib.Path) -> Iterator[None]:
    """Turn an OSError of the block into a PlacementError that names ``path`` and what to do."""
    try:
        yield
    except OSError as error:
        raise errors.PlacementError(
            f"{path} cannot be written: {error.strerror}. Nothing was changed. Give another"
            " path, or set XDG_STATE_HOME to a directory that is yours"
        ) from error
