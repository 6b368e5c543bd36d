# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement.engine import state
from osc_placement.nova import values
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from tests.support.candidates import clouds
from tests.support.clouds import large


class CountedNova:
    """A nova that lists some servers on each page, and keeps the paths of its requests."""

    source = ""

    def __init__(
        self,
        servers: Sequence[Mapping[str, Any]] = (),
        migrations: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.paths: list[str] = []
        self.servers, self.migrations = servers, migrations

    def ask(self, path: str, version: str) -> Any:
        self.paths.append(path.partition("?")[0])
        if path.startswith("/os-migrations"):
            return {"migrations": self.migrations}
        return {"servers": [] if "host=left" in path else self.servers}


def test_at_rest_the_moves_take_one_listing_and_none_for_a_server() -> None:
    recording = "recorded.json"
    for source, number, listings in (
        ("", 1, 1), ("", 5, 5), ("", 6, 1), ("", 200, 1), (recording, 1, 1), (recording, 5, 1)
    ):  # fmt: skip
        nova = CountedNova()
        nova.source = source
        hosts = {f"host {at}" for at in range(number)}
        nova_servers.list_servers_on(nova, Cloud(values.Hosts(), {}), hosts, ())
        assert nova.paths == ["/servers/detail"] * listings + ["/os-migrations"]


@pytest.mark.parametrize("number", [1, 6])
def test_servers_of_other_hosts_are_left_out_of_a_listing(number: int) -> None:
    nova = large.LargeCloud(10, 0, 20).nova()
    [listed] = [body["servers"] for path, body in nova.items() if path.endswith("all_tenants=1")]
    of_down_cell = {"id": "00000000-0000-4000-8000-000000000001", "status": "UNKNOWN"}
    hosts = {f"host-{at:05}" for at in range(number)}
    on_hosts = {each["id"] for each in listed if each["OS-EXT-SRV-ATTR:host"] in hosts}
    [consumer, *_] = [each["id"] for each in listed if each["id"] not in on_hosts]
    asked = CountedNova([*listed, of_down_cell])
    found = Cloud(values.Hosts(), {})
    nova_servers.list_servers_on(asked, found, hosts, [consumer])
    assert len(on_hosts) == 2 * number
    assert {*found.servers} == {*on_hosts, consumer, of_down_cell["id"]}


@pytest.mark.parametrize(
    ("move_type", "status", "is_read"),
    [
        ("migration", "error", True),
        ("resize", "failed", True),
        ("resize", "confirmed", False),
        # Placement's allocations show which of these may be on the destination.
        ("live-migration", "error", False),
        ("live-migration", "running", True),
    ],
)
@pytest.mark.parametrize("has_server", [True, False])
def test_a_server_that_may_have_left_its_disk_is_read(
    move_type: str, status: str, is_read: bool, has_server: bool
) -> None:
    """Nova shows a server on its destination whose cold migration failed there."""
    nova = large.LargeCloud(10, 0, 20).nova()
    [listed] = [body["servers"] for path, body in nova.items() if path.endswith("all_tenants=1")]
    server = listed[0]
    host, node = server["OS-EXT-SRV-ATTR:host"], server["OS-EXT-SRV-ATTR:hypervisor_hostname"]
    move = {
        "uuid": "m", "instance_uuid": server["id"] if has_server else None,
        "migration_type": move_type, "status": status, "source_compute": "left",
        "source_node": "left", "dest_compute": host, "dest_node": node, "updated_at": "",
        "created_at": "",
    }  # fmt: skip
    asked = CountedNova([server], [move])
    found = Cloud(values.Hosts(), {})
    nova_servers.list_servers_on(asked, found, {"left"}, ())
    assert {*found.servers} == ({server["id"]} if is_read and has_server else set())
    assert len(asked.paths) == 2 + (is_read and has_server)


def cloud(hosts: int, per_host: int) -> tuple[state.CloudState, ServerHosts]:
    """Hosts h0, h1, ... of nodes n0, n1, ... with servers of 1 VCPU each in Placement."""
    nodes = tuple(values.ComputeNode(f"u{n}", f"n{n}", f"h{n}") for n in range(hosts))
    placed = {f"s{number}": f"u{number % hosts} 1" for number in range(hosts * per_host)}
    base = clouds.cloud(*(clouds.provider(it.uuid, VCPU=64) for it in nodes), servers=placed)
    services = tuple(values.ComputeService(node.host) for node in nodes)
    return base, ServerHosts(values.Hosts(nodes, services))


def on_host(name: str, host: int | str) -> values.Server:
    return values.Server(name, host=f"h{host}", node=f"n{host}", vm_state="active", status="ACTIVE")


def standing(
    base: state.CloudState, compute: ServerHosts, *servers: values.Server
) -> nova_servers.ServersByState:
    assert compute.hosts is not None
    read = Cloud(compute.hosts, {}, servers={server.uuid: server for server in servers})
    nova_servers.add_placement(read, base)
    return nova_servers.servers_by_state(read, [node.uuid for node in compute.hosts.nodes])


def test_the_move_of_each_server_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    base, compute = cloud(5, 4)
    found: list[str] = []
    find = server_moves.move_of

    def counted(reading: Cloud, server: values.Server) -> server_moves.ServerMove:
        found.append(server.uuid)
        return find(reading, server)

    monkeypatch.setattr(server_moves, "move_of", counted)
    servers = [on_host(f"s{number}", number % 5) for number in range(20)]
    by_state = standing(base, compute, *servers)
    assert sorted(found) == sorted(server.uuid for server in servers)
    assert by_state.resting.keys() == {(f"s{number}", f"u{number % 5}") for number in range(20)}
    assert not by_state.gone


def test_a_server_is_gone_from_a_host_only_if_nova_lists_its_new_one() -> None:
    base, compute = cloud(2, 1)
    by_state = standing(base, compute, on_host("s0", 1), on_host("s1", 1))
    assert by_state.gone == {("s0", "u0")}
    by_state = standing(base, compute, on_host("s0", "-unlisted"), on_host("s1", 1))
    assert not by_state.gone
    (doubt,) = by_state.doubtful.items()
    assert doubt == (
        ("s0", "u0"),
        "server s0: nova has it on h-unlisted, and lists no compute node of this host",
    )
