"""Which host aggregates nova had when the mirror last ran.

Nova forgets the uuid of a host aggregate that it deletes, and Placement never learns of it;
so the mirror keeps what it has seen. Called by ``mirror``.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from osc_placement.workflows import state_file

_KEY = "names"


def path_of(target: str) -> pathlib.Path:
    """Where the record of a cloud stands."""
    return state_file.path_of("host-aggregates", target)


def load(target: str) -> state_file.State:
    """``{uuid: name}`` of what was seen; empty before the first run."""
    return state_file.load(path_of(target), _KEY)


def save(target: str, names: Mapping[str, str]) -> None:
    """Replace the record. Errors: PlacementError, which names the file."""
    state_file.save(path_of(target), target, _KEY, names)
