# SPDX-License-Identifier: Apache-2.0
"""The requests of answers: exact numbers, which the size of the cloud does not change."""

from __future__ import annotations

import collections
import datetime
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.client import transport
from osc_placement.neutron.api import RecordedNeutron
from osc_placement.nova import api
from tests.support.peer import target as targets
from tests.support.rows import nova_recording

SERVERS, MIGRATIONS, SERVICES = "/servers/detail", "/os-migrations", "/os-services"
NODES, AGGREGATES, GROUPS = "/os-hypervisors/detail", "/os-aggregates", "/os-server-groups"
FLAVORS = "/flavors/detail"
DRAIN, ROOM = "placement host drain", "placement capacity make-room"
BALANCE, ROLL = "placement capacity balance", "placement host roll"


class CountedNova(api.RecordedNova, api.SessionNova):
    """A recording that is asked as a service is, and the paths of the requests."""

    def __init__(self, recorded: api.RecordedNova, sent: list[str]) -> None:
        super().__init__(recorded.recorded, recorded.source)
        self.answers, self.sent = transport.Answers(repeats=False), sent
        self._clock_offset = datetime.timedelta()

    def ask(self, path: str, version: str) -> Any:
        return api.SessionNova.ask(self, path, version)

    def _send(self, path: str, version: str) -> Any:
        self.sent.append(path.partition("?")[0])
        return api.RecordedNova.ask(self, path, version)


class Counted:
    """Runs commands on a cloud, and counts the requests to each service."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        self.nova: list[str] = []
        self.neutron: list[str] = []
        read, ask = api.read_recording, RecordedNeutron.ask

        def counted(neutron: RecordedNeutron, path: str) -> Any:
            self.neutron.append(path.partition("?")[0])
            return ask(neutron, path)

        monkeypatch.setattr(api, "read_recording", lambda path: CountedNova(read(path), self.nova))
        monkeypatch.setattr(RecordedNeutron, "ask", counted)

    def start(
        self, cloud: testing.Cloud, answers: Mapping[str, Any] | None = None
    ) -> testing.LoopbackPlacement:
        """A Placement with a cloud; nova's answers are those of the cloud, changed."""
        self.recording = nova_recording(cloud.nova() | (answers or {}))
        return testing.LoopbackPlacement(load=cloud, legacy_rbac=True)

    def run(self, placement: testing.LoopbackPlacement, line: str) -> dict[str, int]:
        """``{request: number}`` to Placement, without that for the version."""
        placement.requests.clear()
        self.ended = targets.run_at(placement.url, line, *self.recording, "-f", "json")
        assert self.ended.code in (0, 3, 4), self.ended
        return {path: number for path, number in placement.count().items() if path != "GET /"}


@pytest.fixture
def counted(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(tmp_path, monkeypatch)


def hosts_of(number: int, vcpus: int) -> testing.Cloud:
    """So many compute hosts of so many VCPU."""
    names = [f"host{host}" for host in range(number)]
    return testing.Cloud("nova-{}").compute(*names, VCPU=vcpus, traits=["COMPUTE_NODE"])


#: Servers of each of the first two hosts.
EACH = 4
ALLOCATIONS = "GET /resource_providers/{}/allocations"
#: What reads all hosts: listings of providers, and requests for the candidates of all.
WIDE = {"GET /resource_providers": 8, "GET /allocation_candidates": 1, "GET /traits": 1}


def of_hosts(number: int) -> dict[str, int]:
    """The requests for so many hosts that are emptied: within 60, 3 per host and 2 per server."""
    expected = {**WIDE, ALLOCATIONS: number, "GET /allocations/{}": number * EACH}
    assert sum(expected.values()) <= 60 + 3 * number + 2 * number * EACH
    return expected


@pytest.mark.parametrize("hosts", [12, 60])
def test_the_requests_to_placement_grow_with_the_hosts_that_are_emptied(
    hosts: int, counted: Counted
) -> None:
    cloud = hosts_of(hosts, 64).flavor("f", vcpus=3, ram=16)
    for number in range(EACH):
        cloud.guest(f"0 {number}", "host0", 3).guest(f"1 {number}", "host1", 3)
    # What needs every server reads no consumer alone, and one host aggregate with one listing.
    wide = {
        "GET /resource_providers": 5,
        "GET /traits": 2,
        "GET /resource_providers/{}/inventories": hosts,
        ALLOCATIONS: hosts,
    }
    retired = {"GET /resource_providers": 1, ALLOCATIONS: 1, "GET /allocations/{}": EACH}
    # No aggregate counts, and no rule about traits.
    spread = {**wide, "GET /resource_providers": 3, "GET /traits": 1}
    # No room is looked for: nothing is asked about the flavors and the traits of their rules.
    without_flavors = {**of_hosts(1), "GET /resource_providers": 6}
    del without_flavors["GET /traits"]
    with counted.start(cloud) as placement:
        for line, expected in {
            f"{DRAIN} host0 --plan-out plan.json": of_hosts(1),
            f"{DRAIN} host0 host1": of_hosts(2),
            f"{DRAIN} --continue plan.json": of_hosts(1),
            f"{DRAIN} --continue plan.json --verify-empty": without_flavors,
            "placement host retire host0 --dry-run": retired,
            f"{DRAIN} host0 --keep 1": wide,
            f"{ROOM} --flavor f": wide,
            f"{ROLL} --all --keep 1": wide,
            f"{ROLL} --all --plan-out roll.json": wide,
            f"{ROLL} --continue roll.json": wide,
            f"{ROLL} --continue roll.json --verify-back": {},
            f"{BALANCE} --keep 1": wide,
            f"{BALANCE} --within 50%": wide,
            "placement capacity show --spread": spread,
        }.items():
            assert counted.run(placement, line) == expected, line


@pytest.mark.parametrize(("hosts", "candidates", "single"), [(20, 1, 20), (60, 2, 12)])
def test_what_changed_since_a_snapshot_takes_a_listing_and_another_reading_of_all_hosts(
    hosts: int, candidates: int, single: int, counted: Counted
) -> None:
    line = "allocation candidate explain --resource VCPU=3"
    with counted.start(hosts_of(hosts, 4)) as placement:
        counted.run(placement, "placement snapshot save then.sqlite")
    now = hosts_of(hosts, 4)
    # Twelve hosts are full now.
    for number in range(12):
        now.server(f"server{number}", {f"host{number}": {"VCPU": 4}})
    with counted.start(now) as placement:
        alone = collections.Counter(counted.run(placement, line))
        both = collections.Counter(counted.run(placement, f"{line} --at then.sqlite"))
    assert both - alone == {
        "GET /resource_providers": 8,
        "GET /allocation_candidates": candidates,
        "GET /resource_providers/{}/inventories": single,
        "GET /resource_providers/{}/usages": single,
    }


#: The VCPUs of each host, and of the flavor that is to fit.
WHOLE = 8


@pytest.mark.parametrize("moves", [0, 1, 2])
@pytest.mark.parametrize(("hosts", "staying"), [(12, 1), (60, 1), (12, 4), (60, 4)])
def test_make_room_sends_as_many_requests_to_nova_whatever_stays(
    hosts: int, staying: int, moves: int, counted: Counted
) -> None:
    """The first host has ``moves`` small servers, the next so many have room for one each.

    The others are full, with ``staying`` servers.
    """
    cloud = hosts_of(hosts, WHOLE).flavor("whole", vcpus=WHOLE)
    for number in range(moves):
        cloud.guest(f"small {number}", "host0").guest(f"{number}", f"host{number + 1}", WHOLE - 1)
    for host in range(moves + 1, hosts):
        for number in range(staying - 1):
            cloud.guest(f"{host} {number}", f"host{host}")
        cloud.guest(f"{host} last", f"host{host}", WHOLE - staying + 1)
    servers = 2 * moves + (hosts - moves - 1) * staying
    with counted.start(cloud) as placement:
        counted.run(placement, f"{ROOM} --flavor whole")
    assert counted.ended.code == 0, counted.ended
    assert len(json.loads(counted.ended.stdout)["moves"]) == moves
    # For the flavor, for all servers, and for those that move.
    questions = 2 + (moves > 0)
    assert collections.Counter(counted.nova) == {
        **dict.fromkeys((FLAVORS, SERVICES, NODES, MIGRATIONS, SERVERS), 1),
        "/": questions,
        AGGREGATES: questions + 1,
        GROUPS: questions - 1,
    }
    # The ports of all servers, 64 in a request, and of those that move.
    ports = -(-servers // 64) + (moves > 0)
    assert collections.Counter(counted.neutron) == {"/ports": ports}


#: One listing of what each host check reads.
_HOSTS = {SERVICES: 1, NODES: 1, MIGRATIONS: 1}
_CHECK = {**_HOSTS, SERVERS: 1, AGGREGATES: 1, GROUPS: 1, "/": 1}
#: Servers and deleted servers.
_AUDIT = {**_HOSTS, SERVERS: 2}


@pytest.mark.parametrize("count", [2, 30])
def test_the_requests_to_nova_are_those_of_listings_while_servers_move(
    count: int, counted: Counted
) -> None:
    cloud = testing.Cloud("nova-{}").compute("full", "target", VCPU=99, traits=["COMPUTE_NODE"])
    for number in range(count):
        server, move = f"s{number}", f"m{number}"
        cloud.server(server, {"target": {"VCPU": 3}}).server(move, {"full": {"VCPU": 3}})
        cloud.instance(server, "full", vcpus=3, task_state="migrating")
        cloud.migration(move, server, "full", "target", updated_at="2026-11-01T12:00:00")
    servers = cloud.nova()[f"GET /v2.1{SERVERS}"]["servers"]
    listed = {f"uuid={server['id']}": [server] for server in servers}
    listed |= {"host=nova-target": []}
    answers = {
        **{f"GET /v2.1{SERVERS}?{key}": {"servers": some} for key, some in listed.items()},
        "GET /v2.0/ports": {"ports": []},
        "GET /v2.0/agents": {"agents": []},
    }
    with counted.start(cloud, answers) as placement:
        for line, expected in {
            "placement host check full": _CHECK,
            # The servers that move there are not its own: up to five one each, or one listing.
            "placement host check target": {**_CHECK, SERVERS: 3 if count <= 5 else 2},
            "placement allocation audit": _AUDIT,
            "placement allocation heal --dry-run": {**_HOSTS, SERVERS: 1},
            # Each area needs the hosts, which are read once.
            "placement health show": {**_AUDIT, AGGREGATES: 1, FLAVORS: 1, "/": 1},
        }.items():
            counted.nova.clear()
            counted.run(placement, line)
            assert counted.ended.code in (0, 3), counted.ended
            assert collections.Counter(counted.nova) == expected, line


@pytest.mark.parametrize("servers", [3, 200])
def test_the_check_of_servers_sends_the_same_requests_for_each_cloud(
    servers: int, counted: Counted
) -> None:
    cloud = hosts_of(2, 512)
    for number in range(servers):
        cloud.guest(f"{number}", "host0")
    with counted.start(cloud) as placement:
        # Neither a host with the trait of nova 34, nor one with a virtual TPM.
        sent = counted.run(placement, "placement server check")
    assert sent == {"GET /resource_providers": 1, "GET /traits": 1}
    of_nova = collections.Counter(counted.nova)
    assert of_nova == {"/": 1, SERVERS: 1, SERVICES: 1, NODES: 1, AGGREGATES: 1}
    assert len(counted.neutron) == -(-servers // 64)
