# SPDX-License-Identifier: Apache-2.0
"""A plan of moves as one value, from and to its file.

The file is for ``--continue``: it says what was meant. What really happened is read from nova and
Placement each time, so a plan that is lost can be made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.client import transport
from osc_placement.model import command_line, json_text
from osc_placement.plan import file, forms

FORMAT_VERSION = 2
#: The first field of a file of this kind.
KIND = "move_plan"

#: The reason that the script of a plan gives for a host that it disables.
REASON = "drain"

_NOWHERE = transport.Identity()


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedMove(forms.JsonObject):
    """One step: a server (UUID and name), and nova's names of its source and its target.

    ``way`` is ``live``, or ``cold``: with a stop of the guest and a confirmation; ``status`` is
    nova's for the server when it was planned. Steps of one ``wave`` may run at the same time.
    ``why`` says why this target. ``allocations`` are those that nova claims there.
    """

    wave: int
    server: str
    name: str
    way: str
    status: str
    source: str
    target: str
    why: str
    allocations: forms.Allocations

    def amount(self, name: str) -> int:
        """What nova claims of a resource class."""
        return sum(amounts.get(name, 0) for amounts in self.allocations.values())


@dataclasses.dataclass(frozen=True, slots=True)
class BlockedServer(forms.JsonObject):
    """A server that no step moves; ``reasons`` are sentences."""

    server: str
    name: str
    host: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DisabledHost(forms.JsonObject):
    """A host (nova's name) that was disabled before the plan, with the reason that nova shows."""

    host: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class DrainOptions(forms.JsonObject):
    """What the operator asked for; ``avoid`` are nova's names of hosts that are no targets.

    ``keep`` is the number of hosts that may fail after the plan. ``excluded`` are servers that
    stay, ``cold`` those that move cold whatever ``only_live`` says (names or UUIDs). ``per_source``
    is the most steps of a wave from one host, 0 without a limit. ``nova_conf`` (a path),
    ``nova_release`` and ``filters`` say which rules nova has, as far as they were given.
    """

    parallel: int = 0
    avoid: tuple[str, ...] = ()
    only_live: bool = False
    keep: int = 0
    excluded: tuple[str, ...] = ()
    cold: tuple[str, ...] = ()
    per_source: int = 0
    nova_conf: str = ""
    nova_release: int | None = None
    filters: tuple[str, ...] = ()

    def merged(self, given_now: DrainOptions) -> DrainOptions:
        """These options with those that are given now: lists grow, numbers are replaced."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            before, now = getattr(self, field.name), getattr(given_now, field.name)
            is_list = isinstance(before, tuple)
            values[field.name] = tuple(dict.fromkeys((*before, *now))) if is_list else now or before
        return DrainOptions(**values)


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedLeg(forms.JsonObject):
    """Hosts (nova's names) that are emptied together, by so many of the moves of the plan."""

    hosts: tuple[str, ...]
    moves: int


@dataclasses.dataclass(frozen=True, slots=True)
class StayingHost(forms.JsonObject):
    """A host (nova's name, UUID of its root provider) that no leg empties."""

    host: str
    node: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LegPlan(forms.JsonObject):
    """The moves of a plan in legs, with what the operator asked for; ``first`` is its number.

    It is for the hosts of ``aggregates`` (as typed) or of a ``zone``; without both for all.
    ``at_once`` and ``per_zone`` are 0 if they were not given. Empty for a plan without legs.
    """

    legs: tuple[PlannedLeg, ...] = ()
    left: tuple[StayingHost, ...] = ()
    at_once: int = 0
    per_zone: int = 0
    skipped: tuple[str, ...] = ()
    first: int = 1
    aggregates: tuple[str, ...] = ()
    zone: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class MovePlan(forms.JsonObject):
    """Steps, the hosts that they empty (nova's names), if any, and the servers that stay there.

    ``nodes`` are the UUIDs of the root providers of the hosts; ``disabled`` are those of them that
    were disabled before the first plan. ``created`` (UTC, ISO 8601) and ``identity`` say when and
    for which cloud, ``cloud`` is the operator's name for it. ``command`` continues the plan, and
    ``anew`` is the command line of another one for the same purpose.
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
    disabled: tuple[DisabledHost, ...] = ()
    cloud: str = ""
    command: str = "placement host drain"
    anew: str = ""
    legs: LegPlan = LegPlan()

    def leg(self, at: int) -> MovePlan:
        """The leg at a position, as a plan that ``placement host drain`` follows."""
        before = self.legs.legs[:at]
        begin = sum(leg.moves for leg in before)
        start = sum(len(leg.hosts) for leg in before)
        leg = self.legs.legs[at]
        moves = self.moves[begin : begin + leg.moves]
        ended = moves[0].wave - 1 if moves else 0
        nodes = self.nodes[start : start + len(leg.hosts)]
        disabled = tuple(host for host in self.disabled if host.host in leg.hosts)
        return dataclasses.replace(
            self,
            hosts=leg.hosts,
            nodes=nodes,
            moves=tuple(dataclasses.replace(move, wave=move.wave - ended) for move in moves),
            blocked=(),
            disabled=disabled,
            command="placement host drain",
            legs=LegPlan(),
        )

    @property
    def digest(self) -> str:
        """What no other plan has; a file of the plan contains it."""
        return _digest(self.to_dict())

    @property
    def is_complete(self) -> bool:
        """Whether the steps empty the hosts."""
        return not self.blocked

    def command_to_continue(self, path: pathlib.Path) -> str:
        """The command line that reads what became of this plan."""
        return command_line.line(self.command, options=[("--continue", str(path))])

    def check(self, command: str, target: transport.Target) -> None:
        """Refuse another command, and another cloud than the plan's. Errors: PlacementError."""
        if command != self.command:
            raise errors.PlacementError(
                f"the plan is not of '{command}': 'openstack {self.command} --continue' is for it"
            )
        if not target.identity.may_be(self.identity):
            raise errors.PlacementError(
                f"the plan is for {self.target}, and this is {target}: select its cloud"
            )


def size(moves: Iterable[PlannedMove]) -> str:
    """How much moves copy at most: ``4 GB, 20 GB disk``; disks on shared storage stay there."""
    listed = list(moves)
    memory = sum(move.amount("MEMORY_MB") for move in listed) / 1024
    disk = sum(move.amount("DISK_GB") for move in listed)
    amount = f"{memory:.3g}" if memory < 100 else f"{memory:.0f}"
    return f"{amount} GB" + (f", {disk} GB disk" if disk else "")


def write(path: pathlib.Path, plan: MovePlan) -> None:
    """Write the file, mode 0600. Errors: PlacementError for an existing file of another kind."""
    if file.is_of_another_kind(path, KIND.encode()):
        raise errors.PlacementError(
            f"{path} exists and is not a plan of moves. Nothing was written. Give another path"
        )
    document = plan.to_dict()
    content = {KIND: FORMAT_VERSION, **document, "digest": _digest(document)}
    file.replace(path, [json.dumps(content, indent=1), "\n"])


def load(path: pathlib.Path) -> MovePlan:
    """The plan of a file. Errors: PlacementError for anything else."""
    try:
        document = json_text.read(path)
    except OSError as error:
        raise errors.PlacementError(f"{path} cannot be read: {error.strerror}") from error
    except json_text.NotJson as error:
        raise errors.PlacementError(f"{path} is not a plan of moves: {error}") from error
    if not isinstance(document, dict):
        raise errors.PlacementError(f"{path} is not a plan of moves: it is no JSON object")
    return read(path, document)


def read(path: pathlib.Path, document: Mapping[str, Any]) -> MovePlan:
    """The plan in a file's JSON. Errors: PlacementError for anything else, also an edited plan."""
    content = dict(document)
    version, digest = content.pop(KIND, None), content.pop("digest", None)
    if version is None:
        raise errors.PlacementError(
            f"{path} is not a plan of moves: 'openstack placement host drain --plan-out' writes one"
        )
    if version != FORMAT_VERSION:
        raise errors.PlacementError(
            f"{path} has format {version}, and this version reads format {FORMAT_VERSION}:"
            " make the plan again"
        )
    if digest != _digest(content):
        raise errors.PlacementError(f"{path} was changed or damaged: make the plan again")
    return MovePlan.from_dict(content)


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
