# SPDX-License-Identifier: Apache-2.0
"""Compare batch operations with upstream's plugin on the same openstack-placement.

They set the VCPU ratio on each host of an aggregate: upstream's command line with upstream's
plugin and with this one, and this plugin's ``inventory amend``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from benchmarks import client, cloud, served
from osc_placement.testing.cloud import uuid_of
from tests.support.peer import database, process, target as targets

UPSTREAM, SET, AMEND = "upstream", "this, the same command", "this, inventory amend"

_SET = f"resource provider inventory set {cloud.AGGREGATE} --aggregate --amend"
_AMEND = "resource provider inventory amend"
COMMANDS: Mapping[str, str] = {
    UPSTREAM: _SET,
    SET: _SET,
    AMEND: f"{_AMEND} --member-of {cloud.AGGREGATE}",
}

#: The required factor to upstream: ``{milliseconds of latency: (first run, second run)}``.
TARGETS: Mapping[int, tuple[float, float]] = {50: (5.0, 2.0), 0: (1.0, 2.0)}

#: The memory limit in MiB of a batch with so many providers.
MEMORY, PROVIDERS = 300, 10_000


class Figure(NamedTuple):
    """Median seconds of one command; ``changes`` is false for a run with nothing to change."""

    milliseconds: int
    program: str
    changes: bool
    seconds: float
    ratio: float
    target: float | None


class Large(NamedTuple):
    """The measurement of a batch with PROVIDERS providers."""

    what: str
    seconds: float
    memory: int
    shows_progress: bool


@contextlib.contextmanager
def placement(folder: pathlib.Path) -> Iterator[tuple[str, served.Served]]:
    """Run openstack-placement; yield a description of its database, and the server."""
    with contextlib.ExitStack() as stack:
        environment, what = {}, "SQLite, one thread"
        try:
            environment["PLACEMENT_DATABASE"] = stack.enter_context(database.postgresql())
            what = "PostgreSQL, two workers with one thread each"
        except database.Missing as missing:
            print(missing, file=sys.stderr)
        state = folder / "placement"
        state.mkdir()
        durable = {**environment, "PLACEMENT_DURABLE": "yes"}
        url = stack.enter_context(process.running(process.PLACEMENT, state, "legacy-rbac", durable))
        yield what, served.Served(int(url.rpartition(":")[2]))


@contextlib.contextmanager
def latency(port: int, milliseconds: int) -> Iterator[int]:
    """Yield a port that adds a round-trip time to the server at ``port``."""
    if not milliseconds:
        yield port
        return
    near_port = process.free_port()
    command = [sys.executable, "-m", "benchmarks.latency", str(near_port), str(port)]
    proxy = subprocess.Popen([*command, str(milliseconds)], cwd=process.ROOT)
    try:
        yield near_port
    finally:
        proxy.terminate()
        proxy.wait()


def compare(
    server: served.Served, hosts: int, repeat: int, program: pathlib.Path
) -> Iterator[Figure]:
    """Run each command at each latency: once with changes, once with nothing to change."""
    for write in cloud.writes(cloud.flat_hosts(hosts)):
        server.request(*write)
    ratios = itertools.count(17)
    programs = {UPSTREAM: program, SET: client.ours(), AMEND: client.ours()}
    for milliseconds in TARGETS:
        with latency(server.port, milliseconds) as near_port:
            times: dict[tuple[str, bool], list[float]] = {}
            for _, name in itertools.product(range(repeat), COMMANDS):
                ratio = next(ratios)
                for changes in (True, False):
                    run = client.run(programs[name], _arguments(near_port, COMMANDS[name], ratio))
                    times.setdefault((name, changes), []).append(run.seconds)
                    _check(server, hosts, ratio)
        medians = {key: statistics.median(seconds) for key, seconds in times.items()}
        for (name, changes), seconds in medians.items():
            target = None if name == UPSTREAM else TARGETS[milliseconds][not changes]
            ratio_to = medians[UPSTREAM, changes] / seconds
            yield Figure(milliseconds, name, changes, seconds, ratio_to, target)


def _arguments(port: int, command: str, ratio: int) -> list[str]:
    return [*targets.admin_options(f"http://127.0.0.1:{port}"), *_change(command, ratio).split()]


def _change(command: str, ratio: int) -> str:
    return f"{command} --resource VCPU:allocation_ratio={ratio} -f json"


def _check(server: served.Served, hosts: int, ratio: int) -> None:
    """Raise RuntimeError if a host has another ratio."""
    for number in range(hosts):
        name = cloud.flat_name(number)
        path = f"/resource_providers/{uuid_of(name)}/inventories"
        response = json.loads(server.request("GET", path))
        if response["inventories"]["VCPU"]["allocation_ratio"] != ratio:
            raise RuntimeError(f"{name} was not changed: {response}")


def large(folder: pathlib.Path) -> Iterator[Large]:
    """Measure the reference server with PROVIDERS providers: as a process, and in the command."""
    document = folder / "large.json"
    document.write_text(json.dumps(cloud.flat_hosts(PROVIDERS)))
    database = str(folder / "large.sqlite")
    everything = f"{_AMEND} --all"
    command = served.ours("--load", str(document), "--database", database)
    with served.serving(command, folder / "large") as server:
        run = client.run(client.ours(), _arguments(server.port, everything, 17))
        yield _large("server on a port", run)
    embedded = {"OSC_PLACEMENT_DATABASE": database}
    run = client.run(client.ours(), _change(everything, 18).split(), embedded)
    yield _large("server in the command", run)


def _large(what: str, run: client.Run) -> Large:
    shown = re.search(
        rf"reading inventories.*applying.*{PROVIDERS}/{PROVIDERS}", run.output, re.DOTALL
    )
    return Large(what, run.seconds, run.memory, shown is not None)
