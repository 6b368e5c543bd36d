# SPDX-License-Identifier: Apache-2.0
"""CPU time of ``allocation candidate explain`` on database files of any size."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from osc_placement import server

_TRAITS = 60
_AGGREGATES = 50
_INVENTORIES = {
    "VCPU": {"total": 64, "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 512_000, "reserved": 4096},
    "DISK_GB": {"total": 4000},
}

_ENABLED = "root_required=!COMPUTE_STATUS_DISABLED"
QUERIES = {
    "candidates": f"resources=VCPU:2,MEMORY_MB:4096,DISK_GB:20&{_ENABLED}",
    "a trait of disabled hosts": f"resources=VCPU:8,MEMORY_MB:4096&required=CUSTOM_GPU&{_ENABLED}",
    "too large in every class": "resources=VCPU:300,MEMORY_MB:600000,DISK_GB:5000",
    "too large in two classes": "resources=VCPU:240,MEMORY_MB:505000,DISK_GB:3980",
    "two groups": "resources1=VCPU:8,MEMORY_MB:4096&resources2=VCPU:8&group_policy=none"
    f"&required1=CUSTOM_GPU&{_ENABLED}",
    "too large for a NUMA node": "resources=VCPU:8,MEMORY_MB:4096&resources1=PCPU:40,CUSTOM_PF:1"
    f"&required1=CUSTOM_NUMA&required=CUSTOM_GPU&{_ENABLED}",
}


@dataclasses.dataclass(frozen=True)
class Figure:
    """Seconds of CPU time (user and system) of one process."""

    name: str
    seconds: float


def create(path: pathlib.Path, hosts: int, servers: int, *, nested: bool) -> None:
    """A database file of hosts with this many servers each; ``nested``: with two NUMA nodes."""
    import os_traits

    draw = random.Random("explain")
    prefixes = ("HW_CPU_X86_", "COMPUTE_")
    named = sorted(name for name in os_traits.get_traits() if name.startswith(prefixes))
    state: dict[str, Any] = {
        "custom_resource_classes": ["CUSTOM_PF"],
        "custom_traits": ["CUSTOM_GPU", "CUSTOM_NUMA"],
        "providers": {},
        "consumers": {},
    }
    for number in range(hosts):
        root = _uuid(draw)
        traits = {*named[:_TRAITS]} - {"COMPUTE_STATUS_DISABLED"}
        traits |= {"CUSTOM_GPU"} if number % 100 == 0 else set()
        traits |= {"COMPUTE_STATUS_DISABLED"} if number % 50 == 0 else set()
        aggregates = [str(uuid.UUID(int=number % _AGGREGATES + 1, version=4))]
        name = f"cmp-{number:05}"
        state["providers"][root] = _provider(name, root, None, _INVENTORIES, traits, aggregates)
        for node in range(2 if nested else 0):
            offered = {"PCPU": {"total": 32}, "CUSTOM_PF": {"total": 8}}
            child = _provider(f"{name}-numa{node}", root, root, offered, {"CUSTOM_NUMA"}, [])
            state["providers"][_uuid(draw)] = child
        for _ in range(servers):
            amounts = {"VCPU": draw.choice((2, 4, 8)), "MEMORY_MB": draw.choice((4096, 8192))}
            state["consumers"][_uuid(draw)] = {
                "allocations": {root: {**amounts, "DISK_GB": 20}},
                "generation": 1,
                "project": f"project-{number % 100}",
                "user": "user",
                "type": "INSTANCE",
            }
    server.create_app(str(path), load=state).close()


def _provider(
    name: str,
    root: str,
    parent: str | None,
    inventories: dict[str, Any],
    traits: set[str],
    aggregates: list[str],
) -> dict[str, Any]:
    return {
        "name": name,
        "parent": parent,
        "root": root,
        "generation": 3,
        "inventories": inventories,
        "traits": sorted(traits),
        "aggregates": aggregates,
    }


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def measure(path: pathlib.Path) -> Iterator[Figure]:
    """The command without a file, which is the time of ``openstack`` itself, then each query."""
    yield _run("openstack alone", ["placement", "plan", "list"], path)
    for name, query in QUERIES.items():
        explain = ["allocation", "candidate", "explain", "--query", query]
        yield _run(name, ["--os-placement-database", str(path), *explain], path)


def _run(name: str, arguments: list[str], path: pathlib.Path) -> Figure:
    program = "import sys; from openstackclient.shell import main; sys.exit(main())"
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", program, *arguments],
        {**os.environ, "XDG_STATE_HOME": str(path.parent)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)
        ],
    )
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise RuntimeError(f"{name}: exit status {status}")
    return Figure(name, usage.ru_utime + usage.ru_stime)
