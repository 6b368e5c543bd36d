# SPDX-License-Identifier: Apache-2.0
"""The generation strategy of allocation candidates, compared with openstack-placement."""

from __future__ import annotations

import collections
import json
import pathlib
import uuid

import pytest

from tests.support.peer import raw

ADMIN = [("X-Auth-Token", "admin"), ("OpenStack-API-Version", "placement 1.39")]
JSON = ("Content-Type", "application/json")


def put(port: int, method: str, path: str, body: object) -> None:
    message = raw.encode(method, path, [*ADMIN, JSON], json.dumps(body).encode())
    assert raw.send(port, message).status in (200, 201)


def add(port: int, name: str, parent: str | None = None, **totals: int) -> str:
    provider = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
    put(
        port,
        "POST",
        "/resource_providers",
        {"name": name, "uuid": provider, "parent_provider_uuid": parent},
    )
    inventories = {key: {"total": total} for key, total in totals.items()}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    put(port, "PUT", f"/resource_providers/{provider}/inventories", body)
    return provider


def trees_used(port: int, query: str) -> list[int]:
    """How many of the candidates use each tree, the most used first."""
    message = raw.encode("GET", f"/allocation_candidates?{query}", ADMIN, None)
    answer = raw.send(port, message).body
    roots = {
        key: summary["root_provider_uuid"] for key, summary in answer["provider_summaries"].items()
    }
    counted = collections.Counter(
        roots[next(iter(request["allocations"]))] for request in answer["allocation_requests"]
    )
    return sorted(counted.values(), reverse=True)


@pytest.mark.parametrize(
    ("query", "expected", "of_peer"),
    [
        ("resources1=VGPU:1", [2, 2, 1], [[2, 2, 1]]),
        # The peer finds five candidates, and takes any two of them.
        ("resources1=VGPU:1&limit=2", [1, 1], [[1, 1], [2]]),
        ("resources1=VGPU:1&limit=9", [2, 2, 1], [[2, 2, 1]]),
    ],
)
def test_candidates_are_taken_from_each_tree_in_turn(
    tmp_path: pathlib.Path, query: str, expected: list[int], of_peer: list[list[int]]
) -> None:
    with raw.both(tmp_path, "breadth-first") as ports:
        for port in ports:
            for host in range(3):
                root = add(port, f"host{host}")
                for gpu in range(4):
                    add(port, f"gpu{host}-{gpu}", root, VGPU=1)
        peer, embedded = ports
        assert trees_used(embedded, query) == expected
        assert trees_used(peer, query) in of_peer
