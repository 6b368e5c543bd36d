# SPDX-License-Identifier: Apache-2.0
"""Types and owners of nova's consumers, on an embedded server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from osc_placement.client import api
from osc_placement.model import allocation, inventory
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, result
from osc_placement.workflows.migrations import consumers
from tests.support import embedded, plans
from tests.support.embedded import uuid_of

HOST = uuid_of("cmp-1")


def server(name: str, project: str) -> dict[str, Any]:
    flavor = {"vcpus": 1, "ram": 1, "disk": 1, "ephemeral": 0, "swap": 0, "extra_specs": {}}
    return {
        "id": uuid_of(name),
        "name": name,
        "tenant_id": project,
        "user_id": "alice",
        "OS-EXT-SRV-ATTR:host": "cmp-0001",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": "cmp-0001",
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:task_state": None,
        "status": "ACTIVE",
        "flavor": flavor,
        "image": "",
        "created": "2026-01-01T00:00:00Z",
        "updated": "2026-01-01T00:00:00Z",
    }


MOVE = {
    "uuid": uuid_of("a move"),
    "instance_uuid": uuid_of("vm-1"),
    "migration_type": "resize",
    "status": "finished",
    "source_compute": "cmp-1",
    "source_node": "cmp-1",
    "dest_compute": "cmp-2",
    "dest_node": "cmp-2",
    "project_id": "acme",
    "user_id": "alice",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": None,
}


@pytest.fixture
def client() -> embedded.Client:
    inventories = {"VCPU": inventory.Inventory(total=1000)}
    return embedded.Client([embedded.Host("cmp-1", inventories=inventories)])


def consume(client: api.Client, name: str, project: str, known: str | None = None) -> None:
    at = client if known else client.at(client.microversion._replace(minor=37))
    at.write_allocations(
        [allocation.Consumer(uuid_of(name), {HOST: {"VCPU": 1}}, project, "alice", None, known)]
    )


def nova(*servers: dict[str, Any]) -> nova_api.RecordedNova:
    answers = {
        "GET /servers/detail": {"servers": list(servers)},
        "GET /os-migrations": {"migrations": [MOVE]},
    }
    return nova_api.RecordedNova(answers, "a test")


def migrate(
    client: api.Client,
    nova: nova_api.Nova,
    after: str = "",
    planning: Callable[..., consumers.Slices] = consumers.plan_types,
) -> int:
    """Apply all slices; returns the number of applied changes."""
    done = 0
    for _, planned in planning(client, nova, after=after):
        report = plans.apply_new(client, planned, "a test", apply.Options())
        done += report.count(result.Status.APPLIED)
    return done


def type_of(client: api.Client, name: str) -> str | None:
    return client.show_allocations(uuid_of(name)).consumer_type


def test_only_servers_and_migrations_get_types(client: embedded.Client) -> None:
    for name in ("vm-1", "a move", "another service's"):
        consume(client, name, "acme")
    assert migrate(client, nova(server("vm-1", "acme"))) == 2
    types = [type_of(client, name) for name in ("vm-1", "a move", "another service's")]
    assert types == ["INSTANCE", "MIGRATION", "unknown"]


def test_one_request_per_project_if_all_have_types(client: embedded.Client) -> None:
    servers = [server(f"vm-{number}", f"p{number % 3}") for number in range(30)]
    for number, item in enumerate(servers):
        consume(client, item["name"], f"p{number % 3}", "INSTANCE")
    client.sent.clear()
    assert migrate(client, nova(*servers)) == 0
    assert client.count() == {"GET /usages": 4}


def test_reading_stops_when_all_are_found(client: embedded.Client) -> None:
    servers = [server(f"vm-{number}", "acme") for number in range(300)]
    first = min(servers, key=lambda item: item["id"])
    for item in servers:
        consume(client, item["name"], "acme", None if item is first else "INSTANCE")
    client.sent.clear()
    assert migrate(client, nova(*servers)) == 1
    count = client.count()
    assert count["GET /allocations/{}"] == consumers._SLICE
    assert count["POST /allocations"] + count["PUT /allocations/{}"] == 1


def test_position_skips_earlier_consumers(client: embedded.Client) -> None:
    servers = [server(f"vm-{number}", "acme") for number in range(4)]
    for item in servers:
        consume(client, item["name"], "acme")
    middle = sorted(item["id"] for item in servers)[1]
    assert migrate(client, nova(*servers), after=middle) == 2


def test_placeholder_owners_are_replaced_and_types_stay(client: embedded.Client) -> None:
    consume(client, "vm-1", allocation.PLACEHOLDER)
    consume(client, "vm-2", allocation.PLACEHOLDER, "INSTANCE")
    consume(client, "vm-3", "other")
    servers = [server(f"vm-{number}", "acme") for number in (1, 2, 3)]
    assert migrate(client, nova(*servers), planning=consumers.plan_owners) == 2
    found = [client.show_allocations(item["id"]) for item in servers]
    assert [one.project_id for one in found] == ["acme", "acme", "other"]
    assert [one.consumer_type for one in found] == ["unknown", "INSTANCE", "unknown"]


def test_one_request_if_no_placeholders(client: embedded.Client) -> None:
    consume(client, "vm-1", "acme")
    client.sent.clear()
    assert migrate(client, nova(server("vm-1", "acme")), planning=consumers.plan_owners) == 0
    assert client.count() == {"GET /usages": 1}
