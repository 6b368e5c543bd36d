"""What is asked of nova about its servers and their moves, in pages. See ``compute``."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from osc_placement.nova import api, flavor, values

T = TypeVar("T")

#: The compute API microversions to ask at, the best first: image properties are told from
#: 2.98, servers of a cell that is down from 2.69, the embedded flavor from 2.47.
_SERVERS = ("2.98", "2.69", "2.47")

#: A migration's owner is told from 2.80, its UUID from 2.59, with pages.
_MIGRATIONS = ("2.80", "2.59")

#: From 2.89 on some attachments are left out.
_ATTACHMENTS = "2.88"

#: How many are asked for at once: nova's own limit.
_PAGE = 1000

#: What nova leaves out, without a word, of a server or of its flavor for those whom a rule of
#: its policy forbids to see it. Taken for nothing, it would be a server on no host.
_HIDDEN_BY = (
    ("OS-EXT-SRV-ATTR:host", "os_compute_api:os-extended-server-attributes"),
    ("extra_specs", "os_compute_api:os-flavor-extra-specs:index"),
)


def servers(asked: api.Nova, **filters: str) -> list[values.Server]:
    """Every server of every project that is not deleted, not soft-deleted and not hidden.

    ``filters`` are nova's own: ``host``, ``changes-since``, ``deleted``. Cost: one request
    per 1000 servers. Errors: as ``ask``, and PlacementError for a nova before 2.47.
    """
    query = {"all_tenants": "1", **filters}
    return _paged(asked, "/servers/detail", _SERVERS, query, "servers", _server)


def deleted_servers(asked: api.Nova) -> list[values.Server]:
    """Servers that are deleted and not archived yet, and soft-deleted ones (which still live)."""
    return servers(asked, deleted="true")


def server(asked: api.Nova, uuid: str) -> values.Server | None:
    """One server; None when nova has none of that UUID. Cost: one request."""
    path = f"/servers/{urllib.parse.quote(uuid, safe='')}"
    try:
        answer, _ = _best(asked, path, _SERVERS)
    except api.NovaRefused as error:
        if error.status == 404:
            return None
        raise
    with api.parsing(path):
        return _server(answer["server"])


def root_is_volume(asked: api.Nova, server: values.Server) -> bool:
    """Whether a server's root disk is one of the volumes attached to it. Cost: one request."""
    path = f"/servers/{server.uuid}/os-volume_attachments"
    answer = api.ask_or_unsupported(asked, path, _ATTACHMENTS)
    with api.parsing(path):
        devices = [item["device"] for item in answer["volumeAttachments"]]
    return server.root_device is not None and server.root_device in devices


def migrations(asked: api.Nova, **filters: str) -> list[values.Migration]:
    """Every migration that nova remembers, the newest first.

    Cost: one request per 1000. Errors: as ``ask``.
    """
    return _paged(asked, "/os-migrations", _MIGRATIONS, filters, "migrations", _migration)


def _paged(
    asked: api.Nova,
    path: str,
    versions: Sequence[str],
    query: Mapping[str, str],
    key: str,
    read: Callable[[Any], T],
) -> list[T]:
    """All pages of a listing; ``{key}_links`` tells whether there is another."""
    found: list[T] = []
    marker: dict[str, str] = {}
    while True:
        pairs = {**query, "limit": str(_PAGE), **marker}
        url = f"{path}?{urllib.parse.urlencode(pairs)}"
        answer, version = _best(asked, url, versions)
        versions = (version,)
        with api.parsing(url):
            items = answer[key]
            found += map(read, items)
            if not _has_next(answer.get(f"{key}_links") or ()) or not items:
                return found
            marker = {"marker": str(items[-1].get("uuid") or items[-1]["id"])}


def _has_next(links: Iterable[Mapping[str, str]]) -> bool:
    return any(link["rel"] == "next" for link in links)


def _best(asked: api.Nova, path: str, versions: Sequence[str]) -> tuple[Any, str]:
    """The answer at the best version that this nova has, and which that was."""
    for version in versions[:-1]:
        try:
            return asked.ask(path, version), version
        except api.NovaRefused as error:
            if error.status != 406:
                raise
    return api.ask_or_unsupported(asked, path, versions[-1]), versions[-1]


def _server(item: Mapping[str, Any]) -> values.Server:
    if "flavor" not in item:
        return values.Server(item["id"], project_id=item.get("tenant_id"), known=False)
    _check_rights(item)
    image = item.get("image") or {}
    return values.Server(
        uuid=item["id"],
        name=item["name"],
        project_id=item["tenant_id"],
        user_id=item["user_id"],
        host=item["OS-EXT-SRV-ATTR:host"],
        node=item["OS-EXT-SRV-ATTR:hypervisor_hostname"],
        vm_state=item["OS-EXT-STS:vm_state"],
        task_state=item["OS-EXT-STS:task_state"],
        status=item["status"],
        flavor=_flavor(item["flavor"]),
        image_properties=image.get("properties"),
        from_volume=not image,
        has_volumes=bool(item.get("os-extended-volumes:volumes_attached")),
        root_device=item.get("OS-EXT-SRV-ATTR:root_device_name"),
        created=item["created"],
        updated=item["updated"],
    )


def _check_rights(item: Mapping[str, Any]) -> None:
    """Refuse a server of which not all is told. Errors: NovaRefused, as for a request."""
    told = {*item, *item["flavor"]}
    for key, rule in _HIDDEN_BY:
        if key not in told:
            raise api.NovaRefused(
                403, f"it does not tell {key}, which {rule} allows to see", url="/servers/detail"
            )


def _flavor(item: Mapping[str, Any]) -> flavor.Flavor:
    return flavor.Flavor(
        vcpus=item["vcpus"],
        ram=item["ram"],
        disk=item["disk"],
        ephemeral=item["ephemeral"],
        swap=item["swap"] or 0,
        extra_specs=item["extra_specs"],
    )


def _migration(item: Mapping[str, Any]) -> values.Migration:
    return values.Migration(
        uuid=item["uuid"],
        server_uuid=item["instance_uuid"],
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
