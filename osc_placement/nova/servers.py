# SPDX-License-Identifier: Apache-2.0
"""Servers, migrations, services and compute nodes, as nova lists them. Sends GET requests."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import re
import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.client import lookup, retry, service
from osc_placement.model import name, recording, shared
from osc_placement.model.name import counted
from osc_placement.nova import api, flavor, values

#: Compute API microversions, the preferred one first: 2.98 adds image properties, 2.96 the
#: requested zone, 2.69 servers of a cell that is down, 2.47 the embedded flavor.
_SERVERS = ("2.98", "2.96", "2.69", "2.47")

#: 2.84 adds the error of an event, 2.62 its host, 2.51 the events themselves for all users.
_ACTIONS = ("2.84", "2.62", "2.51")

#: 2.80 adds a migration's owner, 2.59 its UUID and pages.
_MIGRATIONS = ("2.80", "2.59")

#: Nova's filter by name is a regular expression: only of a name with these characters the answer
#: has each server of this name.
_IN_FILTER = re.compile(r"[A-Za-z0-9_.-]+")

#: From 2.89 the response leaves out some attachments.
_ATTACHMENTS = "2.88"

#: The first version with the shares of a server.
_SHARES = "2.97"


def servers(nova: api.Nova, **filters: str) -> list[values.Server]:
    """Every server of every project, without deleted, soft-deleted and hidden ones.

    ``filters`` are nova's own: ``host``, ``uuid``, ``changes-since``, ``deleted``.
    Requests: one GET per 1000 servers. Errors: as ``ask``; PlacementError below 2.47; NovaRefused
    if nova hides something of each server, except of the few that are deleted or changed.
    """
    query = {"all_tenants": "1", **filters}
    listed = api.read_pages(nova, "/servers/detail", _SERVERS, query, "servers", _server)
    if not filters.keys() & {"changes-since", "deleted"}:
        _check_shown(listed)
    return listed


def _check_shown(servers: Collection[values.Server]) -> None:
    hidden = next((server.hidden for server in servers if server.hidden), "")
    if hidden and not any(server.known for server in servers):
        raise api.NovaHides(hidden, "/servers/detail")


def unread(servers: Iterable[values.Server]) -> list[str]:
    """How many servers are not known, for each reason."""
    reasons = collections.Counter(server.hidden for server in servers if not server.known)
    return [
        f"{counted(count, 'server')}{f': {hidden}' if hidden else ' in cells that are down'}"
        for hidden, count in sorted(reasons.items())
    ]


def servers_on(nova: api.Nova, hosts: Collection[str]) -> list[values.Server]:
    """The servers of some hosts, and maybe those of others.

    Requests: one GET for each of up to five hosts; for more, and of a recording, the listing of all
    servers.
    """
    if len(hosts) > (1 if nova.source else lookup.MAX_SINGLE_REQUESTS):
        return servers(nova)
    return [item for host in sorted(hosts) for item in servers(nova, host=host)]


def find_servers(nova: api.Nova, uuids: Collection[str]) -> dict[str, values.Server]:
    """``{uuid: server}`` for the servers that exist.

    Requests: one GET for each of up to five servers, and a second one if it is not listed, as the
    servers of a cell that is down and soft-deleted ones; for more, the listing of all servers, and
    these for up to five that it lacks.
    """
    listed: dict[str, values.Server] = {}
    if len(uuids) > lookup.MAX_SINGLE_REQUESTS:
        listed = {item.uuid: item for item in servers(nova) if item.uuid in uuids}
        uuids = set(uuids) - listed.keys()
        if len(uuids) > lookup.MAX_SINGLE_REQUESTS:
            return listed
    for uuid in sorted(uuids):
        listed |= {item.uuid: item for item in servers(nova, uuid=uuid) if item.uuid in uuids}
        if uuid not in listed and api.can_answer(nova, server_path(uuid)):
            shown = server(nova, uuid)
            listed |= {uuid: shown} if shown and not shown.is_deleted else {}
    return listed


def named(nova: api.Nova, texts: Collection[str]) -> dict[str, values.Server]:
    """``{uuid: server}`` of the servers with these names or UUIDs.

    Requests: those of ``find_servers``; with a name one GET for each of up to five texts.
    Errors: InvalidInput for a text that no server has, or several.
    """
    by_uuid = {name.canonical_uuid(text) for text in texts if name.is_uuid(text)}
    names = [text for text in texts if not name.is_uuid(text)]
    if len(names) > lookup.MAX_SINGLE_REQUESTS or not all(map(_IN_FILTER.fullmatch, names)):
        listed = servers(nova)
    else:
        listed = [item for text in names for item in servers(nova, name=text)]
        listed += find_servers(nova, by_uuid).values()
    input_errors = errors.InputErrors()
    chosen: dict[str, values.Server] = {}
    for text in texts:
        matching = {
            server.uuid: server
            for server in listed
            if text == server.name
            or (name.is_uuid(text) and name.canonical_uuid(text) == server.uuid)
        }
        if len(matching) != 1:
            count = f"{counted(len(matching), 'server')} with" if matching else "no server with"
            uuids = f": {', '.join(sorted(matching))}" if matching else ""
            input_errors.add(f"nova has {count} the name or UUID {text!r}{uuids}")
        chosen |= matching
    input_errors.check()
    return chosen


def deleted_servers(nova: api.Nova) -> list[values.Server]:
    """Deleted servers that are not archived yet, and soft-deleted ones (which still exist)."""
    return servers(nova, deleted="true")


def server_path(uuid: str) -> str:
    """The path of one server."""
    return f"/servers/{urllib.parse.quote(uuid, safe='')}"


def ask_server(nova: api.Nova, uuid: str) -> Any:
    """Nova's JSON of one server. Requests: one GET. Errors: as ``ask``."""
    return api.ask_best(nova, server_path(uuid), _SERVERS)[0]


def server(nova: api.Nova, uuid: str) -> values.Server | None:
    """One server; None when nova has no server of that UUID. Requests: one GET.

    Errors: as ``ask``; NotKnown of a recording without an answer.
    """
    path = server_path(uuid)
    try:
        body = ask_server(nova, uuid)
    except (api.NovaRefused, recording.NotRead) as error:
        # A recording has no service of an answer that came from something before nova.
        if error.status == 404 and error.service:
            return None
        raise
    with api.parsing(path):
        shown = service.checked(_server(body["server"]))
    _check_shown([shown])
    return shown


def root_is_volume(nova: api.Nova, server: values.Server) -> bool:
    """Whether a server's root disk is one of its attached volumes. Requests: one GET."""
    path = f"/servers/{server.uuid}/os-volume_attachments"
    body = api.ask_or_unsupported(nova, path, _ATTACHMENTS)
    with api.parsing(path):
        devices = [item["device"] for item in body["volumeAttachments"]]
    return server.root_device is not None and server.root_device in devices


def has_share(nova: api.Nova, uuid: str) -> bool:
    """Whether a share of manila is attached to a server. Requests: one GET. Errors: as ``ask``."""
    path = f"/servers/{uuid}/shares"
    body = api.ask_or_unsupported(nova, path, _SHARES)
    with api.parsing(path):
        return bool(body["shares"])


def actions(nova: api.Nova, uuid: str) -> list[values.ServerAction]:
    """The actions of a server; nova purges old ones. Requests: one GET. Errors: as ``ask``."""
    path = f"/servers/{uuid}/os-instance-actions"
    body, _ = api.ask_best(nova, path, _ACTIONS)
    with api.parsing(path):
        return [
            values.ServerAction(item["action"], item["request_id"], item["start_time"])
            for item in body["instanceActions"]
        ]


def events(nova: api.Nova, uuid: str, request_id: str) -> list[values.ActionEvent]:
    """The steps of an action. Requests: one GET. Errors: as ``ask``."""
    quoted = urllib.parse.quote(request_id, safe="")
    path = f"/servers/{uuid}/os-instance-actions/{quoted}"
    body, _ = api.ask_best(nova, path, _ACTIONS)
    with api.parsing(path):
        return [
            values.ActionEvent(
                item["event"],
                item["start_time"],
                item["result"] == "Error",
                item.get("host") or "",
                item.get("details") or "",
            )
            for item in body["instanceAction"].get("events") or ()
        ]


def migrations(nova: api.Nova, **filters: str) -> list[values.Migration]:
    """Every migration in nova's database, the newest first.

    Requests: one GET per 1000 migrations. Errors: as ``ask``.
    """
    listed = api.read_pages(nova, "/os-migrations", _MIGRATIONS, filters, "migrations", _migration)
    # A recording has the state of its own time.
    now = datetime.datetime.now(datetime.UTC) - api.clock_offset(nova)
    return [
        dataclasses.replace(move, is_rolled_back=True) if _may_roll_back(move, now) else move
        for move in listed
    ]


def _server(item: Mapping[str, Any]) -> values.Server:
    """A server of a response; to save memory, equal texts are one object, and equal flavors."""
    if "flavor" not in item:
        # The cell of the server is down: nova shows little more than its UUID.
        return values.Server(item["id"], project_id=item.get("tenant_id"), known=False)
    # A server without its host could be on any: no answer about a host would be right.
    api.check_shown(item, "/servers/detail", "OS-EXT-SRV-ATTR:host")
    hidden = api.why_hidden(item["flavor"], "extra_specs")
    image = item.get("image") or {}
    properties = image.get("properties")
    return values.Server(
        uuid=item["id"],
        name=item["name"],
        project_id=shared.intern_text(item["tenant_id"]),
        user_id=shared.intern_text(item["user_id"]),
        host=shared.intern_text(item["OS-EXT-SRV-ATTR:host"]),
        node=shared.intern_text(item["OS-EXT-SRV-ATTR:hypervisor_hostname"]),
        vm_state=shared.intern_text(item["OS-EXT-STS:vm_state"]),
        task_state=shared.intern_text(item["OS-EXT-STS:task_state"]),
        status=shared.intern_text(item["status"]),
        flavor=None if hidden else _flavor(item["flavor"]),
        flavor_name=shared.intern_text(item["flavor"].get("original_name")),
        image_properties=None if properties is None else shared.intern_mapping(properties),
        image_id=shared.intern_text(image.get("id")),
        pinned_zone=shared.intern_text(item.get("pinned_availability_zone")),
        shows_zone="pinned_availability_zone" in item,
        from_volume=not image,
        has_volumes=bool(item.get("os-extended-volumes:volumes_attached")),
        root_device=shared.intern_text(item.get("OS-EXT-SRV-ATTR:root_device_name")),
        power_state=item.get("OS-EXT-STS:power_state"),
        launched=item.get("OS-SRV-USG:launched_at", "") is not None,
        created=item["created"],
        updated=item["updated"],
        fault=_fault(item.get("fault")),
        known=not hidden,
        hidden=hidden,
    )


def _fault(item: Mapping[str, Any] | None) -> values.Fault | None:
    if item is None:
        return None
    return values.Fault(item.get("message") or "", item.get("created") or "")


def _flavor(item: Mapping[str, Any]) -> flavor.Flavor:
    return _shared_flavor(
        item["vcpus"],
        item["ram"],
        item["disk"],
        item["ephemeral"],
        item["swap"] or 0,
        tuple(item["extra_specs"].items()),
    )


@functools.lru_cache(shared.MOST_MAPPINGS)
def _shared_flavor(
    vcpus: int,
    ram: int,
    disk: int,
    ephemeral: int,
    swap: int,
    extra_specs: tuple[tuple[str, str], ...],
) -> flavor.Flavor:
    return flavor.Flavor(vcpus, ram, disk, ephemeral, swap, dict(extra_specs))


def _migration(item: Mapping[str, Any]) -> values.Migration:
    if item["uuid"] == item["instance_uuid"]:
        raise errors.PlacementError(
            f"nova's migration {item['uuid']} has the UUID of its server: the allocations of this"
            " consumer may be those of either"
        )
    return values.Migration(
        uuid=item["uuid"],
        server_uuid=item["instance_uuid"] or "",
        type=item["migration_type"] or "",
        status=item["status"] or "",
        source_host=item["source_compute"],
        source_node=item["source_node"],
        dest_host=item["dest_compute"],
        dest_node=item["dest_node"],
        project_id=item.get("project_id"),
        user_id=item.get("user_id"),
        updated=item["updated_at"] or item["created_at"] or "",
    )


def _may_roll_back(move: values.Migration, now: datetime.datetime) -> bool:
    """Whether it is a live migration that failed in the last ``_ROLL_BACK`` seconds."""
    if move.type != "live-migration" or not move.has_failed:
        return False
    age = values.seconds_since(move.updated, now)
    return age is not None and abs(age) < _ROLL_BACK


#: The status of a live migration is final before nova has cleaned up its target.
_ROLL_BACK = 60


#: Compute API microversions. 2.53 makes a hypervisor's UUID its id (from 2.88 nova asks every host
#: for its uptime); 2.69 lists the services of a cell that is down.
_HYPERVISORS = "2.53"
_SERVICES = "2.69"

_SERVICES_PATH = "/os-services?binary=nova-compute"

#: ``{resource class: field of a hypervisor}``; nova has no such fields from 2.88 on.
_HYPERVISOR_FIELDS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "local_gb"}


def read_hosts(nova: api.Nova) -> values.Hosts:
    """Every compute service and every hypervisor.

    Requests: one GET for the services, a second one if nova is older than 2.69, and one per 1000
    hypervisors. When a cell is down, nova refuses the page that reaches it; ten more requests
    find the nodes of the cells before it.
    Errors: as ``ask``; PlacementError when nova is older than 2.53. A refused page is an error only
    when no cell is down.
    """
    services, lists_down_cells = _services(nova)
    unreachable = frozenset(service.host for service in services if not service.is_reachable)
    return values.Hosts(
        nodes=tuple(_nodes(nova, may_fail=bool(unreachable))),
        services=frozenset(service.host for service in services),
        compute_services=tuple(services),
        unreachable=unreachable,
        lists_down_cells=lists_down_cells,
    )


def _services(nova: api.Nova) -> tuple[list[values.ComputeService], bool]:
    """The compute services, and whether services of a cell that is down are among them."""
    body, version = api.ask_best(nova, _SERVICES_PATH, (_SERVICES, _HYPERVISORS))
    with api.parsing(_SERVICES_PATH):
        found = [item for item in body["services"] if item["binary"] == "nova-compute"]
        services = [service.checked(_service(item)) for item in found]
    return services, version == _SERVICES


def _service(item: Mapping[str, Any]) -> values.ComputeService:
    if item["status"] == "UNKNOWN":
        # The cell of the service is down.
        return values.ComputeService(item["host"], is_reachable=False)
    return values.ComputeService(
        item["host"],
        is_up=item["state"] == "up" and not item.get("forced_down"),
        is_enabled=item["status"] == "enabled",
        is_forced_down=bool(item.get("forced_down")),
        disabled_reason=item.get("disabled_reason") or "",
        uuid=str(item.get("id", "")),
    )


def _nodes(nova: api.Nova, *, may_fail: bool) -> list[values.ComputeNode]:
    """The hypervisors that nova can list; ``may_fail``: accept that nova refuses a page."""
    nodes: list[values.ComputeNode] = []
    markers: set[str] = set()
    limit, more, refused = api.PAGE, True, False
    while limit and more:
        try:
            with retry.single_attempts() if may_fail else contextlib.nullcontext():
                page, more = _page(nova, limit, nodes, markers)
            nodes += page
        except api.NovaRefused as error:
            if not may_fail or error.status < 500:
                raise
            refused = True
        # After a refusal fewer hypervisors than one page are left: halve the page each time.
        limit = _halved(limit) if refused else limit
    return nodes


def _architecture(cpu: Any) -> str:
    """The architecture of a hypervisor, if nova shows its CPUs."""
    return str(cpu.get("arch") or "") if isinstance(cpu, Mapping) else ""


def _halved(limit: int) -> int:
    """The next smaller power of two; 0 after 1."""
    return (1 << (limit - 1).bit_length()) >> 1 if limit > 1 else 0


def _page(
    nova: api.Nova, limit: int, previous: list[values.ComputeNode], markers: set[str]
) -> tuple[list[values.ComputeNode], bool]:
    """The hypervisors that follow the ``previous`` ones, and whether there are more."""
    query = {"limit": str(limit)}
    if previous:
        query["marker"] = previous[-1].uuid
    path = f"/os-hypervisors/detail?{urllib.parse.urlencode(query)}"
    body = api.ask_or_unsupported(nova, path, _HYPERVISORS)
    more = bool(service.next_marker(api.NovaRefused.service, path, "hypervisors", body, markers))
    with api.parsing(path):
        page = [
            values.ComputeNode(
                item["id"],
                item["hypervisor_hostname"],
                item["service"]["host"],
                item.get("running_vms"),
                resources={
                    name: item[field]
                    for name, field in _HYPERVISOR_FIELDS.items()
                    if item.get(field)
                },
                hypervisor=(item.get("hypervisor_type") or "", item.get("hypervisor_version") or 0),
                architecture=_architecture(item.get("cpu_info")),
            )
            for item in body["hypervisors"]
        ]
        return [*map(service.checked, page)], more
