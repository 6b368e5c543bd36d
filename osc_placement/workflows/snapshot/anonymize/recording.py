"""Replaces the names in recorded responses of nova and neutron. Pure.

Only the fields that the commands read are kept: everything else of a response (metadata, addresses,
tags, descriptions, keys) is left out.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from osc_placement.workflows.snapshot.anonymize import properties
from osc_placement.workflows.snapshot.anonymize.key import Kind
from osc_placement.workflows.snapshot.anonymize.names import Names

#: Returns a value with replaced names.
Field = Callable[[Names, Any], Any]

_REQUEST = re.compile(r"GET /v2(?:\.\d+)?(?P<path>/[^?]*)\??(?P<query>.*)")
#: The query parameters whose values contain no names.
_PLAIN_PARAMETERS = frozenset(
    {"all_projects", "all_tenants", "binary", "deleted", "is_public", "limit", "offset"}
)


def _keep(_: Names, value: Any) -> Any:
    return value


def _uuid(names: Names, value: str) -> str:
    return names.uuid(value) if value else value


def _host(names: Names, value: str) -> str:
    return names.host(value) if value else value


def _named(kind: Kind) -> Field:
    def replace(names: Names, value: Any) -> Any:
        return names.of(kind, str(value)) if value else value

    return replace


def _list(field: Field) -> Field:
    def replace(names: Names, value: Any) -> Any:
        return [field(names, item) for item in value]

    return replace


def _object(**fields: Field) -> Field:
    """The fields of an object, and nothing else of it; empty and missing values stay so."""
    return _fields(fields)


def _fields(fields: Mapping[str, Field]) -> Field:
    def replace(names: Names, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            key: None if value[key] is None else field(names, value[key])
            for key, field in fields.items()
            if key in value
        }

    return replace


def _resources(names: Names, resources: Mapping[str, int]) -> dict[str, int]:
    return {names.resource_class(name): amount for name, amount in resources.items()}


def _allocation(names: Names, value: Any) -> Any:
    """The providers of a port: one UUID, or ``{group: UUID}``."""
    if isinstance(value, Mapping):
        return {names.uuid(group): names.uuid(uuid) for group, uuid in value.items()}
    return _uuid(names, value)


_FLAVOR_SIZES: dict[str, Field] = dict.fromkeys(("vcpus", "ram", "disk", "swap"), _keep)
_REQUEST_GROUP: dict[str, Field] = {
    "id": _uuid,
    "required": _list(Names.trait),
    "resources": _resources,
}

#: ``{path: (key of the list, form of an item)}``
_RESPONSES: dict[str, tuple[str, Field]] = {
    "/os-aggregates": (
        "aggregates",
        _object(
            id=_keep,
            name=_named(Kind.AGGREGATE),
            uuid=_uuid,
            hosts=_list(_host),
            metadata=properties.metadata,
        ),
    ),
    "/os-services": (
        "services",
        _object(binary=_keep, host=_host, status=_keep, state=_keep, forced_down=_keep),
    ),
    "/os-hypervisors/detail": (
        "hypervisors",
        _object(
            id=_uuid, hypervisor_hostname=_host, service=_object(host=_host), running_vms=_keep
        ),
    ),
    "/os-server-groups": (
        "server_groups",
        _object(
            id=_uuid,
            name=_named(Kind.GROUP),
            policy=_keep,
            members=_list(_uuid),
            rules=_object(max_server_per_host=_keep),
        ),
    ),
    "/os-migrations": (
        "migrations",
        _object(
            uuid=_uuid,
            instance_uuid=_uuid,
            migration_type=_keep,
            status=_keep,
            source_compute=_host,
            source_node=_host,
            dest_compute=_host,
            dest_node=_host,
            project_id=Names.project,
            user_id=Names.user,
            created_at=_keep,
            updated_at=_keep,
        ),
    ),
    "/servers/detail": (
        "servers",
        _fields(
            {
                "id": _uuid,
                "name": _named(Kind.SERVER),
                "tenant_id": Names.project,
                "user_id": Names.user,
                "OS-EXT-SRV-ATTR:host": _host,
                "OS-EXT-SRV-ATTR:hypervisor_hostname": _host,
                "OS-EXT-SRV-ATTR:root_device_name": _keep,
                "OS-EXT-STS:vm_state": _keep,
                "OS-EXT-STS:task_state": _keep,
                "status": _keep,
                "flavor": _fields(
                    {
                        **_FLAVOR_SIZES,
                        "original_name": _named(Kind.FLAVOR),
                        "ephemeral": _keep,
                        "extra_specs": properties.extra_specs,
                    }
                ),
                "image": _object(id=_uuid, properties=properties.image_properties),
                "pinned_availability_zone": _named(Kind.ZONE),
                "os-extended-volumes:volumes_attached": _list(_object()),
                "created": _keep,
                "updated": _keep,
            }
        ),
    ),
    "/flavors/detail": (
        "flavors",
        _fields(
            {
                "id": _named(Kind.FLAVOR),
                "name": _named(Kind.FLAVOR),
                **_FLAVOR_SIZES,
                "OS-FLV-EXT-DATA:ephemeral": _keep,
                "extra_specs": properties.extra_specs,
            }
        ),
    ),
    "/ports": (
        "ports",
        _fields(
            {
                "id": _uuid,
                "name": _named(Kind.PORT),
                "device_id": _uuid,
                "resource_request": _fields(
                    {
                        **_REQUEST_GROUP,
                        "request_groups": _list(_fields(_REQUEST_GROUP)),
                        "same_subtree": _list(_uuid),
                    }
                ),
                "binding:profile": _object(allocation=_allocation),
                "binding:vnic_type": _keep,
                "revision_number": _keep,
            }
        ),
    ),
}


def metadata_keys(recorded: Mapping[str, Any]) -> frozenset[str]:
    """The keys of the metadata of all host aggregates in recorded responses."""
    return frozenset(
        key
        for request in recorded
        if (found := _REQUEST.fullmatch(request)) and found["path"] == "/os-aggregates"
        for aggregate in recorded[request]["aggregates"]
        for key in aggregate.get("metadata") or {}
    )


def anonymize(names: Names, request: str, body: Any) -> tuple[str, Any] | None:
    """A response and its request; None for a request that no command sends."""
    found = _REQUEST.fullmatch(request)
    known = _RESPONSES.get(found["path"]) if found else None
    if found is None or known is None:
        return None
    key, form = known
    pairs = []
    for parameter, value in urllib.parse.parse_qsl(found["query"]):
        if parameter in _PLAIN_PARAMETERS:
            pairs.append((parameter, value))
        elif parameter in ("marker", "id"):
            is_flavor = key == "flavors"
            pseudonym = names.of(Kind.FLAVOR, value) if is_flavor else names.uuid(value)
            pairs.append((parameter, pseudonym))
        else:
            return None
    path, _, _ = request.partition("?")
    query = f"?{urllib.parse.urlencode(pairs)}" if pairs else ""
    links = body.get(f"{key}_links")
    return f"{path}{query}", {
        key: [form(names, item) for item in body[key]],
        **({f"{key}_links": [{"rel": link["rel"]} for link in links]} if links else {}),
    }
