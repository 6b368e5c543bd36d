# SPDX-License-Identifier: Apache-2.0
"""``placement host check``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.clouds import compute_services
from tests.support.functional_cloud import (
    AGGREGATE,
    allocate,
    compute_hosts,
    create,
    nova_recording,
)
from tests.support.peer.shell import OpenStack

STOP = "placement host check"

Judged = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def servers(openstack: OpenStack) -> dict[str, str]:
    """Three hosts with 8 VCPU each; the servers of two of them use 3 and 6."""
    hosts = [create(openstack, f"host{number}", VCPU=8) for number in range(3)]
    for host in hosts[:2]:
        openstack("resource provider aggregate add", host, "--aggregate", AGGREGATE)
    return {
        "small": allocate(openstack, hosts[0], "VCPU=3"),
        "large": allocate(openstack, hosts[1], "VCPU=6"),
    }


@pytest.fixture
def judged(openstack: OpenStack) -> Judged:
    """The exit code and the answer; without arguments for nova, of a cloud without nova."""

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        alone = () if "--os-nova-recording" in arguments else ("--no-nova",)
        outcome = openstack.run(STOP, *dict.fromkeys((*arguments, *alone)), "-f", "json")
        return outcome.code, json.loads(outcome.stdout)

    return run


def test_a_host_may_stop_if_its_servers_fit_elsewhere(
    judged: Judged, servers: dict[str, str]
) -> None:
    code, found = judged("host0")
    assert (code, found["answer"], found["hosts"]) == (0, "yes", ["host0"])
    assert (found["servers"], found["unplaced"]) == (1, [])


def test_a_no_names_the_servers(judged: Judged, servers: dict[str, str]) -> None:
    code, found = judged("host0", "host1")
    assert (code, found["answer"]) == (3, "no")
    (stranded,) = found["unplaced"]
    assert (stranded["server"], stranded["host"]) == (servers["large"], "host1")
    assert found["reason"] == "9 VCPU are needed, and there is room for 6"


def test_a_largest_set_of_an_aggregate_is_found(judged: Judged, servers: dict[str, str]) -> None:
    code, found = judged("--aggregate", AGGREGATE, "--max-count", "2")
    assert (code, found["answer"]) == (0, "yes")
    assert found["hosts"] in (["host0"], ["host1"])


@pytest.mark.parametrize("state", [state for state in compute_services.STATES if state != "up"])
def test_a_host_that_takes_no_server_is_not_counted(
    state: str, openstack: OpenStack, judged: Judged
) -> None:
    uuids = {name: create(openstack, name, VCPU=8) for name in ("full", "target")}
    allocate(openstack, uuids["full"], "VCPU=3")
    states = {uuids["full"]: "up", uuids["target"]: state}
    names = {uuid: name for name, uuid in uuids.items()}
    nova = nova_recording(compute_services.answers(states, names))
    code, found = judged("full", *nova)
    assert (code, found["answer"], found["servers"], len(found["unplaced"])) == (3, "no", 1, 1)
    ((host, reason),) = (each.values() for each in found["not_counted"])
    assert (host, bool(reason)) == ("target", True)
    assert found["unplaced"][0]["reasons"] == ["only hosts that take no server have room: target"]
    # nova's name of the host, which no provider has.
    assert judged("nova-0", *nova)[1]["hosts"] == ["full"]
    code, found = judged("full", "--no-nova")
    assert (code, found["answer"], found["not_counted"]) == (0, "yes", [])
    assert any(text.startswith("compute services: ") for text in found["not_checked"])


@pytest.mark.parametrize("state", ["cell down", "no node"])
def test_servers_of_a_host_that_nova_does_not_list_make_the_answer_unknown(
    state: str, openstack: OpenStack, judged: Judged
) -> None:
    uuids = {name: create(openstack, name, VCPU=8) for name in ("full", "free", "target")}
    for name in ("full", "free"):
        allocate(openstack, uuids[name], "VCPU=3")
    states = dict.fromkeys(uuids.values(), "up") | {uuids["full"]: state}
    nova = nova_recording(
        compute_services.answers(states, {uuid: name for name, uuid in uuids.items()})
    )
    code, found = judged("full", *nova)
    assert (code, found["answer"], found["unplaced"]) == (4, "unknown", [])
    assert found["reason"].startswith("the servers of full: nova lists no compute node")
    code, found = judged("full", "free", "--max-count", "2", *nova)
    assert (code, found["answer"], found["hosts"]) == (4, "unknown", ["free"])
    assert "which nova does not list" in found["reason"]


def server(uuid: str, host: str, **fields: Any) -> dict[str, Any]:
    """A server on the only node of nova's host ``nova-…``, as nova shows it."""
    return {
        "id": uuid, "name": uuid[-2:], "tenant_id": "p", "user_id": "u", "status": "ACTIVE",
        "OS-EXT-SRV-ATTR:host": f"nova-{host}", "OS-EXT-SRV-ATTR:hypervisor_hostname": host,
        "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None, "image": "",
        "flavor": {
            "vcpus": 3, "ram": 0, "disk": 0, "ephemeral": 0, "swap": 0, "extra_specs": {},
            "original_name": "f",
        },
        "created": "", "updated": "", "pinned_availability_zone": None, **fields,
    }  # fmt: skip


def test_servers_without_allocations_make_the_answer_unknown(
    openstack: OpenStack, judged: Judged
) -> None:
    uuids = {name: create(openstack, name, VCPU=8) for name in ("full", "target")}
    known, missing, away, leaving, elsewhere = (
        f"00000000-0000-4000-8000-0000000000c{number}" for number in range(5)
    )
    allocate(openstack, uuids["full"], "VCPU=3", known)
    for uuid in (away, leaving, elsewhere):
        allocate(openstack, uuids["target"], "VCPU=1", uuid)
    servers = [
        server(known, "full"),
        server(missing, "full"),
        server(away, "full"),
        server(leaving, "full", **{"OS-EXT-STS:task_state": "migrating"}),
        server(elsewhere, "target"),
    ]
    nova = nova_recording(
        {**compute_hosts(uuids), "GET /v2.1/servers/detail": {"servers": servers}}
    )
    code, found = judged("full", *nova)
    assert (code, found["answer"], found["servers"]) == (3, "no", 4)
    assert found["without_allocations"] == [missing, away]
    heal = "1 server without allocations: openstack placement allocation heal --host=nova-full"
    audit = "1 server with allocations on other hosts only: openstack placement allocation audit"
    assert heal in found["not_checked"]
    assert any(text.startswith(audit) for text in found["not_checked"])
    # A task of a move without a migration: nova alone knows where it goes.
    assert [each["server"] for each in found["unplaced"]] == [leaving]
    allocate(openstack, uuids["full"], "VCPU=3", missing)
    allocate(openstack, uuids["full"], "VCPU=2", away)
    code, found = judged("full", *nova)
    assert (code, found["answer"], found["servers"]) == (3, "no", 4)


def test_a_migration_that_nova_lists_is_no_server(openstack: OpenStack, judged: Judged) -> None:
    uuids = {name: create(openstack, name, VCPU=8) for name in ("source", "target")}
    mover, migration, gone = (f"00000000-0000-4000-8000-0000000000c{number}" for number in range(3))
    allocate(openstack, uuids["target"], "VCPU=3", mover)
    # Nova sets no consumer type.
    for uuid in (migration, gone):
        allocate(openstack, uuids["source"], "VCPU=3", uuid)
    moving = server(mover, "source", **{"OS-EXT-STS:task_state": "migrating"})
    answers = {**compute_hosts(uuids), "GET /v2.1/servers/detail": {"servers": [moving]}}
    move = {
        "uuid": migration, "instance_uuid": mover, "migration_type": "live-migration",
        "status": "running", "source_compute": "nova-source", "source_node": "source",
        "dest_compute": "nova-target", "dest_node": "target", "updated_at": "", "created_at": "",
    }  # fmt: skip
    listed = {**answers, "GET /v2.1/os-migrations": {"migrations": [move]}}
    for host in ("source", "target"):
        code, found = judged(host, *nova_recording(listed))
        assert (code, found["answer"]) == (3, "no")
        ((reason,),) = (each["reasons"] for each in found["unplaced"] if each["server"] == mover)
        assert reason.startswith("its live-migration is running (from nova-source to nova-target")
        assert f"nova-{host} must not stop: the guest or its data" in reason
    lost = (
        f"traits, zones and aggregates of server {gone}, which nova does not list:"
        " 'openstack placement allocation audit' says what they are"
    )
    assert lost in judged("source", *nova_recording(listed))[1]["not_checked"]


def test_without_a_right_for_what_can_make_it_no_a_yes_is_unknown(
    openstack: OpenStack, judged: Judged
) -> None:
    uuids = {name: create(openstack, name, VCPU=8) for name in ("full", "target")}
    answers = compute_hosts(uuids)
    assert judged("full", *nova_recording(answers))[0] == 0
    for path in ("GET /v2.1/os-migrations", "GET /v2.1/servers/detail"):
        code, found = judged("full", *nova_recording({**answers, path: None}))
        assert (code, found["answer"]) == (4, "unknown")
        assert found["reason"].startswith("the servers on these hosts and their moves: ")


@pytest.mark.parametrize(
    ("on_server", "on_node", "reason"),
    [
        ({"OS-EXT-STS:vm_state": "rescued"}, {}, "nova does not migrate a server that is rescued"),
        (
            {"OS-EXT-STS:task_state": "rebooting"},
            {},
            "nova does not migrate it while its task is rebooting",
        ),
        ({}, {"hypervisor_type": "ironic"}, "nova does not migrate a server of an Ironic node"),
    ],
)
def test_a_host_with_a_server_that_nova_does_not_migrate_may_not_stop(
    on_server: dict[str, str],
    on_node: dict[str, str],
    reason: str,
    openstack: OpenStack,
    judged: Judged,
) -> None:
    uuids = {name: create(openstack, name, VCPU=8) for name in ("full", "free", "target")}
    staying = allocate(openstack, uuids["full"], "VCPU=1")
    movable = allocate(openstack, uuids["free"], "VCPU=1")
    answers = compute_hosts(uuids)
    answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"][0].update(on_node)
    listed = [server(staying, "full", **on_server), server(movable, "free")]
    nova = nova_recording({**answers, "GET /v2.1/servers/detail": {"servers": listed}})
    code, found = judged("full", *nova)
    assert (code, found["answer"], found["servers"]) == (3, "no", 1)
    (stranded,) = found["unplaced"]
    assert (stranded["server"], stranded["host"], stranded["reasons"]) == (
        staying,
        "full",
        [reason],
    )
    code, found = judged("full", "free", "--max-count", "2", *nova)
    assert (code, found["answer"], found["hosts"]) == (0, "yes", ["free"])
    code, found = judged("full", "--max-count", "1", *nova)
    assert (code, found["answer"], found["hosts"]) == (3, "no", ["full"])
    shown = openstack.run("placement capacity show", "--resource", "VCPU=1", "--keep", "1", *nova)
    assert shown.code == 4
    # A line of the summary may be wrapped.
    text = " ".join((shown.stdout + shown.stderr).split())
    assert f"Not checked: whether nova moves server {staying}:" in text


def test_a_strict_answer_is_complete(openstack: OpenStack, servers: dict[str, str]) -> None:
    # A yes without nova is Placement's alone: it counts only where the operator asks for it.
    assert openstack.run(STOP, "host0").code == 4
    assert openstack.run(STOP, "host0", "--no-nova").code == 0
    assert openstack.run(STOP, "host0", "--no-nova", "--strict").code == 4
    assert openstack.run(STOP, "host0", "host1", "--strict").code == 3
