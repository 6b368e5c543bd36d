# SPDX-License-Identifier: Apache-2.0
"""Names that the functional tests of the commands share."""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from osc_placement import testing
from osc_placement.testing import nova
from osc_placement.testing.cloud import uuid_of
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack

AGGREGATE = "33333333-3333-4333-8333-333333333333"
OTHER_AGGREGATE = "33333333-3333-4333-8333-333333333334"
CONSUMER = "22222222-2222-4222-8222-222222222222"

OWNER = ("--project-id", "project", "--user-id", "user")


def create(openstack: OpenStack, name: str, parent: str | None = None, **totals: int) -> str:
    """A provider with inventories of these totals; its UUID. Sends requests, not commands."""
    target = openstack.target
    body = {"name": name, **({"parent_provider_uuid": _uuid(target, parent)} if parent else {})}
    created = target.ask("POST", "/resource_providers", body)
    if totals:
        inventories = {name: {"total": total} for name, total in totals.items()}
        target.ask(
            "PUT",
            f"/resource_providers/{created['uuid']}/inventories",
            {"resource_provider_generation": created["generation"], "inventories": inventories},
        )
    return str(created["uuid"])


def allocate(openstack: OpenStack, provider: str, amounts: str, consumer: str = "") -> str:
    """A consumer of ``amounts`` (``VCPU=1,…``) on a provider; its UUID. Sends requests.

    A new consumer has no type.
    """
    consumer = consumer or str(uuid.uuid4())
    pairs = (amount.split("=") for amount in amounts.split(","))
    resources = {name: int(amount) for name, amount in pairs}
    target = openstack.target
    held = target.ask("GET", f"/allocations/{consumer}")
    body = {
        "allocations": {_uuid(target, provider): {"resources": resources}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": held.get("consumer_generation"),
    }
    target.ask("PUT", f"/allocations/{consumer}", body, "1.37")
    return consumer


def _uuid(target: targets.Target, provider: str) -> str:
    """The UUID of a provider with this UUID or name."""
    try:
        return str(uuid.UUID(provider))
    except ValueError:
        (found,) = target.ask("GET", f"/resource_providers?name={provider}")["resource_providers"]
        return str(found["uuid"])


def compute_hosts(
    uuids: Mapping[str, str], services: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Nova's answers about compute hosts, ``{name of the provider: UUID}``.

    The host of the provider ``x`` is ``nova-x``. ``services`` changes fields of services, by the
    names of providers.
    """
    changed = services or {}
    return nova.answers(
        services=[nova.service(f"nova-{name}", **changed.get(name, {})) for name in uuids],
        hypervisors=[nova.node(uuid, name, f"nova-{name}") for name, uuid in uuids.items()],
    )


def cloud_of(hosts: Iterable[str], **servers: str) -> testing.Cloud:
    """Hosts of 8 VCPU and 64 MiB, with ``server="host amount"`` of VCPU.

    Nova sets no consumer type.
    """
    cloud = testing.Cloud()
    for name in hosts:
        cloud.host(name, VCPU=8, MEMORY_MB=64)
    for name, place in servers.items():
        host, _, amount = place.partition(" ")
        cloud.server(name, {host: {"VCPU": int(amount)}}, type="unknown")
    return cloud


def nova_of(
    *hosts: str,
    servers: Iterable[Mapping[str, Any]] = (),
    migrations: Iterable[Mapping[str, Any]] = (),
    flavors: Iterable[Mapping[str, Any]] = (),
    services: Mapping[str, Mapping[str, Any]] | None = None,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    hidden: Iterable[str] = (),
) -> dict[str, Any]:
    """Nova's answers about hosts of a ``testing.Cloud``; it does not show what is ``hidden``.

    ``services`` and ``nodes`` change fields of hosts.
    """
    answers = compute_hosts({name: uuid_of(name) for name in hosts}, services)
    for node in answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"]:
        node.update((nodes or {}).get(node["hypervisor_hostname"], {}))
    listed = nova.answers(servers=servers, migrations=migrations, flavors=flavors)
    return {**answers, **listed, **{f"GET /v2.1/{path}": None for path in hidden}}


def server(uuid: str, host: str, **fields: Any) -> dict[str, Any]:
    """A server of 3 VCPU on the only node of nova's host ``nova-…``, as nova shows it."""
    place = {"name": uuid[-2:], "host": f"nova-{host}", "node": host}
    return nova.server(uuid, **{**place, "vcpus": 3, "project": "p", "user": "u", **fields})


def flavor(name: str, vcpus: int, **specs: str) -> dict[str, Any]:
    """A flavor of 16 MiB, as nova shows it; ``trait__X`` is the extra spec ``trait:X``."""
    written = {key.replace("__", ":"): value for key, value in specs.items()}
    return nova.flavor(name, vcpus=vcpus, ram=16, extra_specs=written)


def migration(
    uuid: str, server_uuid: str, kind: str, status: str, source: str, target: str
) -> dict[str, Any]:
    """A migration between the nodes of two of nova's hosts ``nova-…``."""
    ends = {"source_compute": f"nova-{source}", "source_node": source}
    ends |= {"dest_compute": f"nova-{target}", "dest_node": target}
    state = {"migration_type": kind, "status": status, "updated_at": "2026-11-01T12:00:00"}
    return nova.migration(uuid, server_uuid, **ends, **state)


def nova_recording(answers: Mapping[str, Any], file: str = "nova.json") -> tuple[str, str]:
    """The options for a recording of nova's answers, with empty lists for what they lack.

    An answer of None is left out.
    """
    empty = nova.answers(aggregates=[], server_groups=[], servers=[], migrations=[])
    recorded = {path: body for path, body in {**empty, **answers}.items() if body is not None}
    pathlib.Path(file).write_text(json.dumps(recorded))
    return "--os-nova-recording", file
