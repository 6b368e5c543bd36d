"""What the real nova-manage makes of the seed: the oracle for healing and auditing.

Starting nova-manage takes seconds, so ``tests.support.lab.manage`` calls its commands many
times in one process: healing each server alone takes about ten seconds.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.support.lab import database, place

#: Exit codes of heal_allocations.
HEALED, NO_NODE, FAILED, NOTHING, NOT_SUPPORTED, NO_CELL, CRASHED = 0, 2, 3, 4, 8, 127, 255

_FOUND = re.compile(r"for consumer UUID (\S+) on Resource Provider (\S+) can be deleted: (\{.*\})")


class Healed(NamedTuple):
    """What heal_allocations made of one server, alone, from the seeded state.

    ``allocations`` (``{provider uuid: {class: amount}}``), owner and type are those of
    afterwards, whatever the exit code; ``ports`` is ``{port: its binding profile}``.
    """

    code: int
    said: str
    changed: bool
    allocations: Mapping[str, Mapping[str, int]]
    project_id: str | None
    user_id: str | None
    consumer_type: str | None
    ports: Mapping[str, Mapping[str, Any]]

    @property
    def reason(self) -> str:
        """What it says of the server, in one line."""
        lines = [line for line in self.said.splitlines() if not _NOISE.match(line)]
        return " ".join(filter(None, lines))


_NOISE = re.compile(r"Looking for instances|Found \d+ candidate|Processed \d+ instances")


class Audited(NamedTuple):
    """What audit says: the findings are ``{(consumer uuid, provider uuid)}``."""

    code: int
    said: str
    findings: frozenset[tuple[str, str]]


def heal_each(
    lab: place.Place, servers: Iterable[str], state: str = database.SEEDED
) -> dict[str, Healed]:
    """``{uuid: what became of it}``; the lab is in the saved state again afterwards."""
    told = _ask(lab, "heal", state, list(servers))
    return {uuid: Healed(**_only(Healed._fields, each)) for uuid, each in told.items()}


def audit(lab: place.Place, *, delete: bool = False, state: str = database.SEEDED) -> Audited:
    """What audit finds in the saved state; ``delete`` leaves the lab without it."""
    told = _ask(lab, "audit", state, ["delete"] if delete else [])
    found = {(match[1], match[2]) for match in _FOUND.finditer(told["said"])}
    return Audited(told["code"], told["said"], frozenset(found))


def _only(names: Iterable[str], told: Mapping[str, Any]) -> dict[str, Any]:
    # Placement tells neither owner nor type of what has no allocations.
    return {name: told.get(name) for name in names}


def _ask(lab: place.Place, verb: str, state: str, words: list[str]) -> Any:
    ended = subprocess.run(
        [
            *(lab.program("python"), "-m", "tests.support.lab.manage"),
            *(str(lab.folder), str(lab.first_port), verb, state),
        ],
        input=json.dumps(words),
        env={**lab.environment(), "PYTHONPATH": str(place.ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
