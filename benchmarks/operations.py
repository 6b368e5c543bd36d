# SPDX-License-Identifier: Apache-2.0
"""The measured queries and writes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from benchmarks import cloud, served

_FLAT = (
    f"/allocation_candidates?resources=VCPU:1,DISK_GB:10,MEMORY_MB:{{amount}}"
    f"&member_of={cloud.AGGREGATE}&required=HW_CPU_X86_AVX2"
)
_NESTED = (
    "/allocation_candidates?resources=DISK_GB:10&group_policy=isolate&same_subtree=_N0,_G"
    "&resources_N0=VCPU:2,MEMORY_MB:{amount}&required_N0=HW_NUMA_ROOT"
    "&resources_N1=VCPU:2,MEMORY_MB:{amount}&required_N1=HW_NUMA_ROOT&resources_G=VGPU:1"
)
_WIDE = "/allocation_candidates?group_policy=isolate" + "".join(
    f"&resources_{group}=PCI_DEVICE:1" for group in "ABCD"
)
_FILTERED = (
    "/resource_providers?resources=VCPU:8,MEMORY_MB:{amount}&required=STORAGE_DISK_SSD"
    f"&member_of={cloud.AGGREGATE}"
)

#: Of lists, and of queries with a limit.
FLOOR_TARGET = 2.0


@dataclasses.dataclass(frozen=True)
class Query:
    """A GET request.

    ``target`` is the required factor to openstack-placement, ``floor_target`` the largest factor to
    the same HTTP server without any work.
    """

    name: str
    path: str
    target: float | None = None
    floor_target: float | None = None


QUERIES = (
    Query("candidates, flat hosts: all", _FLAT, 25),
    Query("candidates, flat hosts: limit=10", f"{_FLAT}&limit=10", 70, FLOOR_TARGET),
    Query("candidates, nested hosts: all", _NESTED, 30),
    Query("candidates, nested hosts: limit=10", f"{_NESTED}&limit=10", 80, FLOOR_TARGET),
    Query("candidates, wide hosts: all", _WIDE, 10),
    Query("candidates, wide hosts: limit=10", f"{_WIDE}&limit=10", 1000, FLOOR_TARGET),
    Query("providers: all", "/resource_providers", 6),
    Query("providers: by resources, trait, aggregate", _FILTERED, 6),
    Query("traits: all", "/traits", None, FLOOR_TARGET),
)
WRITE_TARGET = 15.0


def results(raw: bytes) -> int:
    """The number of items in a response."""
    answer = json.loads(raw)
    for key in ("allocation_requests", "resource_providers", "traits"):
        if key in answer:
            return len(answer[key])
    raise ValueError("unknown response")


def disturb(server: served.Served, provider: str, turn: int) -> None:
    """Write to a provider, so that the server cannot reuse a response."""
    provider_body = json.loads(server.request("GET", f"/resource_providers/{provider}"))
    more = ["HW_CPU_X86_SSE"] if turn % 2 else []
    body = {
        "resource_provider_generation": provider_body["generation"],
        "traits": [*cloud.FLAT_TRAITS, *more],
    }
    server.request("PUT", f"/resource_providers/{provider}/traits", body)


def allocation(provider: str) -> dict[str, Any]:
    """The body of a new instance's allocation request."""
    return {
        "allocations": {provider: {"resources": {"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


def amounts() -> Iterator[int]:
    """Amounts for queries, each only once."""
    return iter(range(256, 100_000))
