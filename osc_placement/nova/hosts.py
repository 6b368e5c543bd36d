"""Nova's compute services and hypervisors."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from osc_placement.nova import api, pages, values

#: Compute API microversions. 2.53 makes a hypervisor's UUID its id (from 2.88 nova asks every host
#: for its uptime); 2.69 lists the services of a cell that is down.
_HYPERVISORS = "2.53"
_SERVICES = "2.69"

_SERVICES_PATH = "/os-services?binary=nova-compute"

#: ``{resource class: field of a hypervisor}``; nova has no such fields from 2.88 on.
_RESOURCES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "local_gb"}

#: Hypervisors per request: nova's own default limit.
_PAGE = 1000


def read_all(nova: api.Nova) -> values.Hosts:
    """Every compute service and every hypervisor.

    Requests: one GET for the services, a second one if nova is older than 2.69, and one per 1000
    hypervisors. When a cell is down, nova
    refuses the page that reaches it; ten more requests find the nodes of the cells before it.
    Errors: as ``ask``; PlacementError when nova is older than 2.53. A refused page is an error only
    when no cell is down.
    """
    found, lists_down_cells = _services(nova)
    unreachable = frozenset(service.host for service in found if not service.is_reachable)
    return values.Hosts(
        nodes=tuple(_nodes(nova, may_fail=bool(unreachable))),
        services=frozenset(service.host for service in found),
        compute_services=tuple(found),
        unreachable=unreachable,
        lists_down_cells=lists_down_cells,
    )


def _services(nova: api.Nova) -> tuple[list[values.ComputeService], bool]:
    """The compute services, and whether services of a cell that is down are among them."""
    lists_down_cells = True
    try:
        body = nova.ask(_SERVICES_PATH, _SERVICES)
    except api.NovaRefused as error:
        if error.status != 406:
            raise
        lists_down_cells = False
        body = api.ask_or_unsupported(nova, _SERVICES_PATH, _HYPERVISORS)
    with api.parsing(_SERVICES_PATH):
        found = [_service(item) for item in body["services"] if item["binary"] == "nova-compute"]
    return found, lists_down_cells


def _service(item: Mapping[str, Any]) -> values.ComputeService:
    if item["status"] == "UNKNOWN":
        return values.ComputeService(item["host"], is_reachable=False)
    return values.ComputeService(
        item["host"],
        is_up=item["state"] == "up" and not item.get("forced_down"),
        is_enabled=item["status"] == "enabled",
        is_forced_down=bool(item.get("forced_down")),
    )


def _nodes(nova: api.Nova, *, may_fail: bool) -> list[values.ComputeNode]:
    """The hypervisors that nova can list; ``may_fail``: accept that nova refuses a page."""
    found: list[values.ComputeNode] = []
    limit, more, refused = _PAGE, True, False
    while limit and more:
        try:
            page, more = _page(nova, limit, found)
            found += page
        except api.NovaRefused as error:
            if not may_fail or error.status < 500:
                raise
            refused = True
        # After a refusal fewer hypervisors than one page are left: halve the page each time.
        limit = _halved(limit) if refused else limit
    return found


def _halved(limit: int) -> int:
    """The next smaller power of two; 0 after 1."""
    return (1 << (limit - 1).bit_length()) >> 1 if limit > 1 else 0


def _page(
    nova: api.Nova, limit: int, previous: list[values.ComputeNode]
) -> tuple[list[values.ComputeNode], bool]:
    """The hypervisors that follow the ``previous`` ones, and whether there are more."""
    query = {"limit": str(limit)}
    if previous:
        query["marker"] = previous[-1].uuid
    path = f"/os-hypervisors/detail?{urllib.parse.urlencode(query)}"
    body = api.ask_or_unsupported(nova, path, _HYPERVISORS)
    with api.parsing(path):
        page = [
            values.ComputeNode(
                item["id"],
                item["hypervisor_hostname"],
                item["service"]["host"],
                item.get("running_vms"),
                resources={
                    name: item[field] for name, field in _RESOURCES.items() if item.get(field)
                },
                hypervisor=(item.get("hypervisor_type") or "", item.get("hypervisor_version") or 0),
            )
            for item in body["hypervisors"]
        ]
        return page, bool(page) and pages.has_next(body.get("hypervisors_links") or ())
