# SPDX-License-Identifier: Apache-2.0
"""Time, requests and memory of ``placement snapshot save`` on a cloud of any size."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks import client, cloud, placement_rows
from osc_placement.testing.cloud import Cloud
from tests.support.peer import database, process, target as targets

_TRAITS = 30
_PROJECTS = 100
_HEADERS = {"x-auth-token": "admin", "x-roles": "admin,service"}


@dataclasses.dataclass(frozen=True)
class Step:
    """One command: its seconds, those of its CPU, its requests, and its peak memory in MiB."""

    name: str
    seconds: float
    cpu: float
    requests: int | None
    memory: int


def document(providers: int, consumers: int) -> dict[str, Any]:
    """A flat cloud: each consumer has allocations on one provider."""
    import os_traits

    traits = sorted(os_traits.get_traits(prefix="HW_CPU"))[:_TRAITS]
    hosts = [cloud.flat_name(number) for number in range(providers)]
    amounts = dict.fromkeys(("VCPU", "MEMORY_MB", "DISK_GB"), 1)
    kit = Cloud()
    for name in hosts:
        aggregates = ["aggregate", f"{name} aggregate"]
        kit.host(name, traits=traits, aggregates=aggregates, **dict.fromkeys(amounts, 1_000_000))
    for number in range(consumers):
        allocations = {hosts[number % providers]: amounts}
        kit.server(f"server {number}", allocations, project=f"project-{number % _PROJECTS}")
    return kit.document()


@contextlib.contextmanager
def served(peer: str, state: dict[str, Any], folder: pathlib.Path) -> Iterator[str]:
    """The URL of a Placement with this state: the reference server or openstack-placement."""
    if peer == "embedded":
        file = folder / "state.json"
        file.write_text(json.dumps(state))
        command = [sys.executable, "-m", "osc_placement.server", "--load", str(file), "--port"]
        with process.running(command, folder) as url:
            yield url
        return
    with contextlib.ExitStack() as stack:
        address = f"sqlite:///{folder}/placement.sqlite"
        environment = {}
        if peer != "sqlite":
            address = stack.enter_context(database.SERVERS[peer]())
            environment["PLACEMENT_DATABASE"] = address
        url = stack.enter_context(
            process.running(process.PLACEMENT, folder, environment=environment)
        )
        placement_rows.write(placement_rows.Tables(address), state)
        yield url


def measure_tables(folder: pathlib.Path) -> Step:
    """Save from openstack-placement's own tables, while the service runs."""
    configuration = ["--os-placement-config", str(folder / "placement.conf")]
    save = [*configuration, "placement", "snapshot", "save", "tables.sqlite"]
    return _run("save from the tables", save, folder)


def measure(url: str, folder: pathlib.Path, workers: int) -> Iterator[Step]:
    """Save, save without owners, show and open the file."""
    snapshot = ["placement", "snapshot"]
    save = [*targets.admin_options(url), *snapshot, "save", "--os-placement-workers", str(workers)]
    yield _run("save", [*save, "cloud.sqlite"], folder)
    yield _run("save without owners", [*save, "short.sqlite", "--without-owners"], folder)
    yield _run("show", [*snapshot, "show", "cloud.sqlite"], folder)
    opened = ["--os-placement-database", "cloud.sqlite", "resource", "class", "list"]
    yield _run("open the file (class list)", opened, folder)


def _run(name: str, arguments: list[str], folder: pathlib.Path) -> Step:
    """Run one ``openstack`` command as a process."""
    answers = folder / "output.json"
    run = client.run(client.ours(), [*arguments, "-f", "json"], output=answers)
    answer = json.loads(answers.read_text())
    sent = answer.get("requests") if isinstance(answer, dict) else None
    return Step(name, run.seconds, run.cpu, sent, run.memory)
