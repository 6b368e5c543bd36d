"""Which host aggregates nova had when the mirror last ran: one small file per cloud.

Nova forgets the uuid of a host aggregate that it deletes, and Placement never learns of it;
so the mirror keeps what it has seen in the state directory. Called by ``mirror``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping

from osc_placement.workflows import plan, plan_file

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """``names`` is ``{uuid: name}``; ``trouble`` says why the file is of no use, if it is not."""

    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trouble: str = ""


def path_of(target: str) -> pathlib.Path:
    """Where the record of a cloud stands."""
    name = hashlib.sha256(plan.place(target).encode()).hexdigest()[:32]
    return plan_file.state_directory() / "host-aggregates" / f"{name}.json"


def load(target: str) -> Record:
    """What was seen; empty before the first run. A file that cannot be read is told of."""
    path = path_of(target)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            return Record(trouble=f"{path} was written by another version of this program")
        return Record({str(uuid): str(name) for uuid, name in document["names"].items()})
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Record(trouble=f"{path} cannot be read: {error}")


def save(target: str, names: Mapping[str, str]) -> None:
    """Replace the record, whole or not at all. Errors: PlacementError, which names the file."""
    document = {"format_version": FORMAT_VERSION, "target": target, "names": dict(names)}
    plan_file.replace(path_of(target), json.dumps(document, indent=1) + "\n")
