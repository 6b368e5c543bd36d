# SPDX-License-Identifier: Apache-2.0
"""Questions about one flavor or one host of a large cloud: what each costs client and service."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks import client
from tests.support.clouds import large
from tests.support.peer import target as targets

if TYPE_CHECKING:
    from benchmarks.gunicorn_placement import Service

#: A flavor that fits on no host.
_HUGE = {"VCPU": 2_000, "MEMORY_MB": 1_000_000}


@dataclasses.dataclass(frozen=True)
class Figure:
    """The measurement of a question. ``size``: bytes of the answers; ``answer``: what it printed.

    ``is_whole``: it ended before the limit, with an exit code of a result.
    """

    name: str
    run: client.Run
    service_cpu: float
    requests: collections.Counter[str]
    size: int
    answer: Any

    @property
    def is_whole(self) -> bool:
        return self.run.code in (0, 3, 4)


def questions(cloud: large.LargeCloud) -> dict[str, Sequence[str]]:
    """``{name: the command}``."""
    huge = [f"--resource={name}={amount}" for name, amount in _HUGE.items()]
    return {
        "explain": ["allocation", "candidate", "explain", *huge],
        "capacity": ["placement", "capacity", "show", "--flavor", "large"],
        "host check": ["placement", "host", "check", cloud.hosts[0].node],
        "flavor audit": ["placement", "flavor", "audit"],
        "health": ["placement", "health", "show"],
    }


def measure(
    service: Service,
    cloud: large.LargeCloud,
    folder: pathlib.Path,
    source: pathlib.Path | None = None,
    only: Sequence[str] = (),
    limit: float | None = None,
) -> Iterator[Figure]:
    """Ask each question once; ``source`` is a checkout whose package answers instead."""
    recording = folder / "nova.json"
    recording.write_text(json.dumps(cloud.nova()))
    output = folder / "answer.json"
    options = targets.admin_options(service.url)
    variables = {} if source is None else {"PYTHONPATH": str(source)}
    for name, command in questions(cloud).items():
        if only and name not in only:
            continue
        service.traffic()
        before = service.cpu()
        line = [*options, *command, "--os-nova-recording", str(recording), "-f", "json"]
        run = client.run(client.ours(), line, variables, output=output, codes=None, limit=limit)
        used, (requests, size) = service.cpu() - before, service.traffic()
        yield Figure(name, run, used, requests, size, _parsed(output.read_text()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
