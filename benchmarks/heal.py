# SPDX-License-Identifier: Apache-2.0
"""Compare healing with nova-manage: the same servers without allocations, the same services.

The services are those of the lab. ``heal_allocations`` reads nova's database and this project's
command nova's API; the common measure is the number of requests to Placement.
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
from lab import database, lifecycle, place, process

NOVA_MANAGE, OURS = "nova-manage", "this"
COMMAND = "placement allocation heal"
#: Services whose requests are counted.
COUNTED = ("placement", "nova", "neutron")

#: The required factors: fewer requests to Placement, shorter duration.
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
    """The runs of one program: the seconds, and the requests to each service, of each run."""

    program: str
    seconds: list[float] = dataclasses.field(default_factory=list)
    requests: list[Mapping[str, int]] = dataclasses.field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)

    def count(self, service: str) -> float:
        """The median number of requests to a service."""
        return statistics.median(sent[service] for sent in self.requests)


@contextlib.contextmanager
def seeded(lab: place.Place, hosts: int, servers: int) -> Iterator[str]:
    """Start the lab; yield the name of a saved state with that many servers."""
    state = f"heal-{hosts}-{servers}"
    started = lifecycle.up(lab)
    try:
        if not lifecycle.is_seeded(lab, state):
            lifecycle.seed(lab, hosts, servers, "ordinary", state)
        yield state
    finally:
        saved = database.saved(lab)
        database.reset(lab, database.SEEDED if database.SEEDED in saved else database.EMPTY)
        process.stop(lab, started)


def compare(lab: place.Place, state: str, repeat: int, command: str) -> dict[str, Figure]:
    """Run both programs in turn, each time from the saved state, and return their figures.

    Raises RuntimeError if their results differ.
    """
    figures = {program: Figure(program) for program in (NOVA_MANAGE, OURS)}
    programs = {NOVA_MANAGE: _nova_manage(lab), OURS: _ours(lab, command)}
    for _ in range(repeat):
        results: dict[str, State] = {}
        for name, figure in figures.items():
            database.reset(lab, state)
            before = _counts(lab)
            run = client.run(*programs[name])
            figure.seconds.append(run.seconds)
            after = _counts(lab)
            figure.requests.append(
                {service: after[service] - before[service] for service in COUNTED}
            )
            results[name] = allocated(lab)
        check(results)
    return figures


def check(results: Mapping[str, State]) -> None:
    """Raise RuntimeError if the allocations or owners differ."""
    theirs, ours = results[NOVA_MANAGE], results[OURS]
    differing = sorted(uuid for uuid in {*theirs, *ours} if theirs.get(uuid) != ours.get(uuid))
    if differing:
        uuid = differing[0]
        raise RuntimeError(
            f"{len(differing)} consumers differ; the first is {uuid}: {theirs.get(uuid)} after"
            f" nova-manage, {ours.get(uuid)} after this project's command"
        )


def allocated(lab: place.Place) -> State:
    """Read the allocations in Placement's database."""
    path = lab.database("placement")
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        allocations: dict[str, dict[tuple[str, str], int]] = {}
        for uuid, provider, resource_class, used in connection.execute(_ALLOCATIONS):
            allocations.setdefault(uuid, {})[provider, resource_class] = used
        owners = list(connection.execute(_CONSUMERS))
    return {
        uuid: (project, user, allocations[uuid])
        for uuid, project, user in owners
        if uuid in allocations
    }


def _nova_manage(lab: place.Place) -> tuple[pathlib.Path, Sequence[str], Mapping[str, str]]:
    config = ("--config-dir", str(lab.path("etc", "nova")))
    arguments = [*config, "placement", "heal_allocations"]
    return pathlib.Path(lab.program("nova-manage")), arguments, lab.environment()


def _ours(lab: place.Place, command: str) -> tuple[pathlib.Path, Sequence[str], Mapping[str, str]]:
    environment = {"OS_CLOUD": "lab", "OS_CLIENT_CONFIG_FILE": str(lab.path("clouds.yaml"))}
    return client.ours(), command.split(), environment


def _counts(lab: place.Place) -> dict[str, int]:
    """The number of lines in the access log of each service."""
    return {service: _lines(lab.path("log", f"{service}.access.log")) for service in COUNTED}


def _lines(path: pathlib.Path) -> int:
    with path.open("rb") as log:
        return sum(1 for _ in log)


def row(figure: Figure, baseline: Figure) -> list[Any]:
    """Program, seconds, factor faster, requests to each service, factor fewer."""
    counts = [figure.count(service) for service in COUNTED]
    fewer = baseline.count("placement") / max(1, figure.count("placement"))
    return [figure.program, figure.median, baseline.median / figure.median, *counts, fewer]
