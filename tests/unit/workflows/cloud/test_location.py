# SPDX-License-Identifier: Apache-2.0
"""The location of servers in every state that nova reports."""

from __future__ import annotations

import dataclasses

import pytest

from osc_placement.testing import uuid_of
from osc_placement.workflows.cloud import server_moves
from tests.support.clouds import read
from tests.support.clouds.small import Small, vm

NOWHERE = {"dest_compute": None, "dest_node": None}
GONE = {"source_compute": "nova-z", "source_node": "z"}
#: A server's cloud, and of its location: why it is moving, its node, and the hosts on which it may
#: hold allocations (``*`` for any).
TABLE: dict[str, tuple[Small, str, str, str]] = {
    "active": (vm(), "", "a", "a"),
    "stopped": (vm(vm_state="stopped"), "", "a", "a"),
    "in error on a host": (vm(vm_state="error"), "", "a", "a"),
    "soft-deleted": (vm(vm_state="soft-delete", status="SOFT_DELETED"), "", "a", "a"),
    "shelved": (vm(vm_state="shelved"), "", "a", "a"),
    "shelved offloaded": (vm(None, vm_state="shelved_offloaded"), "", "", ""),
    "in error on no host": (vm(None, vm_state="error"), "", "", ""),
    "building on no host": (vm(None, vm_state="building"), "being built", "", "*"),
    "rebooting": (vm(task_state="rebooting"), "rebooting", "a", "*"),
    "being unshelved": (
        vm(None, vm_state="shelved_offloaded", task_state="spawning"), "spawning", "", "*"),
    "on a host without node": (vm(host="ghost"), "", "", "*"),
    "of a cell that is down": (vm().cell_down("a"), "cell is down", "", "*"),
    "queued to migrate": (vm().move("migration", "queued", **NOWHERE), "is queued", "a", "*"),
    "being resized": (
        vm(task_state="resize_migrating").move("resize", "migrating"),
        "its resize is migrating", "a", "ab"),
    "resized on its host": (vm().move("resize", "finished", "aa"), "confirmed", "a", "a"),
    "waiting to be confirmed": (
        vm("b", vm_state="resized").move("resize", "finished"),
        "its resize waits to be confirmed", "b", "ab"),
    "resized by a forgotten migration": (vm(vm_state="resized"), "waits", "a", "*"),
    "confirmed": (vm("b").move("resize", "confirmed"), "", "b", "b"),
    "live-migrating": (
        vm(task_state="migrating").move("live-migration", "running"),
        "its live-migration is running", "a", "ab"),
    "live-migrated": (vm("b").move("live-migration", "completed"), "", "b", "b"),
    "failed to migrate": (vm().move("live-migration", "error"), "", "a", "a"),
    "being evacuated": (
        vm(task_state="rebuilding").move("evacuation", "accepted"),
        "its evacuation is accepted", "a", "ab"),
    "evacuated, and not cleaned up": (vm("b").move("evacuation", "done"), "", "b", "ab"),
    "evacuated and cleaned up": (vm("b").move("evacuation", "completed"), "", "b", "b"),
    "evacuated from a deleted host": (vm().move("evacuation", "done", **GONE), "", "a", "a"),
    "done long ago by an old nova": (vm().move("live-migration", "done", "ba"), "", "a", "a"),
    "stuck in an older move": (
        vm().move("resize", "confirmed", name="new").move("migration", "post-migrating"),
        "its migration is post-migrating", "a", "ab"),
}  # fmt: skip


def moved(kit: Small) -> server_moves.ServerMove:
    cloud = read.read(kit)
    return server_moves.move_of(cloud, cloud.servers[uuid_of("s")])


@pytest.mark.parametrize("name", TABLE)
def test_location_and_hosts_that_may_hold_allocations(name: str) -> None:
    kit, moving, node, hosts = TABLE[name]
    move = moved(kit)
    assert moving in move.moving.text
    assert bool(move.moving) == bool(moving)
    assert (move.node.hostname if move.node else "") == node
    assert bool(move.absent) == (not node)
    may_hold = "".join(name for name in "abc" if move.may_hold(uuid_of(name)))
    assert ("*" if move.anywhere else may_hold) == hosts


@pytest.mark.parametrize(
    ("host", "name", "holds"), [("a", "nfs", True), ("c", "nfs", False), ("b", "nic", True)]
)
def test_a_host_has_its_children_and_what_shares_with_it(host: str, name: str, holds: bool) -> None:
    assert moved(kit := vm(host)).may_hold(read.read(kit).root_of(uuid_of(name))) is holds


def test_host_in_cell_that_is_down_counts_as_moving() -> None:
    """Nova listed the server before its cell went down."""
    down = read.read(vm().cell_down("a"))
    cloud = dataclasses.replace(down, servers=read.read(vm()).servers)
    (server,) = cloud.servers.values()
    assert server_moves.move_of(cloud, server).moving == server_moves.CELL_DOWN
