# SPDX-License-Identifier: Apache-2.0
"""``placement host retire``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support.functional_cloud import (
    AGGREGATE,
    allocate,
    compute_hosts,
    create,
    nova_recording,
    server,
)
from tests.support.peer.shell import OpenStack

RETIRE = "placement host retire"
SERVER, OTHER, MIGRATION = (f"00000000-0000-4000-8000-0000000000d{number}" for number in range(3))
DOWN = {"state": "down"}

Retired = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def uuids(openstack: OpenStack) -> dict[str, str]:
    """The providers of two hosts; those of one are a tree of three, with a trait each."""
    created = {name: create(openstack, name, VCPU=8) for name in ("old", "new")}
    created["numa"] = create(openstack, "numa", "old", MEMORY_MB=64)
    created["pci"] = create(openstack, "pci", "numa", VGPU=2)
    for name in ("old", "new"):
        openstack("resource provider trait set", "--trait", "COMPUTE_NODE", created[name])
    openstack("resource provider trait set", "--trait", "HW_NUMA_ROOT", created["numa"])
    openstack("resource provider aggregate add", created["old"], "--aggregate", AGGREGATE)
    return created


@pytest.fixture
def retired(openstack: OpenStack, uuids: dict[str, str]) -> Retired:
    """Run the command with these compute nodes, and further answers of nova."""

    def run(
        *arguments: str,
        nodes: tuple[str, ...] = ("old", "new"),
        services: Mapping[str, Mapping[str, Any]] | None = None,
        **answers: Any,
    ) -> tuple[int, list[dict[str, Any]], str]:
        nova = nova_recording(
            {
                **compute_hosts({name: uuids[name] for name in nodes}, services),
                **{f"GET /v2.1/{path.replace('__', '/')}": answers[path] for path in answers},
            }
        )
        allowed = ("--allow", "recorded-nova")
        outcome = openstack.run(RETIRE, "old", *arguments, *nova, *allowed, "-f", "json")
        rows = json.loads(outcome.stdout) if outcome.stdout.strip() else []
        return outcome.code, rows, " ".join(outcome.stderr.split())

    return run


def migration(status: str, kind: str = "evacuation") -> dict[str, Any]:
    return {
        "migrations": [
            {
                "uuid": MIGRATION, "instance_uuid": SERVER, "migration_type": kind,
                "status": status, "source_compute": "nova-old", "source_node": "old",
                "dest_compute": "nova-new", "dest_node": "new", "created_at": "",
                "updated_at": "2026-11-01T12:00:00",
            }
        ]
    }  # fmt: skip


def names(openstack: OpenStack) -> list[str]:
    return sorted(row["name"] for row in openstack.rows("resource provider list"))


def on_both(openstack: OpenStack, uuids: Mapping[str, str], consumer: str) -> None:
    """A consumer with allocations on both hosts, as an evacuation leaves it."""
    openstack.target.ask(
        "PUT",
        f"/allocations/{consumer}",
        {
            "allocations": {
                uuids["old"]: {"resources": {"VCPU": 3}},
                uuids["pci"]: {"resources": {"VGPU": 1}},
                uuids["new"]: {"resources": {"VCPU": 3}},
            },
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
        },
        "1.37",
    )


def test_a_host_that_nova_has_gets_the_commands_that_delete_its_service(
    openstack: OpenStack, retired: Retired
) -> None:
    before = names(openstack)
    code, (row,), stderr = retired(services={"old": DOWN})
    assert (code, row["status"], row["code"]) == (6, "refused", "service-status")
    assert "openstack compute service set --disable" in stderr
    assert "openstack compute service delete" in stderr
    assert names(openstack) == before


def test_what_nova_left_is_deleted_and_undo_restores_it(
    openstack: OpenStack, uuids: dict[str, str], retired: Retired
) -> None:
    on_both(openstack, uuids, SERVER)
    before = openstack.target.ask("GET", f"/resource_providers/{uuids['old']}/inventories")
    moved = {"servers": [server(SERVER, "new")]}
    options = {"nodes": ("new",), "servers__detail": moved, "os-migrations": migration("done")}
    code, rows, stderr = retired("--undo-out", "undo.json", **options)
    assert (code, {row["status"] for row in rows}) == (0, {"applied"}), stderr
    assert names(openstack) == ["new"]
    left = openstack.target.ask("GET", f"/allocations/{SERVER}")["allocations"]
    assert left.keys() == {uuids["new"]}
    openstack("placement plan undo", "undo.json", "--os-nova-recording", "nova.json",
              "--allow", "recorded-nova")  # fmt: skip
    assert names(openstack) == ["new", "numa", "old", "pci"]
    after = openstack.target.ask("GET", f"/resource_providers/{uuids['old']}/inventories")
    assert after["inventories"] == before["inventories"]
    shown = openstack.target.ask("GET", f"/resource_providers/{uuids['old']}/aggregates")
    assert shown["aggregates"] == [AGGREGATE]
    assert openstack.target.ask("GET", f"/allocations/{SERVER}")["allocations"].keys() == {
        uuids["old"], uuids["new"], uuids["pci"],
    }  # fmt: skip


def moving(host: str, **fields: Any) -> dict[str, Any]:
    return {"servers": [server(SERVER, host, **fields)]}


@pytest.mark.parametrize(
    ("options", "allocated", "code", "words"),
    [
        ({"services": {"old": {}}}, [], "service-status", "nova-compute is up"),
        ({"services": {"old": DOWN}, "servers__detail": moving("old")}, [], "not-empty",
         "placement host drain nova-old"),
        ({"services": {"old": DOWN}, "os-migrations": migration("running")}, [], "moving",
         MIGRATION),
        # Its cold migration failed on its destination: the disk may be on the source.
        ({"services": {"old": DOWN},
          "servers__detail": moving("new", **{"OS-EXT-STS:vm_state": "error"}),
          "os-migrations": migration("error", "migration")}, [],
         "moving", "may run on either host"),
        # A consumer that nova does not list may be a server of a cell that is down, or leaked.
        ({"services": {"old": DOWN}}, [OTHER], "not-empty", "placement allocation audit"),
        ({"nodes": ("new",)}, [OTHER], "not-empty", "placement allocation audit"),
        # Its only allocations are there: without them, the server has none.
        ({"nodes": ("new",), "servers__detail": moving("new")}, [SERVER], "not-empty",
         "placement allocation audit"),
        ({"nodes": ("new",), "servers__detail": moving("old")}, [SERVER], "not-empty", SERVER),
        ({"nodes": ("new",), "servers__detail": moving("new"),
          "os-migrations": migration("accepted")},
         ["both"], "not-empty", SERVER),
        ({"nodes": ("new",),
          "servers__detail": moving("new", **{"OS-EXT-STS:task_state": "rebuilding"})},
         ["both"], "not-empty", SERVER),
        ({"services": {"old": {"status": "UNKNOWN", "state": "unknown"}}}, [], "cell-down",
         "cell of nova-old is down"),
    ],
)  # fmt: skip
def test_a_host_that_somebody_needs_is_refused_and_nothing_changes(
    options: dict[str, Any],
    allocated: list[str],
    code: str,
    words: str,
    openstack: OpenStack,
    uuids: dict[str, str],
    retired: Retired,
) -> None:
    for consumer in allocated:
        if consumer == "both":
            on_both(openstack, uuids, SERVER)
        else:
            allocate(openstack, "old", "VCPU=1", consumer)
    before = names(openstack)
    exit_code, (row,), stderr = retired(**options)
    assert (exit_code, row["status"], row["code"]) == (6, "refused", code), row
    assert words in f"{row['reason']} {stderr}"
    assert names(openstack) == before


def test_the_nodes_of_ironic_stay(
    openstack: OpenStack, uuids: dict[str, str], retired: Retired
) -> None:
    nodes = compute_hosts({"old": uuids["old"]})["GET /v2.1/os-hypervisors/detail"]
    for node in nodes["hypervisors"]:
        node["hypervisor_type"] = "ironic"
    code, (row,), _ = retired(services={"old": DOWN}, **{"os-hypervisors__detail": nodes})
    assert (code, row["code"]) == (6, "not-a-compute-node")


def test_a_provider_that_nova_compute_did_not_make_is_refused(
    openstack: OpenStack, uuids: dict[str, str], retired: Retired
) -> None:
    openstack.do("resource provider trait delete", uuids["old"])
    code, (row,), _ = retired(nodes=("new",))
    assert (code, row["code"]) == (6, "not-a-compute-node")


def test_a_host_that_neither_service_has_is_named(openstack: OpenStack, retired: Retired) -> None:
    code, _, stderr = retired("nohost")
    assert (code, "nohost: neither nova nor Placement has a host" in stderr) == (1, True)


def test_host_aggregates_that_still_have_the_host_are_named(retired: Retired) -> None:
    aggregates = {
        "aggregates": [
            {"id": 7, "name": "az1", "uuid": AGGREGATE, "hosts": ["old"], "metadata": {}}
        ]
    }
    _, _, stderr = retired("--dry-run", nodes=("new",), **{"os-aggregates": aggregates})
    assert "openstack aggregate remove host az1 old" in stderr
