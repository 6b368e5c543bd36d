"""Batches beside upstream's plugin: the same work on the same openstack-placement.

The ratio of VCPU on every host of an aggregate, by upstream's own command line with
upstream's plugin and with this one, and by this one's ``inventory amend``.
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
from tests.support.peer import database, process

UPSTREAM, SET, AMEND = "upstream", "this, the same command", "this, inventory amend"

_SET = f"resource provider inventory set {cloud.AGGREGATE} --aggregate --amend"
_AMEND = "resource provider inventory amend"
COMMANDS: Mapping[str, str] = {
    UPSTREAM: _SET,
    SET: _SET,
    AMEND: f"{_AMEND} --member-of {cloud.AGGREGATE}",
}

#: Times that we must be faster than upstream, ``{milliseconds between: (first, second run)}``.
TARGETS: Mapping[int, tuple[float, float]] = {50: (5.0, 2.0), 0: (1.0, 2.0)}

#: MiB that a batch over MANY providers may take.
MEMORY, MANY = 300, 10_000


class Figure(NamedTuple):
    """Median seconds of one command: ``changes`` is whether there was anything to change."""

    milliseconds: int
    who: str
    changes: bool
    seconds: float
    ratio: float
    target: float | None


class Large(NamedTuple):
    """A batch over MANY providers."""

    what: str
    seconds: float
    memory: int
    shows_progress: bool


@contextlib.contextmanager
def placement(folder: pathlib.Path) -> Iterator[tuple[str, served.Served]]:
    """openstack-placement, and what its database is."""
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
        command = (sys.executable, "-m", "tests.support.peer.placement")
        url = stack.enter_context(process.running(command, state, "legacy-rbac", durable))
        yield what, served.Served(int(url.rpartition(":")[2]))


@contextlib.contextmanager
def distance(port: int, milliseconds: int) -> Iterator[int]:
    """A port from which the server at ``port`` is so far away."""
    if not milliseconds:
        yield port
        return
    here = process.free_port()
    command = [sys.executable, "-m", "benchmarks.distance", str(here), str(port)]
    proxy = subprocess.Popen([*command, str(milliseconds)], cwd=process.ROOT)
    try:
        yield here
    finally:
        proxy.terminate()
        proxy.wait()


def compare(
    server: served.Served, hosts: int, repeat: int, program: pathlib.Path
) -> Iterator[Figure]:
    """Every command at every distance, a first time and, nothing being left to do, again."""
    for number in range(hosts):
        for provider in cloud.flat_host(number):
            for write in provider.writes():
                server.ask(*write)
    ratios = itertools.count(17)
    programs = {UPSTREAM: program, SET: client.ours(), AMEND: client.ours()}
    for milliseconds in TARGETS:
        with distance(server.port, milliseconds) as near:
            times: dict[tuple[str, bool], list[float]] = {}
            for _, who in itertools.product(range(repeat), COMMANDS):
                ratio = next(ratios)
                for changes in (True, False):
                    ended = client.run(programs[who], _words(near, COMMANDS[who], ratio))
                    times.setdefault((who, changes), []).append(ended.seconds)
                    _check(server, hosts, ratio)
        medians = {key: statistics.median(seconds) for key, seconds in times.items()}
        for (who, changes), seconds in medians.items():
            target = None if who == UPSTREAM else TARGETS[milliseconds][not changes]
            ratio_to = medians[UPSTREAM, changes] / seconds
            yield Figure(milliseconds, who, changes, seconds, ratio_to, target)


def _words(port: int, command: str, ratio: int) -> list[str]:
    where = f"--os-auth-type admin_token --os-token admin --os-endpoint http://127.0.0.1:{port}"
    return f"{where} {_change(command, ratio)}".split()


def _change(command: str, ratio: int) -> str:
    return f"{command} --resource VCPU:allocation_ratio={ratio} -f json"


def _check(server: served.Served, hosts: int, ratio: int) -> None:
    """Whether the work was done. Raises RuntimeError."""
    for number in range(hosts):
        host = cloud.flat_host(number)[0]
        answer = json.loads(server.ask("GET", f"/resource_providers/{host.uuid}/inventories"))
        if answer["inventories"]["VCPU"]["allocation_ratio"] != ratio:
            raise RuntimeError(f"{host.name} was not changed: {answer}")


def large(folder: pathlib.Path) -> Iterator[Large]:
    """MANY providers on the reference server: as a process of its own, and in the command."""
    providers = [provider for host in range(MANY) for provider in cloud.flat_host(host)]
    document = folder / "large.json"
    document.write_text(json.dumps(cloud.document(providers)))
    database = str(folder / "large.sqlite")
    everything = f"{_AMEND} --all"
    command = served.ours("--load", str(document), "--database", database)
    with served.serving(command, folder / "large") as server:
        ended = client.run(client.ours(), _words(server.port, everything, 17))
        yield _large("the server on a port", ended)
    embedded = {"OSC_PLACEMENT_DATABASE": database}
    ended = client.run(client.ours(), _change(everything, 18).split(), embedded)
    yield _large("the server in the command", ended)


def _large(what: str, ended: client.Run) -> Large:
    shown = re.search(rf"reading inventories.*applying.*{MANY}/{MANY}", ended.said, re.DOTALL)
    return Large(what, ended.seconds, ended.memory, shown is not None)
