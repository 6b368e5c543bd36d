# SPDX-License-Identifier: Apache-2.0
"""What nova refuses about CPUs, NUMA nodes and pages; lab/tests/test_request.py asks nova."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from osc_placement.nova import topology


def refused(specs: Mapping[str, str], image: Mapping[str, str] | None = None) -> str:
    return "; ".join(topology.refusals(4, 2048, specs, image or {}))


NODES = {"hw:numa_cpus.0": "0-1", "hw:numa_cpus.1": "2-3"}


@pytest.mark.parametrize(
    ("specs", "image", "reason"),
    [
        ({"resources:VCPU": "4", "hw:cpu_policy": "shared"}, {}, "not allowed with a CPU policy"),
        ({"resources:PCPU": "2"}, {}, "is not the flavor's 4 vcpus"),
        ({"resources:PCPU": "4", "resources1:VCPU": "1"}, {}, "exclude each other"),
        ({"hw:cpu_policy": "mixed"}, {}, "needs hw:cpu_dedicated_mask"),
        ({"hw:cpu_dedicated_mask": "1"}, {}, "needs hw:cpu_policy=mixed"),
        ({"hw:emulator_threads_policy": "isolate"}, {}, "needs a dedicated CPU policy"),
        ({"hw:cpu_thread_policy": "prefer"}, {}, "needs a dedicated CPU policy"),
        ({"hw:cpu_realtime": "yes", "hw:cpu_policy": "dedicated"}, {}, "needs a realtime CPU"),
        ({"hw:numa_nodes": "3"}, {}, "do not divide by 3 NUMA nodes"),
        ({"hw:numa_nodes": "2", **NODES}, {}, "not set for all 2 NUMA nodes"),
        (
            {"hw:numa_nodes": "2", "hw:numa_mem.0": "1024", "hw:numa_mem.1": "1000", **NODES},
            {},
            "have 2024 of 2048 MiB",
        ),
        ({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}, "forbids the image's"),
        ({"hw:mem_page_size": "1b", "hw:numa_cpus.0": "7"}, {}, "not set for all 1 NUMA"),
        ({"hw:mem_page_size": "0.5KB", "hw:numa_cpus.0": "7"}, {}, "not set for all 1 NUMA"),
        ({"hw:locked_memory": "true"}, {}, "needs hw:mem_page_size"),
        ({"hw:mem_page_size": "4kB"}, {}, "is not a page size"),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}, "large or any"),
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_max_sockets": "3"}, "exceeds hw:cpu_max_sockets=2"),
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "3"}, "exceeds 2"),
        ({"hw:pmu": "true"}, {"hw_pmu": "false"}, "contradicts"),
    ],
)
def test_a_contradiction_is_named(
    specs: Mapping[str, str], image: Mapping[str, str], reason: str
) -> None:
    assert reason in refused(specs, image)


@pytest.mark.parametrize(
    ("specs", "image"),
    [
        ({}, {}),
        ({"resources:PCPU": "4"}, {}),
        # A page size of zero gives the guest no NUMA node.
        *(({"hw:mem_page_size": size, "hw:numa_cpus.0": "7"}, {}) for size in ("0", "0MB", "00b")),
        ({"hw:mem_page_size": "any", "hw:numa_cpus.0": "7"}, {"hw_mem_page_size": "0"}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1"}, {}),
        ({"hw:emulator_threads_policy": "isolate"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "^0", "hw:cpu_policy": "dedicated"}, {}),
        ({"hw:numa_nodes": "2"}, {}),
        (
            {"hw:numa_nodes": "2", "hw:numa_mem.0": "1024", "hw:numa_mem.1": "1024", **NODES},
            {},
        ),
        ({"hw:locked_memory": "true", "hw:mem_page_size": "1GB"}, {}),
        ({"hw:mem_page_size": "any"}, {"hw_mem_page_size": "2MB"}),
    ],
)
def test_what_nova_accepts_is_not_refused(
    specs: Mapping[str, str], image: Mapping[str, str]
) -> None:
    assert refused(specs, image) == ""
