# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain --for`` and who holds the room, on every Placement."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement.workflows.cloud import moves
from tests.support.functional_cloud import allocate, compute_hosts, create, nova_recording
from tests.support.peer.shell import OpenStack

EXPLAIN = "allocation candidate explain"
SERVER = "00000000-0000-4000-8000-0000000000c1"
OTHER = "00000000-0000-4000-8000-0000000000c2"
DELETED = "00000000-0000-4000-8000-0000000000c3"
MIGRATION = "00000000-0000-4000-8000-0000000000c4"


def flavor(name: str, vcpus: int) -> dict[str, Any]:
    return {
        "id": name, "name": name, "vcpus": vcpus, "ram": 16, "disk": 0, "swap": 0,
        "OS-FLV-EXT-DATA:ephemeral": 0, "extra_specs": {},
    }  # fmt: skip


def server(uuid: str, name: str, host: str | None = "nova-a", **fields: Any) -> dict[str, Any]:
    node = host and host.removeprefix("nova-")
    return {
        "id": uuid, "name": name, "tenant_id": "p", "user_id": "u", "status": "ACTIVE",
        "OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:hypervisor_hostname": node,
        "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None, "image": "",
        "flavor": {**flavor("small", 2), "ephemeral": 0, "original_name": "small"},
        "pinned_availability_zone": None, "created": "", "updated": "", **fields,
    }  # fmt: skip


MOVE = {
    "uuid": MIGRATION, "instance_uuid": OTHER, "migration_type": "live-migration",
    "status": "completed", "source_compute": "nova-b", "source_node": "b",
    "dest_compute": "nova-a", "dest_node": "a", "created_at": "", "updated_at": "",
}  # fmt: skip


def recorded(
    hosts: Mapping[str, str], *, source: str = "up", moving: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The server on ``a``, another one on ``a`` that was on ``b``."""
    own, other = server(SERVER, "web", **(moving or {})), server(OTHER, "db")
    return {
        "GET /v2.1/flavors/detail": {"flavors": [flavor("small", 2), flavor("big", 6)]},
        **compute_hosts(hosts, {"a": {"state": source}}),
        f"GET /v2.1/servers/detail?uuid={SERVER}": {"servers": [own]},
        f"GET /v2.1/servers/detail?uuid={OTHER}": {"servers": [other]},
        "GET /v2.1/servers/detail?host=nova-a": {"servers": [own, other]},
        "GET /v2.1/os-migrations": {"migrations": [MOVE]},
    }


@pytest.fixture
def hosts(openstack: OpenStack) -> dict[str, str]:
    """Two hosts of 8 VCPU; on ``b`` a deleted server and a migration that is over hold 7."""
    found = {name: create(openstack, name, VCPU=8, MEMORY_MB=64) for name in ("a", "b")}
    allocate(openstack, found["a"], "VCPU=2,MEMORY_MB=16", SERVER)
    allocate(openstack, found["a"], "VCPU=2,MEMORY_MB=16", OTHER)
    allocate(openstack, found["b"], "VCPU=5,MEMORY_MB=16", DELETED)
    allocate(openstack, found["b"], "VCPU=2,MEMORY_MB=16", MIGRATION)
    return found


def explained(openstack: OpenStack, *arguments: str) -> tuple[int, dict[str, list[Any]]]:
    ended = openstack.run(EXPLAIN, "--server", SERVER, *arguments, "-f", "json")
    found: dict[str, list[Any]] = {}
    for row in json.loads(ended.stdout):
        found.setdefault(row["section"], []).append(row)
    return ended.code, found


def test_a_target_names_who_holds_its_room_and_the_audit_frees_it(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    nova = nova_recording(recorded(hosts))
    move = ("--for", "live-migrate", "--to-host", "nova-b", *nova)
    code, found = explained(openstack, *move)
    assert (code, "candidate" in found) == (3, False)
    sources = {row["text"]: row["source"] for row in found["constraint"]}
    assert sources[f"in_tree={hosts['b']}"] == "requested destination: nova-b"
    assert {
        row["consumer"]: (row["source"], row["text"], row["reason"]) for row in found["holder"]
    } == {
        DELETED: (None, "16 MEMORY_MB, 5 VCPU", "unknown to nova"),
        MIGRATION: ("db", "16 MEMORY_MB, 2 VCPU", "live-migration completed"),
    }
    assert [row["details"]["is_leaked"] for row in found["holder"]] == [True, True]
    (audit,) = {line for row in found["holder"] for line in row["commands"]}
    assert audit == (
        f"openstack placement allocation audit --repair --consumer={DELETED} --consumer={MIGRATION}"
    )
    # What nova has deleted, and a move that is over, the audit removes.
    listing = {"servers": [server(SERVER, "web"), server(OTHER, "db")]}
    gone = server(DELETED, "old", None, status="DELETED", updated="2026-01-01T00:00:00Z")
    answers = {
        **recorded(hosts),
        "GET /v2.1/servers/detail": listing,
        "GET /v2.1/servers/detail?deleted=true": {"servers": [gone]},
    }
    repaired = openstack.run(
        *audit.removeprefix("openstack ").split(" "),
        "--allow=recorded-nova",
        *nova_recording(answers, "all.json"),
    )
    assert "2 applied" in repaired.messages
    code, found = explained(openstack, *move)
    assert (code, [row["host"] for row in found["candidate"]]) == (0, ["b"])


def test_without_a_move_the_nearest_hosts_show_what_nova_does_not_have(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    nova = nova_recording(recorded(hosts))
    request = ("--resource", "VCPU=6")
    rows = openstack.rows(EXPLAIN, *request, *nova, code=3)
    holders = [row for row in rows if row["section"] == "holder"]
    assert {row["consumer"] for row in holders} == {DELETED, MIGRATION}
    rows = openstack.rows(EXPLAIN, *request, "--host", "a", *nova, code=3)
    assert {
        (row["source"], row["text"], row["reason"]) for row in rows if row["section"] == "holder"
    } == {("web", "2 VCPU", "active on nova-a"), ("db", "2 VCPU", "active on nova-a")}
    rows = openstack.rows(EXPLAIN, *request, "--host", "a", "--no-nova", *nova, code=3)
    assert not [row for row in rows if row["section"] == "holder"]


def test_a_move_in_doubt_and_a_server_on_another_host_are_named(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    answers = recorded(hosts)
    broken = {**MOVE, "status": "error", "instance_uuid": OTHER}
    answers["GET /v2.1/os-migrations"] = {"migrations": [broken]}
    answers[f"GET /v2.1/servers/detail?uuid={DELETED}"] = {
        "servers": [server(DELETED, "elsewhere")]
    }
    move = ("--for", "live-migrate", "--to-host", "b", *nova_recording(answers))
    _, found = explained(openstack, *move)
    holders = {row["consumer"]: row for row in found["holder"]}
    assert "live-migration" in holders[MIGRATION]["reason"]
    assert not holders[MIGRATION]["details"]["is_leaked"]
    assert holders[DELETED]["reason"] == "active on nova-a"
    assert holders[DELETED]["details"]["is_leaked"]


def test_a_resize_asks_for_the_new_flavor_and_may_stay(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    nova = nova_recording(recorded(hosts))
    code, found = explained(openstack, "--for", "resize", "--to-flavor", "big", *nova)
    assert (code, found["constraint"][0]["text"]) == (3, "resources=VCPU:6")
    assert "allow_resize_to_same_host is off" in " ".join(r["text"] for r in found["assumption"])
    pathlib.Path("nova.conf").write_text("[DEFAULT]\nallow_resize_to_same_host = true\n")
    openstack("resource provider inventory amend", hosts["a"], "--resource=VCPU:total=10")
    for conf, expected in (("", (3, [])), ("nova.conf", (0, ["a"]))):
        more = ("--nova-conf", conf) if conf else ()
        code, found = explained(openstack, "--for", "resize", "--to-flavor", "big", *more, *nova)
        assert (code, [row["host"] for row in found.get("candidate", ())]) == expected
    ignored = [row["text"] for row in found["nova-filter"] if row["reason"] == "ignore_hosts"]
    assert ignored == []


def test_a_move_leaves_the_source_out(openstack: OpenStack, hosts: dict[str, str]) -> None:
    openstack("resource provider inventory amend", hosts["b"], "--resource=VCPU:total=16")
    for kind, source in (("live-migrate", "up"), ("migrate", "up"), ("evacuate", "down")):
        nova = nova_recording(recorded(hosts, source=source))
        code, found = explained(openstack, "--for", kind, *nova)
        assert (code, [row["host"] for row in found["candidate"]]) == (0, ["b"])
        ignored = [row["text"] for row in found["nova-filter"] if row["reason"] == "ignore_hosts"]
        assert ignored == ["the server is there: a"]
    offloaded = {"OS-EXT-STS:vm_state": "shelved_offloaded", "OS-EXT-SRV-ATTR:host": None}
    nova = nova_recording(recorded(hosts, moving=offloaded))
    code, found = explained(openstack, "--for", "unshelve", *nova)
    assert (code, [row["host"] for row in found["candidate"]]) == (0, ["a", "b"])


def test_a_live_migration_leaves_hosts_with_an_older_hypervisor_out(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    openstack("resource provider inventory amend", hosts["b"], "--resource=VCPU:total=16")
    answers = recorded(hosts)
    first, second = answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    for own, other, code in ((8, 6, 3), (8, 8, 0), (6, 8, 0)):
        for node, version in ((first, own), (second, other)):
            node.update(hypervisor_type="QEMU", hypervisor_version=version * 1000000)
        nova = nova_recording(answers)
        for target in ((), ("--to-host", "nova-b")):
            ended, found = explained(openstack, "--for", "live-migrate", *target, *nova)
            assert ended == code
        reasons = {row["text"] for row in found["nova-filter"] if row["reason"] == "ignore_hosts"}
        assert any("its hypervisor is older" in text for text in reasons) is (code == 3)
        assert explained(openstack, "--for", "migrate", *nova)[0] == 0


def test_migrations_that_nova_does_not_list_make_a_yes_unknown(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    answers = {**recorded(hosts), "GET /v2.1/os-migrations": None}
    move = ("--for", "live-migrate", *nova_recording(answers))
    assert explained(openstack, *move)[0] == 3
    openstack("resource provider inventory amend", hosts["b"], "--resource=VCPU:total=16")
    code, found = explained(openstack, *move)
    assert (code, [row["host"] for row in found["candidate"]]) == (4, ["b"])
    (text,) = (row["text"] for row in found["not-checked"])
    assert text.startswith("whether an earlier move of the server is over: ")
    assert "/os-migrations" in text


@pytest.mark.parametrize("move_type", moves.TABLE)
def test_an_open_migration_of_a_server_without_a_task_makes_a_yes_unknown(
    move_type: str, openstack: OpenStack, hosts: dict[str, str]
) -> None:
    """Nova's host of the server is a claim then, and a move from there may find no guest.

    Not while a resize waits to be confirmed: its guest is certainly there.
    """
    openstack("resource provider inventory amend", hosts["b"], "--resource=VCPU:total=16")
    for status, row in moves.TABLE[move_type].items():
        opened = {**MOVE, "instance_uuid": SERVER, "migration_type": move_type, "status": status}
        answers = {**recorded(hosts), "GET /v2.1/os-migrations": {"migrations": [opened]}}
        move = ("--for", "live-migrate", *nova_recording(answers))
        code, found = explained(openstack, *move)
        is_claim = row.phase is not moves.Phase.WAITING
        assert code == (4 if is_claim else 0), status
        (text,) = (each["text"] for each in found["not-checked" if is_claim else "note"])
        assert text.startswith("the server: its "), status


#: ``(arguments, state of the source, fields of the server, message)``
REFUSED = [
    (("live-migrate", "--to-host", "x"), "up", {}, "nova has no compute host 'x'"),
    (("migrate", "--to-host", "nova-a"), "up", {}, "nova-a is the source"),
    (("migrate", "--to-host", "a"), "up", {}, "nova-a is the source"),
    (("resize", "--to-flavor", "x"), "up", {}, "no flavor with the name or ID 'x'"),
    (("resize", "--to-flavor", "small"), "up", {}, "has the flavor small already"),
    (("resize",), "up", {}, "resize needs --to-flavor"),
    (("migrate", "--to-flavor", "big"), "up", {}, "--to-flavor: needs --for resize"),
    (("resize", "--to-flavor", "big", "--to-host", "b"), "up", {}, "nova chooses the host"),
    (("migrate", "--no-nova"), "up", {}, "not allowed with argument --no-nova"),
    (("migrate", "--to-host", "b", "--host", "b"), "up", {}, "not allowed with argument --host"),
    (
        ("unshelve",),
        "up",
        {},
        "unshelve needs a server that is shelved_offloaded, and it is active",
    ),
    (("unshelve",), "up", {"OS-EXT-STS:vm_state": "shelved"}, "nova starts it on nova-a, without"),
    (("migrate",), "up", {"OS-EXT-STS:task_state": "rebooting"}, "while its task is rebooting"),
    (("migrate",), "down", {}, "nova-compute on nova-a is not up"),
    (("live-migrate",), "down", {}, "--for evacuate"),
    (("evacuate",), "up", {}, "compute service set --down nova-a nova-compute"),
]


@pytest.mark.parametrize(("arguments", "source", "fields", "message"), REFUSED)
def test_a_move_that_nova_refuses_is_an_error(
    openstack: OpenStack,
    hosts: dict[str, str],
    arguments: tuple[str, ...],
    source: str,
    fields: dict[str, Any],
    message: str,
) -> None:
    flavored = {"flavor": {**flavor("small", 2), "ephemeral": 0, "original_name": "small"}}
    nova = nova_recording(recorded(hosts, source=source, moving={**flavored, **fields}))
    _, text = openstack.fails(EXPLAIN, "--server", SERVER, "--for", *arguments, *nova)
    assert message in " ".join(text.split())


def test_an_unknown_server_and_a_target_without_a_provider_are_errors(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    answers = {**recorded(hosts), f"GET /v2.1/servers/detail?uuid={SERVER}": {"servers": []}}
    unknown = openstack.fails(
        EXPLAIN, "--server", SERVER, "--for", "migrate", *nova_recording(answers)
    )
    assert f"nova has no server with the UUID '{SERVER}'" in unknown[1]
    nova = nova_recording(recorded({**hosts, "c": "00000000-0000-4000-8000-00000000000c"}))
    move = ("--for", "migrate", "--to-host", "nova-c")
    _, text = openstack.fails(EXPLAIN, "--server", SERVER, *move, *nova)
    assert "nova-compute on nova-c creates one when it starts" in text
    _, text = openstack.fails(EXPLAIN, "--resource", "VCPU=1", "--to-host", "b", *nova)
    assert "argument --to-host: needs --for" in text
    _, text = openstack.fails(EXPLAIN, "--flavor", "big", "--for", "migrate", *nova)
    assert "argument --for: needs --server" in text
