# SPDX-License-Identifier: Apache-2.0
"""A drain plan as one value, from and to its file.

The file is for ``--continue``: it says what was meant. What really happened is read from nova and
Placement each time, so a plan that is lost can be made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from osc_placement import errors
from osc_placement.client import transport
from osc_placement.model import json_text
from osc_placement.plan import file, forms

FORMAT_VERSION = 1
#: The first field of a file of this kind.
KIND = "drain_plan"

_NOWHERE = transport.Identity()


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedMove(forms.JsonObject):
    """One step: a server (UUID and name), and nova's names of its source and its target.

    ``way`` is ``live``, or ``cold``: with a stop of the guest and a confirmation. Steps of one
    ``wave`` may run at the same time. ``why`` says why this target. ``allocations`` are those that
    nova claims there.
    """

    wave: int
    server: str
    name: str
    way: str
    source: str
    target: str
    why: str
    allocations: forms.Allocations


@dataclasses.dataclass(frozen=True, slots=True)
class BlockedServer(forms.JsonObject):
    """A server that no step moves; ``reasons`` are sentences."""

    server: str
    name: str
    host: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DrainOptions(forms.JsonObject):
    """What the operator asked for; ``avoid`` are nova's names of hosts that are no targets.

    ``keep`` is the number of hosts that may fail after the plan.
    """

    parallel: int = 1
    avoid: tuple[str, ...] = ()
    only_live: bool = False
    keep: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DrainPlan(forms.JsonObject):
    """The steps that empty ``hosts`` (nova's names), and the servers that stay.

    ``nodes`` are the UUIDs of the root providers of the hosts. ``created`` (UTC, ISO 8601) and
    ``identity`` say when and for which cloud.
    """

    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    moves: tuple[PlannedMove, ...]
    blocked: tuple[BlockedServer, ...] = ()
    not_checked: tuple[str, ...] = ()
    options: DrainOptions = DrainOptions()
    created: str = ""
    target: str = ""
    identity: transport.Identity = _NOWHERE

    @property
    def is_complete(self) -> bool:
        """Whether the steps empty the hosts."""
        return not self.blocked


def write(path: pathlib.Path, plan: DrainPlan) -> None:
    """Write the file, mode 0600. Errors: PlacementError for an existing file of another kind."""
    if file.is_of_another_kind(path, KIND.encode()):
        raise errors.PlacementError(
            f"{path} exists and is not a drain plan. Nothing was written. Give another path"
        )
    document = plan.to_dict()
    content = {KIND: FORMAT_VERSION, **document, "digest": _digest(document)}
    file.replace(path, [json.dumps(content, indent=1), "\n"])


def load(path: pathlib.Path) -> DrainPlan:
    """The plan of a file. Errors: PlacementError for anything else."""
    try:
        document = json_text.read(path)
    except OSError as error:
        raise errors.PlacementError(f"{path} cannot be read: {error.strerror}") from error
    except json_text.NotJson as error:
        raise errors.PlacementError(f"{path} is not a drain plan: {error}") from error
    if not isinstance(document, dict):
        raise errors.PlacementError(f"{path} is not a drain plan: it is no JSON object")
    return read(path, document)


def read(path: pathlib.Path, document: Mapping[str, Any]) -> DrainPlan:
    """The plan in a file's JSON. Errors: PlacementError for anything else, also an edited plan."""
    content = dict(document)
    version, digest = content.pop(KIND, None), content.pop("digest", None)
    if version is None:
        raise errors.PlacementError(
            f"{path} is not a drain plan: openstack placement host drain --plan-out writes one"
        )
    if version != FORMAT_VERSION:
        raise errors.PlacementError(
            f"{path} has format {version}, and this version reads format {FORMAT_VERSION}:"
            " make the plan again"
        )
    if digest != _digest(content):
        raise errors.PlacementError(f"{path} was changed or damaged: make the plan again")
    try:
        return DrainPlan.from_dict(content)
    except (LookupError, TypeError, ValueError) as error:
        raise errors.PlacementError(f"{path} is not a drain plan: {error}") from error


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
