# SPDX-License-Identifier: Apache-2.0
"""The location of servers in every state that nova reports."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement.nova import values
from osc_placement.workflows.cloud import server_moves
from tests.support.clouds import small
from tests.support.clouds.small import move, server

#: A server's fields, its migrations, and of its location: why it is moving, its node's host,
#: and the hosts on which it may hold allocations (``*`` for any).
TABLE: dict[str, tuple[dict[str, Any], tuple[values.Migration, ...], str, str, str]] = {
    "active": ({}, (), "", "a", "a"),
    "stopped": ({"vm_state": "stopped"}, (), "", "a", "a"),
    "in error on a host": ({"vm_state": "error"}, (), "", "a", "a"),
    "soft-deleted": ({"vm_state": "soft-delete"}, (), "", "a", "a"),
    "shelved": ({"vm_state": "shelved"}, (), "", "a", "a"),
    "shelved offloaded": ({"vm_state": "shelved_offloaded", "host": None}, (), "", "", ""),
    "in error on no host": ({"vm_state": "error", "host": None}, (), "", "", ""),
    "building on no host": ({"vm_state": "building", "host": None}, (), "being built", "", "*"),
    "rebooting": ({"task_state": "rebooting"}, (), "rebooting", "a", "*"),
    "being unshelved": (
        {"vm_state": "shelved_offloaded", "host": None, "task_state": "spawning"},
        (),
        "spawning",
        "",
        "*",
    ),
    "on a host without node": ({"host": "ghost"}, (), "", "", "*"),
    "of a cell that is down": ({"known": False}, (), "cell is down", "a", "*"),
    "queued to migrate": ({}, (move("migration", "queued", "a?"),), "is queued", "a", "*"),
    "being resized": (
        {"task_state": "resize_migrating"},
        (move("resize", "migrating"),),
        "its resize is migrating",
        "a",
        "ab",
    ),
    "resized on its host": ({}, (move("resize", "finished", "aa"),), "confirmed", "a", "a"),
    "waiting to be confirmed": (
        {"vm_state": "resized", "host": "b"},
        (move("resize", "finished"),),
        "its resize waits to be confirmed",
        "b",
        "ab",
    ),
    "resized by a forgotten migration": ({"vm_state": "resized"}, (), "waits", "a", "*"),
    "confirmed": ({"host": "b"}, (move("resize", "confirmed"),), "", "b", "b"),
    "live-migrating": (
        {"task_state": "migrating"},
        (move("live-migration", "running"),),
        "its live-migration is running",
        "a",
        "ab",
    ),
    "live-migrated": ({"host": "b"}, (move("live-migration", "completed"),), "", "b", "b"),
    "failed to migrate": ({}, (move("live-migration", "error"),), "", "a", "a"),
    "being evacuated": (
        {"task_state": "rebuilding"},
        (move("evacuation", "accepted"),),
        "its evacuation is accepted",
        "a",
        "ab",
    ),
    "evacuated, and not cleaned up": ({"host": "b"}, (move("evacuation", "done"),), "", "b", "ab"),
    "evacuated and cleaned up": ({"host": "b"}, (move("evacuation", "completed"),), "", "b", "b"),
    "evacuated from a deleted host": (
        {},
        (dataclasses.replace(move("evacuation", "done"), source_host="z", source_node="z."),),
        "",
        "a",
        "a",
    ),
    "done long ago by an old nova": ({}, (move("live-migration", "done", "ba"),), "", "a", "a"),
    "stuck in an older move": (
        {},
        (move("resize", "confirmed", uuid="new"), move("migration", "post-migrating")),
        "its migration is post-migrating",
        "a",
        "ab",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_location_and_hosts_that_may_hold_allocations(name: str) -> None:
    fields, migrations, moving, node, hosts = TABLE[name]
    nova_server = server(**fields)
    moved = server_moves.move_of(small.cloud([nova_server], migrations), nova_server)
    assert moving in moved.moving.text
    assert bool(moved.moving) == bool(moving)
    assert (moved.node.host if moved.node else "") == node
    assert bool(moved.absent) == (not node)
    may_hold = "*" if moved.anywhere else "".join(h for h in "abc" if moved.may_hold(f"n-{h}."))
    assert may_hold == hosts


def test_sharing_provider_belongs_to_the_hosts_in_its_aggregate() -> None:
    for host, shares in (("a", True), ("c", False)):
        nova_server = server(host)
        server_move = server_moves.move_of(small.cloud([nova_server]), nova_server)
        assert server_move.may_hold("u-nfs") is shares


def test_child_provider_counts_as_its_root() -> None:
    snapshot = small.cloud([server("b")])
    server_move = server_moves.move_of(snapshot, snapshot.servers["s"])
    assert server_move.may_hold(snapshot.root_of("u-nic"))


def test_host_in_cell_that_is_down_counts_as_moving() -> None:
    nova_server = server("a")
    down = values.Hosts(nodes=small.NODES, unreachable=frozenset({"a"}))
    server_move = server_moves.move_of(small.cloud([nova_server], hosts=down), nova_server)
    assert server_move.moving == server_moves.CELL_DOWN
