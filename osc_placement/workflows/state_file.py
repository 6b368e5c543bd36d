# SPDX-License-Identifier: Apache-2.0
"""State files: small JSON files with strings that one run keeps for the next, per cloud.

Losing such a file costs time or a hint only. So an unreadable file is reported and does not
stop the run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping

from osc_placement.plan import file, plan

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class StateFile:
    """The kept strings, empty at first; ``error`` says why the file cannot be read."""

    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    error: str = ""


def path_of(subject: str, target: str) -> pathlib.Path:
    """The path of the state file of ``subject`` for a cloud."""
    name = hashlib.sha256(plan.place(target).encode()).hexdigest()[:32]
    return file.state_directory() / subject / f"{name}.json"


def load(path: pathlib.Path, key: str) -> StateFile:
    """The state under ``key``, an object of strings."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            return StateFile(error=f"{path} was written by another version of this program")
        return StateFile({str(name): str(value) for name, value in document[key].items()})
    except FileNotFoundError:
        return StateFile()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return StateFile(error=f"{path} cannot be read: {error}")


def save(path: pathlib.Path, target: str, key: str, values: Mapping[str, str]) -> None:
    """Replace the file atomically. Errors: PlacementError, which names the file."""
    document = {"format_version": FORMAT_VERSION, "target": target, key: dict(values)}
    file.replace(path, [json.dumps(document, indent=1), "\n"])
