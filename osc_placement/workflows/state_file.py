"""What is remembered of a cloud between runs: one small JSON file a subject and cloud.

Losing such a file costs time or a hint, never more; so one that cannot be read is told of
and stops nothing.
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
class State:
    """``words`` are what was kept, empty at first; ``trouble`` says why they cannot be read."""

    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trouble: str = ""


def path_of(subject: str, target: str) -> pathlib.Path:
    """Where what is remembered of a subject at a cloud stands."""
    name = hashlib.sha256(plan.place(target).encode()).hexdigest()[:32]
    return file.state_directory() / subject / f"{name}.json"


def load(path: pathlib.Path, key: str) -> State:
    """What was kept under ``key``, an object of strings."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            return State(trouble=f"{path} was written by another version of this program")
        return State({str(name): str(value) for name, value in document[key].items()})
    except FileNotFoundError:
        return State()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return State(trouble=f"{path} cannot be read: {error}")


def save(path: pathlib.Path, target: str, key: str, words: Mapping[str, str]) -> None:
    """Replace the file, whole or not at all. Errors: PlacementError, which names it."""
    document = {"format_version": FORMAT_VERSION, "target": target, key: dict(words)}
    file.replace(path, json.dumps(document, indent=1) + "\n")
