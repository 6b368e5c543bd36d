# SPDX-License-Identifier: Apache-2.0
"""Nova's hosts, services, servers and migrations, as values."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.model import command_line, name
from osc_placement.nova import flavor

#: The default of nova's option default_availability_zone: the zone of a host in no other.
DEFAULT_ZONE = "nova"


@dataclasses.dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate; the placement aggregate that mirrors it has the same UUID.

    ``metadata`` includes the availability zone, as ``availability_zone``.
    """

    id: str
    name: str
    uuid: str
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def subject(self) -> str:
        """The word of a command line that selects it: nova's commands take no UUID."""
        is_plain = command_line.subject(self.name, "") and not self.name.isdecimal()
        return self.name if is_plain else self.id

    def is_called(self, text: str) -> bool:
        """Whether ``text`` is its name, id or UUID."""
        return text in (self.name, self.id) or (
            name.is_uuid(text) and name.canonical_uuid(text) == self.uuid
        )


def find_host_aggregates(
    aggregates: Sequence[HostAggregate], texts: Iterable[str], input_errors: errors.InputErrors
) -> dict[str, HostAggregate]:
    """``{text: host aggregate}``; adds an error for each text that none or several have."""
    by_text = {}
    for text in dict.fromkeys(texts):
        matching = [item for item in aggregates if item.is_called(text)]
        if len(matching) == 1:
            by_text[text] = matching[0]
            continue
        none = "no nova host aggregate has"
        count = f"{len(matching)} nova host aggregates have" if matching else none
        input_errors.add(f"{count} the name or id {text!r}: 'openstack aggregate list' shows all")
    return by_text


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """A hypervisor; its resource provider has the same UUID, and ``hostname`` as its name.

    ``host`` is its compute service, which has one node, or several with ironic. ``servers`` is the
    number of servers that run on it, None if nova does not show it. ``resources`` is
    ``{resource class: total}`` that nova-compute reported, empty if nova does not show it.
    ``hypervisor`` is its type and version, ``architecture`` that of its CPUs.
    """

    uuid: str
    hostname: str
    host: str
    servers: int | None = dataclasses.field(default=None, compare=False)
    resources: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    hypervisor: tuple[str, int] = dataclasses.field(default=("", 0), compare=False)
    architecture: str = dataclasses.field(default="", compare=False)

    @property
    def is_ironic(self) -> bool:
        """Whether it is a node of Ironic, as far as nova shows it."""
        return self.hypervisor[0] == "ironic"


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeService:
    """A nova-compute service; ``is_up``: it reports to nova and is not forced down.

    ``is_reachable`` is False when its cell is down; the other fields are unknown then.
    ``disabled_reason`` is the operator's, empty without one.
    """

    host: str
    is_up: bool = True
    is_enabled: bool = True
    is_reachable: bool = True
    is_forced_down: bool = False
    disabled_reason: str = ""
    uuid: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Hosts:
    """All compute hosts that nova can list.

    ``services`` are the hosts with a compute service, ``compute_services`` these services;
    ``unreachable`` are the hosts whose
    cell is down: their nodes, and perhaps others, are missing. ``lists_down_cells``: nova
    lists the services of a cell that is down (compute API 2.69).
    """

    nodes: tuple[ComputeNode, ...] = ()
    compute_services: tuple[ComputeService, ...] = dataclasses.field(default=(), compare=False)
    services: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()
    lists_down_cells: bool = True

    def of_host(self) -> dict[str, list[ComputeNode]]:
        """``{host: nodes}``, in nova's order."""
        by_host: dict[str, list[ComputeNode]] = {}
        for node in self.nodes:
            by_host.setdefault(node.host, []).append(node)
        return by_host


@dataclasses.dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers (UUIDs) that must, should or must not share a host.

    ``policy`` is ``affinity``, ``anti-affinity``, ``soft-affinity`` or ``soft-anti-affinity``.
    ``most_per_host`` members may share a host with ``anti-affinity``.
    """

    uuid: str
    name: str
    policy: str
    members: tuple[str, ...] = ()
    most_per_host: int = 1


class Fault(NamedTuple):
    """Why a server is in ERROR: nova's message, and when (UTC, ISO 8601)."""

    message: str
    created: str


class ServerAction(NamedTuple):
    """What somebody asked nova to do with a server, and when."""

    name: str
    request_id: str
    started: str


class ActionEvent(NamedTuple):
    """A step of an action. ``host`` is empty if the rights do not show it."""

    name: str
    started: str
    failed: bool
    host: str = ""
    text: str = ""

    @property
    def is_of_compute(self) -> bool:
        """Whether it is a step of nova-compute."""
        return self.name.startswith("compute_")


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server; the consumer of its allocations has the same UUID.

    ``host`` and ``node`` (the hostname of a hypervisor) are None for a server on no host.
    ``flavor`` is the embedded flavor: the new one during a resize. ``flavor_name`` is its name.
    ``image_properties`` is None below compute API 2.98. ``image_id`` is None without an image.
    ``pinned_zone`` is the requested availability zone; ``shows_zone`` is False below compute API
    2.96, which does not show it.
    ``from_volume``: the root disk is a volume, or the server has neither image nor block
    devices. ``has_volumes``: volumes are attached; one of them is the root disk, also of a
    server with an image, if it is attached as ``root_device``.
    ``power_state`` is nova's number (1 runs, 3 is paused), None if it is not shown; ``launched``:
    it has run. ``known`` is False for a server of a cell that is down, of which only the UUID is
    known, and for one of which nova hides the flavor's extra specs: ``hidden`` says so.
    ``updated`` (UTC, ISO 8601) changes with every write of nova. ``fault`` is why it is in ERROR.
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
    flavor_name: str | None = None
    image_properties: Mapping[str, str] | None = None
    image_id: str | None = None
    pinned_zone: str | None = None
    shows_zone: bool = True
    from_volume: bool = False
    has_volumes: bool = False
    root_device: str | None = None
    power_state: int | None = None
    launched: bool = True
    created: str = ""
    updated: str = ""
    known: bool = True
    hidden: str = ""
    fault: Fault | None = None

    @property
    def why_unknown(self) -> str:
        """Why it is not known; empty if it is."""
        return "" if self.known else self.hidden or "its cell is down"

    @property
    def hides_image(self) -> bool:
        """Whether it has an image of which nova does not show the properties."""
        return self.image_id is not None and self.image_properties is None

    @property
    def is_deleted(self) -> bool:
        """Whether it is deleted; a soft-deleted server is not.

        Both fields are needed: a server deleted during a task keeps its vm_state.
        """
        return self.vm_state == "deleted" or self.status == "DELETED"


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A migration of a server: resize, cold or live migration, evacuation.

    During a migration that is not an evacuation, the consumer with its UUID holds the
    allocations on the source host. ``type`` is ``resize``, ``migration``, ``live-migration``
    or ``evacuation``. Project and user are None below compute API 2.80. ``is_rolled_back``: it is
    a live migration that failed so recently that nova may still clean up its target.
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
    is_rolled_back: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it has reached a final status, and nova does nothing more about it."""
        return self.status in _OVER and not self.is_rolled_back

    @property
    def has_failed(self) -> bool:
        """Whether it did not reach its end."""
        return self.status in _FAILED


#: The final statuses of a migration. ``done`` is the status of an evacuation until its source
#: host restarts and cleans up, and the old name of ``completed`` for live migrations.
_FAILED = frozenset({"failed", "error", "cancelled"})
_OVER = _FAILED | {"completed", "done", "confirmed", "reverted"}


def seconds_since(time: str, now: datetime.datetime) -> float | None:
    """The seconds since a time of nova (ISO 8601, UTC); None if there is none."""
    try:
        parsed = datetime.datetime.fromisoformat(time)
    except ValueError:
        return None
    return (now - parsed.replace(tzinfo=parsed.tzinfo or datetime.UTC)).total_seconds()
