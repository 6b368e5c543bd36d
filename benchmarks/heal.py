"""Healing beside nova-manage: the same servers without allocations, on the same services.

The lab's real keystone, nova-api and placement. ``heal_allocations`` reads nova's database, our
command nova's API, so the requests that Placement answers are what both can be counted by.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sqlite3
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import client
from tests.support.lab import database, lifecycle, place, process

NOVA_MANAGE, OURS = "nova-manage", "this"
COMMAND = "placement allocation heal"
#: Their requests are counted.
COUNTED = ("placement", "nova", "neutron")

#: Times that Placement must have fewer requests, and that a whole run must be faster.
FEWER, FASTER = 5.0, 1.0

#: ``{consumer uuid: (project, user, {(provider uuid, class): amount})}``
State = Mapping[str, tuple[str, str, Mapping[tuple[str, str], int]]]

_CONSUMERS = """
SELECT c.uuid, p.external_id, u.external_id
FROM consumers c JOIN projects p ON p.id = c.project_id JOIN users u ON u.id = c.user_id
"""
_ALLOCATIONS = """
SELECT a.consumer_id, r.uuid, k.name, a.used
FROM allocations a JOIN resource_providers r ON r.id = a.resource_provider_id
JOIN resource_classes k ON k.id = a.resource_class_id
"""


@dataclasses.dataclass
class Figure:
    """Runs of one program: seconds each, and the requests that each service had in each."""

    who: str
    seconds: list[float] = dataclasses.field(default_factory=list)
    requests: list[Mapping[str, int]] = dataclasses.field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)

    def count(self, service: str) -> float:
        """Requests to a service, the median."""
        return statistics.median(sent[service] for sent in self.requests)


@contextlib.contextmanager
def seeded(lab: place.Place, hosts: int, servers: int) -> Iterator[str]:
    """A running lab; the name of a state with that many servers, made unless it is there."""
    state = f"heal-{hosts}-{servers}"
    started = lifecycle.up(lab)
    try:
        if not lifecycle.is_seeded(lab, state):
            lifecycle.seed(lab, hosts, servers, "ordinary", state)
        yield state
    finally:
        known = database.saved(lab)
        database.reset(lab, database.SEEDED if database.SEEDED in known else database.EMPTY)
        process.stop(lab, started)


def compare(lab: place.Place, state: str, repeat: int, command: str) -> dict[str, Figure]:
    """Both in turn, each time from that state. Raises RuntimeError if they end in different ones.

    ``{who: figure}``.
    """
    figures = {who: Figure(who) for who in (NOVA_MANAGE, OURS)}
    programs = {NOVA_MANAGE: _nova_manage(lab), OURS: _ours(lab, command)}
    for _ in range(repeat):
        ends: dict[str, State] = {}
        for who, figure in figures.items():
            database.reset(lab, state)
            before = _counts(lab)
            ended = client.run(*programs[who])
            figure.seconds.append(ended.seconds)
            after = _counts(lab)
            figure.requests.append({each: after[each] - before[each] for each in COUNTED})
            ends[who] = allocated(lab)
        check(ends)
    return figures


def check(ends: Mapping[str, State]) -> None:
    """Whether both have left the same allocations, of the same owners. Raises RuntimeError."""
    theirs, ours = ends[NOVA_MANAGE], ends[OURS]
    differing = sorted(uuid for uuid in {*theirs, *ours} if theirs.get(uuid) != ours.get(uuid))
    if differing:
        uuid = differing[0]
        raise RuntimeError(
            f"{len(differing)} consumers differ, the first: {uuid} is {theirs.get(uuid)} by"
            f" nova-manage, {ours.get(uuid)} by ours"
        )


def allocated(lab: place.Place) -> State:
    """What Placement's database holds."""
    path = lab.database("placement")
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        held: dict[str, dict[tuple[str, str], int]] = {}
        for uuid, provider, resource_class, used in connection.execute(_ALLOCATIONS):
            held.setdefault(uuid, {})[provider, resource_class] = used
        owners = list(connection.execute(_CONSUMERS))
    return {uuid: (project, user, held[uuid]) for uuid, project, user in owners if uuid in held}


def _nova_manage(lab: place.Place) -> tuple[pathlib.Path, Sequence[str], Mapping[str, str]]:
    config = ("--config-dir", str(lab.path("etc", "nova")))
    words = [*config, "placement", "heal_allocations"]
    return pathlib.Path(lab.program("nova-manage")), words, lab.environment()


def _ours(lab: place.Place, command: str) -> tuple[pathlib.Path, Sequence[str], Mapping[str, str]]:
    where = {"OS_CLOUD": "lab", "OS_CLIENT_CONFIG_FILE": str(lab.path("clouds.yaml"))}
    return client.ours(), command.split(), where


def _counts(lab: place.Place) -> dict[str, int]:
    """How many requests each service has answered; reading that itself asks none."""
    return {service: _lines(lab.path("log", f"{service}.access.log")) for service in COUNTED}


def _lines(path: pathlib.Path) -> int:
    with path.open("rb") as log:
        return sum(1 for _ in log)


def row(figure: Figure, beside: Figure) -> list[Any]:
    """Who, seconds, how many times faster than another, requests of each service, times fewer."""
    counts = [figure.count(service) for service in COUNTED]
    fewer = beside.count("placement") / max(1, figure.count("placement"))
    return [figure.who, figure.median, beside.median / figure.median, *counts, fewer]
