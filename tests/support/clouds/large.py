# SPDX-License-Identifier: Apache-2.0
"""A cloud of any size with seeded faults, as documents: Placement's state and nova's responses.

The same numbers give the same cloud. ``tools/benchmark-cloud`` measures commands on 10,000 hosts;
tests count requests on a few.
"""

from __future__ import annotations

import dataclasses
import functools
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement.testing.cloud import Cloud, uuid_of

#: Hosts of one host aggregate; devices of a nested host; users of a project.
AGGREGATE_SIZE, DEVICES, USERS = 200, 8, 2

#: Servers of one project.
PROJECT_SIZE = 500

#: Servers of one page: nova's limit.
_PAGE = 1000

TRAITS = ["COMPUTE_NODE", "HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"]
INVENTORIES: dict[str, dict[str, Any]] = {
    "VCPU": {"total": 64, "allocation_ratio": 16.0, "reserved": 2},
    "MEMORY_MB": {"total": 512_000, "reserved": 1024},
    "DISK_GB": {"total": 20_000},
}

#: ``name: (vcpus, ram, disk)``
FLAVORS = {
    "small": (1, 2048, 10),
    "medium": (2, 4096, 20),
    "large": (4, 8192, 40),
    "xlarge": (8, 16_384, 80),
    "compute": (8, 8192, 20),
    "memory": (2, 16_384, 40),
}

_SIZES = ("vcpus", "ram", "disk")

#: Seeded faults and their share of the servers.
FAULTS = {"missing": 0.02, "orphaned": 0.005, "doubled": 0.005, "size": 0.005, "owner": 0.005}

#: The share of the hosts that lack the membership in their aggregate.
UNMIRRORED = 0.01

Owner = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Host:
    """A compute host: its short name, and the number of its devices."""

    name: str
    devices: int = 0

    @property
    def node(self) -> str:
        """The name of the provider and of nova's compute node."""
        return f"{self.name}.example.org"

    @property
    def uuid(self) -> str:
        """The UUID of both."""
        return uuid_of(self.node)


@dataclasses.dataclass(frozen=True)
class Server:
    """A server as nova knows it; ``allocations`` by node are those that Placement has."""

    name: str
    host: Host
    flavor: str
    owner: Owner
    allocations: Mapping[str, Mapping[str, int]]
    #: The owner in Placement.
    recorded_owner: Owner

    @property
    def uuid(self) -> str:
        """The UUID of the server."""
        return uuid_of(self.name)


class LargeCloud:
    """``hosts`` flat hosts and ``nested`` ones with devices, with ``servers`` servers.

    ``seeded``: ``{fault: UUIDs of the consumers with it}``; ``unmirrored``: the hosts that lack
    the membership in their aggregate.
    """

    def __init__(self, hosts: int, nested: int, servers: int) -> None:
        self._random = random.Random(f"{hosts} {nested} {servers}")
        self.hosts = [Host(f"host-{number:05}") for number in range(hosts)]
        self.hosts += [Host(f"nested-{number:05}", DEVICES) for number in range(nested)]
        racks = range(0, len(self.hosts), AGGREGATE_SIZE)
        self._racks = {
            f"rack-{number}": self.hosts[start : start + AGGREGATE_SIZE]
            for number, start in enumerate(racks, 1)
        }
        self.aggregates = [(uuid_of(name), members) for name, members in self._racks.items()]
        self.unmirrored = self._sample(self.hosts, round(len(self.hosts) * UNMIRRORED))
        self._owners = [
            (self._uuid().replace("-", ""), self._uuid().replace("-", ""))
            for _ in range(max(2, servers // PROJECT_SIZE) * USERS)
        ]
        for number in range(0, len(self._owners), USERS):
            project = self._owners[number][0]
            users = [user for _, user in self._owners[number : number + USERS]]
            self._owners[number : number + USERS] = [(project, user) for user in users]
        self.seeded: dict[str, list[str]] = {}
        made = [self._server(f"server-{number}", number) for number in range(servers)]
        self.servers = self._seed(made)
        self.orphans = self._orphans(round(servers * FAULTS["orphaned"]))

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _sample(self, values: Sequence[Any], count: int) -> list[Any]:
        return self._random.sample(values, count)

    def _server(self, name: str, number: int) -> Server:
        host = self.hosts[number % len(self.hosts)]
        flavor = self._random.choice(list(FLAVORS))
        owner = self._random.choice(self._owners)
        return Server(name, host, flavor, owner, {host.node: amounts(flavor)}, owner)

    def _seed(self, servers: list[Server]) -> list[Server]:
        """The servers with faults in disjoint random samples."""
        left = self._sample(range(len(servers)), len(servers))
        for fault, spoil in (
            ("missing", self._without_allocations),
            ("doubled", self._doubled),
            ("size", self._resized),
            ("owner", self._of_other_owner),
        ):
            count = round(len(servers) * FAULTS[fault])
            numbers, left = left[:count], left[count:]
            for number in numbers:
                servers[number] = spoil(servers[number])
            self.seeded[fault] = sorted(servers[number].uuid for number in numbers)
        return servers

    def _without_allocations(self, server: Server) -> Server:
        return dataclasses.replace(server, allocations={})

    def _doubled(self, server: Server) -> Server:
        other = self._random.choice([host for host in self.hosts[:50] if host != server.host])
        doubled = {**server.allocations, other.node: amounts(server.flavor)}
        return dataclasses.replace(server, allocations=doubled)

    def _resized(self, server: Server) -> Server:
        larger = {name: amount + 1 for name, amount in amounts(server.flavor).items()}
        return dataclasses.replace(server, allocations={server.host.node: larger})

    def _of_other_owner(self, server: Server) -> Server:
        """With a later owner in Placement: no servers exchange owners, which no sum can show."""
        later = self._owners[self._owners.index(server.owner) + 1 :]
        unknown = (self._uuid().replace("-", ""), self._uuid().replace("-", ""))
        return dataclasses.replace(server, recorded_owner=self._random.choice([*later, unknown]))

    def _orphans(self, count: int) -> list[Server]:
        """Consumers of deleted servers, which nova does not know any more."""
        places = self._sample(range(10 * count), count)
        gone = [self._server(f"orphan-{number}", number) for number in places]
        self.seeded["orphaned"] = sorted(server.uuid for server in gone)
        return gone

    @functools.cached_property
    def _cloud(self) -> Cloud:
        cloud = Cloud()
        racks = {host: name for name, hosts in self._racks.items() for host in hosts}
        members = {host: [rack] for host, rack in racks.items() if host not in self.unmirrored}
        for host in self.hosts:
            cloud.host(
                host.node, traits=TRAITS, aggregates=members.get(host, ()), **INVENTORIES
            ).node(host.node, host.name)
            for number in range(host.devices):
                cloud.child(host.node, f"{host.node}_device{number}", VGPU=1)
        for server in filter(lambda server: server.allocations, (*self.servers, *self.orphans)):
            project, user = server.recorded_owner
            cloud.server(server.name, server.allocations, project=project, user=user)
        for number, (name, hosts) in enumerate(self._racks.items(), 1):
            zone = f"az{number % 3}"
            cloud.aggregate(name, [host.node for host in hosts], availability_zone=zone)
        for server in sorted(self.servers, key=lambda server: server.uuid):
            cloud.instance(server.name, server.host.node, **_shown(server))
        for name, size in FLAVORS.items():
            cloud.flavor(name, **dict(zip(_SIZES, size, strict=True)))
        return cloud

    def document(self) -> dict[str, Any]:
        """Placement's state, as ``osc-placement-server --load`` reads it."""
        return self._cloud.document()

    def nova(self) -> dict[str, Any]:
        """Nova's responses, as ``--os-nova-recording`` reads them; servers in pages of 1000."""
        listing = "GET /v2.1/servers/detail?all_tenants=1"
        answers = self._cloud.nova()
        servers = answers.pop("GET /v2.1/servers/detail")["servers"]
        marker = ""
        for start in range(0, len(servers) or 1, _PAGE):
            page = servers[start : start + _PAGE]
            answers[listing + marker] = {"servers": page}
            if start + _PAGE < len(servers):
                links = [{"rel": "next", "href": "http://nova.example.org"}]
                answers[listing + marker]["servers_links"] = links
                marker = f"&marker={page[-1]['id']}"
        return {
            **answers,
            f"{listing}&deleted=true": {"servers": []},
            "GET /v2.0/ports": {"ports": []},
            "GET /v3/auth/tokens": {"token": {"catalog": [{"type": "compute"}]}},
        }


def amounts(flavor: str) -> dict[str, int]:
    """What a server of a flavor allocates."""
    return dict(zip(("VCPU", "MEMORY_MB", "DISK_GB"), FLAVORS[flavor], strict=True))


def _shown(server: Server) -> dict[str, Any]:
    """What nova shows of a server, beside its host."""
    return {
        **dict(zip(_SIZES, FLAVORS[server.flavor], strict=True)),
        "flavor": server.flavor,
        "project": server.owner[0],
        "user": server.owner[1],
        "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
        "os-extended-volumes:volumes_attached": [],
        "image": {"id": "6d7fbe68-4490-5f94-b2b5-6bb1e6144025", "properties": {}},
        "created": "2025-08-01T01:56:00Z",
        "updated": "2025-08-01T01:57:00Z",
    }
