# SPDX-License-Identifier: Apache-2.0
"""Results of the real nova-manage on the seeded lab: the oracle for heal and audit.

A start of nova-manage takes seconds. ``lab.manage`` runs its commands many times
in one process: healing every server one by one takes about ten seconds.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lab import database, place

#: Exit codes of heal_allocations.
HEALED, NO_NODE, FAILED, NOTHING, NOT_SUPPORTED, NO_CELL, CRASHED = 0, 2, 3, 4, 8, 127, 255

_FOUND = re.compile(r"for consumer UUID (\S+) on Resource Provider (\S+) can be deleted: (\{.*\})")


class Healed(NamedTuple):
    """The result of heal_allocations for one server, from the seeded state.

    ``allocations`` (``{provider uuid: {class: amount}}``), owner and type are read afterwards,
    whatever the exit code; ``ports`` is ``{port: its binding profile}``.
    """

    code: int
    output: str
    changed: bool
    allocations: Mapping[str, Mapping[str, int]]
    project_id: str | None
    user_id: str | None
    consumer_type: str | None
    ports: Mapping[str, Mapping[str, Any]]

    @property
    def reason(self) -> str:
        """Its message about the server, in one line."""
        lines = [line for line in self.output.splitlines() if not _NOISE.match(line)]
        return " ".join(filter(None, lines))


_NOISE = re.compile(r"Looking for instances|Found \d+ candidate|Processed \d+ instances")


class Audited(NamedTuple):
    """The result of audit; ``findings`` are pairs ``(consumer uuid, provider uuid)``."""

    code: int
    output: str
    findings: frozenset[tuple[str, str]]


def heal_each(lab: place.Place, servers: Iterable[str]) -> dict[str, Healed]:
    """``{uuid: result}``; restores the lab to the saved state."""
    reported = _run(lab, "heal", database.SEEDED, list(servers))
    return {uuid: Healed(**_select(Healed._fields, fields)) for uuid, fields in reported.items()}


def audit(lab: place.Place, *, delete: bool = False, state: str = database.SEEDED) -> Audited:
    """The findings of audit in the saved state; ``delete`` removes them from the lab."""
    reported = _run(lab, "audit", state, ["delete"] if delete else [])
    problems = {(match[1], match[2]) for match in _FOUND.finditer(reported["output"])}
    return Audited(reported["code"], reported["output"], frozenset(problems))


def _select(names: Iterable[str], reported: Mapping[str, Any]) -> dict[str, Any]:
    # Placement returns no owner and no type for a consumer without allocations.
    return {name: reported.get(name) for name in names}


def _run(lab: place.Place, verb: str, state: str, arguments: list[str]) -> Any:
    completed = subprocess.run(
        [
            *(lab.program("python"), "-m", "lab.manage"),
            *(str(lab.folder), str(lab.first_port), verb, state),
        ],
        input=json.dumps(arguments),
        env={**lab.environment(), "PYTHONPATH": str(place.ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)
