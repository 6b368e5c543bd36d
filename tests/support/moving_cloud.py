# SPDX-License-Identifier: Apache-2.0
"""Nova's moves step by step: what nova and Placement show, and where the guest is.

``PROTOCOLS`` are the moves of real nova, as a lab with real nova-compute shows them: a list of
steps each, in their order. A move can die at each step, and an operator can reset the server's
state after that. ``views`` enumerates all of it, so that for one view (what the APIs show) the
set of hosts that may have the guest is known by counting.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from osc_placement import testing
from osc_placement.nova import api as nova_api, servers as nova_servers, values
from osc_placement.testing import nova, uuid_of
from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from tests.support.clouds import read

SOURCE, DESTINATION, OTHER = "cmp-1", "cmp-2", "cmp-3"
HOSTS = (SOURCE, DESTINATION, OTHER)
SERVER, MIGRATION = uuid_of("vm"), uuid_of("move")
START = "2026-01-01T10:00:00Z"


class Step(NamedTuple):
    """One step: nova's server and migration, Placement's holders, and the truth.

    ``server`` and ``migration`` hold on hosts named by ``s`` and ``d``. ``guest`` is where the
    guest runs, or where its only data is; ``needed`` where something else is lost.
    """

    status: str | None
    task: str | None
    vm: str
    host: str
    server: str
    migration: str
    guest: str
    needed: str = ""


_LIVE = (
    Step(None, "migrating", "active", "s", "s", "", "s"),
    Step("accepted", "migrating", "active", "s", "s", "", "s", "d"),
    Step("accepted", "migrating", "active", "s", "d", "s", "s", "d"),
    Step("queued", "migrating", "active", "s", "d", "s", "s", "d"),
    Step("preparing", "migrating", "active", "s", "d", "s", "s", "d"),
    Step("running", "migrating", "active", "s", "d", "s", "s", "d"),
    Step("running", "migrating", "active", "s", "d", "s", "d", "s"),
    Step("running", "migrating", "active", "d", "d", "s", "d", "s"),
    Step("completed", "migrating", "active", "s", "d", "s", "d"),
    Step("completed", None, "active", "d", "d", "s", "d"),
    Step("completed", None, "active", "d", "d", "", "d"),
)
_LIVE_BACK = (
    *_LIVE[:6],
    Step("running", "migrating", "active", "s", "s", "", "s", "d"),
    Step("failed", None, "active", "s", "s", "", "s"),
)
_LIVE_ABORTED = (*_LIVE[:7], Step("cancelled", None, "active", "s", "s", "", "s"))
_LIVE_BROKEN = (
    *_LIVE[:7],
    Step("error", None, "active", "s", "d", "s", "d"),
)
_LIVE_REFUSED = (*_LIVE[:3], Step("error", None, "active", "s", "s", "", "s"))
_COLD = (
    Step(None, "resize_prep", "active", "s", "s", "", "s"),
    Step("pre-migrating", "resize_prep", "active", "s", "d", "s", "s", "d"),
    Step("migrating", "resize_migrating", "active", "s", "d", "s", "s", "d"),
    Step("post-migrating", "resize_migrated", "active", "d", "d", "s", "sd"),
    Step("post-migrating", "resize_finish", "active", "d", "d", "s", "sd"),
    Step("finished", None, "resized", "d", "d", "s", "d", "s"),
)
_CONFIRMED = (
    *_COLD,
    Step("confirming", None, "resized", "d", "d", "s", "d", "s"),
    Step("confirmed", None, "active", "d", "d", "", "d"),
)
_REVERTED = (
    *_COLD,
    Step("reverting", "resize_reverting", "resized", "d", "d", "s", "sd"),
    Step("reverting", "resize_reverting", "resized", "s", "s", "", "s", "d"),
    Step("reverted", None, "active", "s", "s", "", "s"),
)
_COLD_BROKEN = (*_COLD[:4], Step("error", None, "error", "s", "d", "s", "sd"))
_COLD_BROKEN_AT_TARGET = (*_COLD[:5], Step("error", None, "error", "d", "d", "", "sd"))
_EVACUATED = (
    Step(None, "rebuilding", "active", "s", "s", "", "s"),
    Step("accepted", "rebuilding", "active", "s", "sd", "", "s", "d"),
    Step("pre-migrating", "rebuilding", "active", "s", "sd", "", "sd"),
    Step("pre-migrating", "rebuild_spawning", "active", "s", "sd", "", "sd"),
    Step("done", None, "active", "d", "sd", "", "d"),
    Step("completed", None, "active", "d", "d", "", "d"),
)
_BUILT = (
    Step(None, "scheduling", "building", "", "", "", ""),
    Step(None, None, "building", "", "d", "", "d"),
    Step(None, "spawning", "building", "d", "d", "", "d"),
    Step(None, None, "active", "d", "d", "", "d"),
)
_UNSHELVED = (
    Step(None, None, "shelved_offloaded", "", "", "", ""),
    Step(None, "unshelving", "shelved_offloaded", "", "d", "", "d"),
    Step(None, "spawning", "shelved_offloaded", "d", "d", "", "d"),
    Step(None, None, "active", "d", "d", "", "d"),
)
_SHELVED = (
    Step(None, "shelving", "active", "s", "s", "", "s"),
    Step(None, None, "shelved", "s", "s", "", "s"),
    Step(None, "shelving_offloading", "shelved", "s", "s", "", "s"),
    Step(None, None, "shelved_offloaded", "", "", "", ""),
)
_LIVE_DELETED = (
    Step("running", "deleting", "active", "s", "d", "s", "s", "d"),
    Step("running", "deleting", "active", "s", "d", "s", "d", "s"),
)
# The destination was prepared, and is cleaned up; the source is down the whole time.
_EVACUATION_FAILED = (
    *_EVACUATED[:4],
    Step("failed", None, "error", "s", "sd", "", "sd"),
    Step("failed", None, "error", "s", "s", "", "s"),
)

#: ``{name: (migration type, steps)}``.
PROTOCOLS = {
    "live": ("live-migration", _LIVE),
    "live, rolled back": ("live-migration", _LIVE_BACK),
    "live, aborted": ("live-migration", _LIVE_ABORTED),
    "live, failed behind the copy": ("live-migration", _LIVE_BROKEN),
    "live, refused": ("live-migration", _LIVE_REFUSED),
    "cold, confirmed": ("migration", _CONFIRMED),
    "cold, reverted": ("migration", _REVERTED),
    "cold, failed": ("migration", _COLD_BROKEN),
    "cold, failed at the target": ("migration", _COLD_BROKEN_AT_TARGET),
    "resize, failed at the target": ("resize", _COLD_BROKEN_AT_TARGET),
    "resize, confirmed": ("resize", _CONFIRMED),
    "resize, reverted": ("resize", _REVERTED),
    "evacuated": ("evacuation", _EVACUATED),
    "evacuation, failed": ("evacuation", _EVACUATION_FAILED),
    "live, deleted": ("live-migration", _LIVE_DELETED),
    "shelved": ("", _SHELVED),
    "built": ("", _BUILT),
    "unshelved": ("", _UNSHELVED),
}


@dataclasses.dataclass(frozen=True)
class View:
    """What the APIs show: equal views cannot be told apart."""

    type: str
    step: Step

    def shown(self) -> tuple[object, ...]:
        """Everything but the truth."""
        return (self.type, *self.step[:6])

    def reading(self, base: Cloud | None = None, **migration: Any) -> Cloud:
        """The reading of a cloud with this one server; with other fields of its migration."""
        return reading([Moving(self, migration=migration)], base)


class Moving(NamedTuple):
    """A server of this name that moves; its migration has other fields than the view says."""

    view: View
    source: str = SOURCE
    destination: str = DESTINATION
    name: str = "vm"
    move: str = "move"
    migration: dict[str, Any] = {}


def hosts(*names: str, **fields: Any) -> testing.Cloud:
    """A cloud of compute hosts, by default ``HOSTS``, without servers."""
    options = {"traits": ["COMPUTE_NODE"], "VCPU": 64, **fields}
    return testing.Cloud().compute(*(names or HOSTS), **options)


@functools.cache
def _hosts_read() -> Cloud:
    return read.read(hosts())


def reading(moves: list[Moving], base: Cloud | None = None) -> Cloud:
    """What nova and Placement show of these servers; ``base`` is the reading of other hosts."""
    servers, migrations = list[values.Server](), list[values.Migration]()
    allocations: dict[str, dict[str, dict[str, int]]] = {}
    for moving in moves:
        step, ends = moving.view.step, {"s": moving.source, "d": moving.destination}
        servers.append(_server(moving.name, ends.get(step.host), step.vm, step.task))
        if step.status is not None:
            names = moving.move, moving.name, moving.source, moving.destination
            fields = {"migration_type": moving.view.type, "status": step.status}
            migrations.append(_migration(*names, tuple({**fields, **moving.migration}.items())))
        for name, keys in ((moving.name, step.server), (moving.move, step.migration)):
            if keys:
                allocations[uuid_of(name)] = {uuid_of(ends[key]): {"VCPU": 1} for key in keys}
    return dataclasses.replace(
        base or _hosts_read(),
        servers={item.uuid: item for item in servers},
        migrations={item.uuid: item for item in migrations},
        allocations=allocations,
    )


@functools.cache
def _server(name: str, host: str | None, vm: str, task: str | None) -> values.Server:
    state = {"vm_state": vm, "task_state": task, "created": START, "updated": START}
    shown = nova.server(uuid_of(name), name=name, host=host, node=host, **state)
    (server,) = nova_servers.servers(nova_api.RecordedNova(nova.answers(servers=[shown]), ""))
    return server


@functools.cache
def _migration(
    name: str, server: str, source: str, destination: str, fields: tuple[tuple[str, Any], ...]
) -> values.Migration:
    kit = hosts(source, destination)
    kit.migration(name, server, source, destination, **{"updated_at": START, **dict(fields)})
    (migration,) = nova_servers.migrations(nova_api.RecordedNova(kit.nova(), ""))
    return migration


def views() -> Iterator[View]:
    """Each step of each move, and each with the server's state reset by an operator."""
    for move_type, steps in PROTOCOLS.values():
        for step in steps:
            yield View(move_type, step)
            if step.task or step.vm in ("error", "resized"):
                yield View(move_type, step._replace(task=None, vm="active"))


def guest_hosts(move: server_moves.ServerMove) -> frozenset[str]:
    """The hosts on which the guest of a server, or its only data, may be."""
    return frozenset(loss.host for loss in move.losses if loss.cost is server_moves.Cost.GUEST)


def truths() -> dict[tuple[object, ...], list[View]]:
    """The views by what the APIs show."""
    by_shown: dict[tuple[object, ...], list[View]] = collections.defaultdict(list)
    for view in views():
        by_shown[view.shown()].append(view)
    return dict(by_shown)
