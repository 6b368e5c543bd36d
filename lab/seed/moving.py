# SPDX-License-Identifier: Apache-2.0
"""Servers before, during and after migrations of every kind."""

from __future__ import annotations

from lab.seed import server
from lab.seed.cloud_builder import World, node_of
from lab.seed.server import LEAKED, MISSING, UNKNOWN, Server

SMALL, LARGE = "m1.small", "m1.large"
ONE, TWO, FOUR = "cmp-0001", "cmp-0002", "cmp-0004"


def fill(cloud: World) -> None:
    """Create the servers, their migrations and the allocations of both."""
    for nova_server in (*resized(), *migrated(), *evacuated()):
        server.make(cloud, nova_server)
    _fill_resized(cloud)
    _fill_migrated(cloud)
    _fill_evacuated(cloud)


def resized() -> list[Server]:
    """Resizes; a server has the new flavor only after the resize."""
    done = {"vm_state": "resized", "old_flavor": SMALL, "new_flavor": LARGE}
    going = {"old_flavor": SMALL, "new_flavor": LARGE, "task_state": "resize_migrating"}
    return [
        Server(
            "mg-resized-old", LARGE, TWO, "verify_resize, no allocations", **done, audit=UNKNOWN
        ),
        Server("mg-resized-new", LARGE, TWO, "verify_resize, as since Queens", **done),
        Server("mg-resized-here", LARGE, ONE, "verify_resize on the same host", **done),
        Server("mg-resizing", SMALL, ONE, "in progress, no allocations", **going, audit=UNKNOWN),
        Server("mg-resizing-new", SMALL, ONE, "in progress, as since Queens", **going),
        Server("mg-confirmed", SMALL, TWO, "what its migration held was left", audit=MISSING),
    ]


def migrated() -> list[Server]:
    """Live and cold migrations."""
    moving = {"task_state": "migrating"}
    return [
        Server("mg-live-new", SMALL, ONE, "live, its source held by the migration", **moving),
        Server("mg-live-old", SMALL, ONE, "live, no allocations", **moving, audit=UNKNOWN),
        Server("mg-live-both", SMALL, ONE, "live, holds both, as before Queens", **moving),
        Server("mg-live-failed", SMALL, ONE, "failed, put back by half", audit=UNKNOWN),
        Server("mg-pending", SMALL, ONE, "queued, without a task state", audit=UNKNOWN),
    ]


def evacuated() -> list[Server]:
    """Evacuations from cmp-0001: the server itself holds both sides."""
    going = {"task_state": "rebuild_spawning"}
    error = {"vm_state": "error", "power": 0}
    return [
        Server("mg-evacuating", SMALL, ONE, "in progress, holds both", **going),
        Server("mg-evacuated", SMALL, TWO, "done; its source has not come back to let go"),
        Server("mg-evacuated-clean", SMALL, TWO, "completed: its source has let go"),
        Server("mg-evacuated-left", SMALL, TWO, "completed, yet holds both", audit="doubled"),
        Server("mg-evacuation-failed", SMALL, ONE, "failed, holds both", **error, audit=UNKNOWN),
    ]


def _fill_resized(cloud: World) -> None:
    small, large = cloud.usual(SMALL), cloud.usual(LARGE)
    cloud.migration("mg-resized-old", "resize", "finished", ONE, TWO)
    cloud.give("mg-resized-new", {node_of(TWO): large}, "INSTANCE")
    _hold(cloud, "mg-resized-new", "resize", "finished", TWO)
    cloud.give("mg-resized-here", {node_of(ONE): large}, "INSTANCE")
    _hold(cloud, "mg-resized-here", "resize", "finished", ONE)
    cloud.migration("mg-resizing", "resize", "migrating", ONE, TWO)
    cloud.give("mg-resizing-new", {node_of(TWO): large}, "INSTANCE")
    _hold(cloud, "mg-resizing-new", "resize", "migrating", TWO)
    left = _hold(cloud, "mg-confirmed", "resize", "confirmed", TWO)
    cloud.note("consumers", "mg-confirmed", left, LEAKED, "a confirmed resize's source side")
    gone = {node_of(FOUR): small}
    why = "of a migration that nova has forgotten"
    cloud.consume("migration-gone", gone, LEAKED, why, cloud.owners[0], "MIGRATION")


def _fill_migrated(cloud: World) -> None:
    there, both = (
        {node_of(at): cloud.usual(SMALL) for at in where} for where in ((FOUR,), (ONE, FOUR))
    )
    cloud.give("mg-live-new", there, "INSTANCE")
    _hold(cloud, "mg-live-new", "live-migration", "running", FOUR)
    cloud.migration("mg-live-old", "live-migration", "running", ONE, FOUR)
    cloud.migration("mg-live-both", "live-migration", "running", ONE, FOUR)
    cloud.give("mg-live-both", both)
    cloud.give("mg-live-failed", there, "INSTANCE")
    left = _hold(cloud, "mg-live-failed", "live-migration", "failed", FOUR)
    cloud.note("consumers", "mg-live-failed", left, UNKNOWN, "a failed migration's source side")
    cloud.migration("mg-pending", "migration", "queued", ONE, TWO)


def _fill_evacuated(cloud: World) -> None:
    both = {node_of(at): cloud.usual(SMALL) for at in (ONE, TWO)}
    for name, status in (
        ("mg-evacuating", "accepted"),
        ("mg-evacuated", "done"),
        ("mg-evacuated-clean", "completed"),
        ("mg-evacuated-left", "completed"),
        ("mg-evacuation-failed", "failed"),
    ):
        cloud.migration(name, "evacuation", status, ONE, TWO)
        allocations = {node_of(TWO): cloud.usual(SMALL)} if name == "mg-evacuated-clean" else both
        cloud.give(name, allocations, "INSTANCE")


def _hold(cloud: World, name: str, kind: str, status: str, target: str) -> str:
    """Create a migration from cmp-0001 that has the server's allocations there."""
    made = cloud.migration(name, kind, status, ONE, target)
    cloud.allocate(made, {node_of(ONE): cloud.usual(SMALL)}, cloud.owner(name), "MIGRATION")
    return made
