# SPDX-License-Identifier: Apache-2.0
"""Plan files and the state directory.

A file is written completely or not at all (temporary file, flush, rename), and only its owner
can read it.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Iterator

from osc_placement import errors
from osc_placement.client import transport
from osc_placement.model import command_line, json_text
from osc_placement.plan import plan as plan_module

#: The path that means standard output.
STANDARD_OUTPUT = pathlib.Path("-")

#: The bytes of a file that show of what kind it is.
_START = 200


def state_directory() -> pathlib.Path:
    """``$XDG_STATE_HOME/osc-placement``, by default under ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return pathlib.Path(base).expanduser() / "osc-placement"


def default_path(
    plan: plan_module.Plan, role: str, here: transport.Identity | None = None
) -> pathlib.Path:
    """The default path of a plan (``role`` "plan") or of its undo plan (``role`` "undo").

    The name begins with the time of the plan (UTC). ``here`` is where the plan is applied, if not
    where it was made: a rehearsal must not replace the files of the real run.
    """
    # No colons: scp and rsync take the text before a colon for a host.
    when = datetime.datetime.fromisoformat(plan.created).strftime("%Y-%m-%dT%H-%M-%SZ")
    digest = plan.digest.removeprefix("sha256:")[:8]
    if here is not None and here.place != plan.identity.place:
        digest += f"-{hashlib.sha256(here.place.encode()).hexdigest()[:8]}"
    return state_directory() / f"{when}-{digest}.{role}.json"


def write(path: pathlib.Path, plan: plan_module.Plan) -> None:
    """Write a plan file, mode 0600, or replace one; STANDARD_OUTPUT is written to.

    Errors: PlacementError for an existing file of another kind: a mistyped name must not
    overwrite a database.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.writelines(plan.json_parts())
        return
    if is_of_another_kind(path, b'"format_version"', b'"command"'):
        raise errors.PlacementError(
            f"{path} exists and is not a plan file. Nothing was changed."
            " Give another path, or remove it"
        )
    replace(path, plan.json_parts())


def is_of_another_kind(path: pathlib.Path, *marks: bytes) -> bool:
    """Whether a file exists whose first bytes lack one of ``marks``; an empty file has no kind.

    Errors: PlacementError.
    """
    with explained(path):
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(_START)
    return bool(start.strip()) and any(mark not in start for mark in marks)


def replace(path: pathlib.Path, texts: Iterable[str], mode: int = 0o600) -> None:
    """Write a file of these texts completely or not at all.

    Errors: PlacementError, also for a device, a pipe or a folder.
    """
    with explained(path):
        if path.exists() and not path.is_file():
            raise errors.PlacementError(
                f"{path} is not a regular file. Nothing was changed. Give another path"
            )
        path = path.resolve()
        make_directory(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(texts)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            pathlib.Path(name).replace(path)
        except BaseException:
            pathlib.Path(name).unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def check_new(path: pathlib.Path) -> None:
    """Refuse to replace a file, which may have been edited. Errors: PlacementError."""
    with explained(path):
        if path.exists():
            raise errors.PlacementError(
                f"{command_line.quote(str(path))} exists: give another file; nothing was changed"
            )


def read(path: pathlib.Path) -> plan_module.Plan:
    """Read a plan file. Errors: PlanRefused."""
    try:
        return plan_module.from_json(json_text.read_bytes(path).decode())
    except UnicodeDecodeError as error:
        raise plan_module.PlanRefused(f"{path} is not a plan file (it is not text)") from error
    except json_text.NotJson as error:
        raise plan_module.PlanRefused(str(error)) from error
    except plan_module.PlanRefused as error:
        raise plan_module.PlanRefused(f"{path}: {error}") from error
    except OSError as error:
        raise plan_module.PlanRefused(f"{path} cannot be read: {error.strerror}") from error


def make_directory(path: pathlib.Path) -> None:
    """Create a directory and its parents, for their owner only; existing ones stay unchanged."""
    for folder in (*reversed(path.parents), path):
        folder.mkdir(mode=0o700, exist_ok=True)


def sync_directory(path: pathlib.Path) -> None:
    """Flush a directory to disk, so that a new name survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(path: pathlib.Path) -> Iterator[None]:
    """Turn an OSError of the block into a PlacementError that names ``path`` and the remedy."""
    try:
        yield
    except OSError as error:
        raise errors.PlacementError(
            f"{path} cannot be written: {error.strerror}. Nothing was changed. Give another"
            " path, or set XDG_STATE_HOME to a directory of your own"
        ) from error
