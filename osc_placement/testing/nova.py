# SPDX-License-Identifier: Apache-2.0
"""Nova's objects as its API lists them, for a recording.

``Cloud`` has a method for each; the functions are for names and UUIDs of your own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: ``{short name: the field of a server}``
FIELDS = {
    "project": "tenant_id",
    "user": "user_id",
    "host": "OS-EXT-SRV-ATTR:host",
    "node": "OS-EXT-SRV-ATTR:hypervisor_hostname",
    "vm_state": "OS-EXT-STS:vm_state",
    "task_state": "OS-EXT-STS:task_state",
    "power_state": "OS-EXT-STS:power_state",
}
#: ``{name of a listing: its path}``
PATHS = {
    "services": "os-services",
    "hypervisors": "os-hypervisors/detail",
    "servers": "servers/detail",
    "deleted servers": "servers/detail?deleted=true",
    "migrations": "os-migrations",
    "flavors": "flavors/detail",
    "aggregates": "os-aggregates",
    "server_groups": "os-server-groups",
}
_SIZE = {"vcpus": 1, "ram": 0, "disk": 0, "ephemeral": 0, "swap": 0}
_SERVICE = {"binary": "nova-compute", "state": "up", "status": "enabled", "forced_down": False}


def server(uuid: str, **fields: Any) -> dict[str, Any]:
    """An active server with 1 VCPU, on no host; ``FIELDS`` has short names of fields.

    ``vcpus``, ``ram``, ``disk``, ``ephemeral``, ``swap`` and ``extra_specs`` are its flavor's;
    ``flavor`` is the name of the flavor, or all of it.
    """
    defaults: dict[str, Any] = {**_SIZE, "extra_specs": {}}
    sizes = {key: fields.pop(key, value) for key, value in defaults.items()}
    defaults = {
        "name": uuid, "project": "project", "user": "user", "host": None, "node": None,
        "vm_state": "active", "task_state": None, "power_state": 1, "status": "ACTIVE",
        "flavor": "flavor", "image": "", "created": "", "updated": "",
        "pinned_availability_zone": None,
    }  # fmt: skip
    named = {FIELDS.get(key, key): value for key, value in {**defaults, **fields}.items()}
    if isinstance(named["flavor"], str):
        named["flavor"] = {**sizes, "original_name": named["flavor"]}
    return {"id": uuid, **named}


def flavor(name: str, **fields: Any) -> dict[str, Any]:
    """A flavor with 1 VCPU; ``fields`` are its sizes, ``ephemeral`` too, and ``extra_specs``."""
    sizes = {**_SIZE, "extra_specs": {}, **fields}
    return {"id": name, "name": name, "OS-FLV-EXT-DATA:ephemeral": sizes.pop("ephemeral"), **sizes}


def migration(uuid: str, server_uuid: str, **fields: Any) -> dict[str, Any]:
    """A running live migration of a server."""
    ends = dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"))
    state = {"migration_type": "live-migration", "status": "running"}
    times = {"created_at": "", "updated_at": ""}
    return {"uuid": uuid, "instance_uuid": server_uuid, **state, **ends, **times, **fields}


def service(host: str, **fields: Any) -> dict[str, Any]:
    """A nova-compute that is enabled and up."""
    return {**_SERVICE, "host": host, **fields}


def node(uuid: str, name: str, host: str, **fields: Any) -> dict[str, Any]:
    """A compute node; its provider has the same UUID and name."""
    shown = {"id": uuid, "hypervisor_hostname": name, "service": {"host": host}}
    return {**shown, "cpu_info": {"arch": "x86_64"}, **fields}


def aggregate(
    number: int, name: str, uuid: str, hosts: Iterable[str], **metadata: str
) -> dict[str, Any]:
    """A host aggregate; ``hosts`` are nova's names."""
    members = {"hosts": list(hosts), "metadata": metadata}
    return {"id": number, "name": name, "uuid": uuid, **members}


def answers(**listings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The answers of listings by the name of each, such as ``servers`` and ``hypervisors``."""
    return {
        f"GET /v2.1/{PATHS[name]}": {name.split()[-1]: list(listed)}
        for name, listed in listings.items()
    }
