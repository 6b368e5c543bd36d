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
from collections.abc import Iterator
from typing import NamedTuple

from osc_placement.model import provider
from osc_placement.nova import values
from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.cloud import Cloud

SOURCE, DESTINATION, OTHER = "cmp-1", "cmp-2", "cmp-3"
HOSTS = (SOURCE, DESTINATION, OTHER)
SERVER, MIGRATION = "b0000000-0000-0000-0000-000000000001", "c0000000-0000-0000-0000-000000000001"
START, LATER = "2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z"


def node(host: str) -> values.ComputeNode:
    """The compute node of a host; its provider has the same UUID and name."""
    return values.ComputeNode(provider_uuid(host), host, host)


def provider_uuid(host: str) -> str:
    return f"a0000000-0000-0000-0000-{int(host.rpartition('-')[2]):012d}"


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

    def reading(self, source: str = SOURCE, destination: str = DESTINATION) -> Cloud:
        """The reading of a cloud of ``HOSTS`` with this one server."""
        return reading([server_of(self, SERVER, MIGRATION, source, destination)])


class Moving(NamedTuple):
    """A server of a cloud, its migration, and the allocations of the consumers of both."""

    server: values.Server
    migration: values.Migration | None
    allocations: dict[str, dict[str, dict[str, int]]]


def server_of(
    view: View, server_uuid: str, migration_uuid: str, source: str, destination: str
) -> Moving:
    """The server of a view that moves from ``source`` to ``destination``."""
    step, host_of = view.step, {"s": source, "d": destination, "": None}
    host = host_of[step.host]
    server = values.Server(
        server_uuid,
        name=f"vm-{server_uuid[-4:]}",
        host=host,
        node=host,
        vm_state=step.vm,
        task_state=step.task,
        power_state=1,
        updated=START,
        created=START,
    )
    migration = None
    if step.status is not None:
        migration = values.Migration(
            migration_uuid,
            server_uuid,
            view.type,
            step.status,
            source,
            source,
            destination,
            destination,
            updated=START,
        )
    amounts = {"VCPU": 1}
    parts_of = {
        server_uuid: {provider_uuid(host_of[key] or ""): amounts for key in step.server},
        migration_uuid: {provider_uuid(host_of[key] or ""): amounts for key in step.migration},
    }
    return Moving(server, migration, {uuid: parts for uuid, parts in parts_of.items() if parts})


def reading(servers: list[Moving], hosts: tuple[str, ...] = HOSTS) -> Cloud:
    """A cloud with these servers, each host with one compute node and one provider."""
    providers = [
        provider.Provider(provider_uuid(host), host, 1, provider_uuid(host)) for host in hosts
    ]
    return Cloud(
        values.Hosts(
            tuple(map(node, hosts)),
            tuple(map(values.ComputeService, hosts)),
            frozenset(hosts),
        ),
        provider.by_uuid(providers),
        servers={moving.server.uuid: moving.server for moving in servers},
        migrations={one.migration.uuid: one.migration for one in servers if one.migration},
        allocations={uuid: parts for one in servers for uuid, parts in one.allocations.items()},
    )


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
