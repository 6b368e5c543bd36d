"""What nova knows of its hosts and servers: the values held against Placement's state."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from osc_placement.nova import flavor


@dataclasses.dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate; ``uuid`` is also the placement aggregate that mirrors it."""

    id: str
    name: str
    uuid: str
    hosts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """A hypervisor; ``uuid`` is also its resource provider's, ``hostname`` the provider's name.

    ``host`` is the compute service that runs it: one for most, many nodes with ironic.
    """

    uuid: str
    hostname: str
    host: str


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeService:
    """A nova-compute; ``is_up`` as nova sees it: it reports, and nobody has forced it down.

    ``is_reachable`` is False where its cell is down: nothing else can be relied on then.
    """

    host: str
    is_up: bool = True
    is_enabled: bool = True
    is_reachable: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Hosts:
    """All compute hosts of a cloud, as far as nova can tell of them now.

    ``services`` are the hosts that have a compute service, ``unreachable`` those of them
    whose cell is down: their nodes, and perhaps others, are missing. ``lists_down_cells``: this
    nova would tell of a cell that is down (compute API 2.69).
    """

    nodes: tuple[ComputeNode, ...] = ()
    services: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()
    lists_down_cells: bool = True

    def of_host(self) -> dict[str, list[ComputeNode]]:
        """``{host: its nodes}``, in nova's order."""
        found: dict[str, list[ComputeNode]] = {}
        for node in self.nodes:
            found.setdefault(node.host, []).append(node)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """An instance; ``uuid`` is also the consumer that holds its allocations.

    ``host`` and ``node`` (a hypervisor's hostname) are None where it is on none.
    ``flavor`` is the one embedded in it: the new one while it is being resized.
    ``image_properties`` are None where nova is too old to tell (compute API 2.98).
    ``from_volume``: its root disk is a volume, or it has neither image nor block devices.
    ``has_volumes``: volumes are attached, and its root disk may be one though it has an image:
    the one that is attached as ``root_device``.
    ``known`` is False for one of a cell that is down: nothing but its UUID can be relied on.
    ``updated`` (UTC, ISO 8601) changes whenever nova writes it.
    """

    uuid: str
    name: str = ""
    project_id: str | None = None
    user_id: str | None = None
    host: str | None = None
    node: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    status: str = ""
    flavor: flavor.Flavor | None = None
    image_properties: Mapping[str, str] | None = None
    from_volume: bool = False
    has_volumes: bool = False
    root_device: str | None = None
    created: str = ""
    updated: str = ""
    known: bool = True

    @property
    def is_deleted(self) -> bool:
        """Whether it is deleted, and only kept for the record; soft-deleted ones still live.

        One that was deleted on its way to something else keeps that state for good.
        """
        return self.vm_state == "deleted" or self.status == "DELETED"


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A move of a server: resize, cold or live migration, evacuation.

    ``uuid`` is also the consumer that holds the source side of all moves but evacuations.
    ``type`` is ``resize``, ``migration``, ``live-migration`` or ``evacuation``. Its owner is
    None below compute API 2.80.
    """

    uuid: str
    server_uuid: str
    type: str
    status: str
    source_host: str | None = None
    source_node: str | None = None
    dest_host: str | None = None
    dest_node: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    updated: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in _OVER


#: The statuses in which nova leaves a migration for good. ``done`` is an evacuation's whose
#: source host has not come back to clean up, and a live migration's old name for completed.
_OVER = frozenset({"completed", "done", "confirmed", "reverted", "failed", "error", "cancelled"})
