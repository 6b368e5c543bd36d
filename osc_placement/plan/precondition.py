"""What nova must still report of a server when a change of its allocations is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class ServerState:
    """A server as nova reported it; ``resources`` is ``{resource class: amount}``."""

    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    resources: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Precondition:
    """The server must still be in this state; None: nova must have no such server.

    ``no_migration``: nova must not have a migration of the consumer's UUID either.
    """

    server: ServerState | None = None
    no_migration: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Precondition:
        """Read ``to_dict``'s form; LookupError or TypeError for anything else."""
        server = document["server"]
        return cls(None if server is None else ServerState(**server), document["no_migration"])
