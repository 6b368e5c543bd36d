# SPDX-License-Identifier: Apache-2.0
"""CPU time of ``allocation candidate explain`` on database files of any size."""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Iterator
from typing import Any

from benchmarks import client
from osc_placement import server
from osc_placement.testing.cloud import Cloud

_DEVICE = "CUSTOM_PF"
_TRAITS = 60
_AGGREGATES = 50
_INVENTORIES: dict[str, dict[str, Any]] = {
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
    cloud = Cloud()
    for number in range(hosts):
        name = f"cmp-{number:05}"
        traits = {*named[:_TRAITS]} - {"COMPUTE_STATUS_DISABLED"}
        traits |= {"CUSTOM_GPU"} if number % 100 == 0 else set()
        traits |= {"COMPUTE_STATUS_DISABLED"} if number % 50 == 0 else set()
        aggregates = [f"aggregate {number % _AGGREGATES}"]
        cloud.host(name, traits=sorted(traits), aggregates=aggregates, **_INVENTORIES)
        for node in range(2 if nested else 0):
            cloud.child(name, f"{name}-numa{node}", traits=["CUSTOM_NUMA"], PCPU=32, CUSTOM_PF=8)
        for at in range(servers):
            amounts = {"VCPU": draw.choice((2, 4, 8)), "MEMORY_MB": draw.choice((4096, 8192))}
            allocations = {name: {**amounts, "DISK_GB": 20}}
            cloud.server(f"{name} server {at}", allocations, project=f"project-{number % 100}")
    names = {
        "custom_resource_classes": ["CUSTOM_PF"],
        "custom_traits": ["CUSTOM_GPU", "CUSTOM_NUMA"],
    }
    server.create_app(str(path), load=cloud.document() | names).close()


def measure(path: pathlib.Path) -> Iterator[Figure]:
    """The command without a file, which is the time of ``openstack`` itself, then each query."""
    yield _run("openstack alone", ["placement", "plan", "list"])
    for name, query in QUERIES.items():
        explain = ["allocation", "candidate", "explain", "--query", query]
        yield _run(name, ["--os-placement-database", str(path), *explain])


def _run(name: str, arguments: list[str]) -> Figure:
    return Figure(name, client.run(client.ours(), arguments, codes=(0, 3)).cpu)
