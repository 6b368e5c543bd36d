# SPDX-License-Identifier: Apache-2.0
"""A cloud of any size with seeded faults, as documents: Placement's state and nova's responses.

The same numbers give the same cloud. ``tools/benchmark-cloud`` measures commands on 10,000 hosts;
tests count requests on a few.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osc_placement.testing.cloud import complete
from tests.support.clouds.compute_services import compute_hosts

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

#: Seeded faults and their share of the servers.
FAULTS = {"missing": 0.02, "orphaned": 0.005, "doubled": 0.005, "size": 0.005, "owner": 0.005}

#: The share of the hosts that lack the membership in their aggregate.
UNMIRRORED = 0.01

Owner = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Host:
    """A compute host: its provider's UUID, its short name, and its devices' UUIDs."""

    uuid: str
    name: str
    devices: Sequence[str] = ()

    @property
    def node(self) -> str:
        """The name of the provider and of nova's compute node."""
        return f"{self.name}.example.org"


@dataclasses.dataclass(frozen=True)
class Server:
    """A server as nova knows it; ``allocations`` are those that Placement has."""

    uuid: str
    host: Host
    flavor: str
    owner: Owner
    allocations: Mapping[str, Mapping[str, int]]
    #: The owner in Placement.
    recorded_owner: Owner


class LargeCloud:
    """``hosts`` flat hosts and ``nested`` ones with devices, with ``servers`` servers.

    ``seeded``: ``{fault: UUIDs of the consumers with it}``; ``unmirrored``: the hosts that lack
    the membership in their aggregate.
    """

    def __init__(self, hosts: int, nested: int, servers: int) -> None:
        self._random = random.Random(f"{hosts} {nested} {servers}")
        self.hosts = [Host(self._uuid(), f"host-{number:05}") for number in range(hosts)]
        self.hosts += [
            Host(self._uuid(), f"nested-{number:05}", [self._uuid() for _ in range(DEVICES)])
            for number in range(nested)
        ]
        self.aggregates = [
            (self._uuid(), self.hosts[start : start + AGGREGATE_SIZE])
            for start in range(0, len(self.hosts), AGGREGATE_SIZE)
        ]
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
        self.servers = self._seed([self._server(number) for number in range(servers)])
        self.orphans = self._orphans(round(servers * FAULTS["orphaned"]))

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _sample(self, values: Sequence[Any], count: int) -> list[Any]:
        return self._random.sample(values, count)

    def _server(self, number: int) -> Server:
        host = self.hosts[number % len(self.hosts)]
        flavor = self._random.choice(list(FLAVORS))
        owner = self._random.choice(self._owners)
        return Server(self._uuid(), host, flavor, owner, {host.uuid: amounts(flavor)}, owner)

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
        other = self._random.choice([each for each in self.hosts[:50] if each != server.host])
        doubled = {**server.allocations, other.uuid: amounts(server.flavor)}
        return dataclasses.replace(server, allocations=doubled)

    def _resized(self, server: Server) -> Server:
        held = {name: amount + 1 for name, amount in amounts(server.flavor).items()}
        return dataclasses.replace(server, allocations={server.host.uuid: held})

    def _of_other_owner(self, server: Server) -> Server:
        """With a later owner in Placement: no servers exchange owners, which no sum can show."""
        later = self._owners[self._owners.index(server.owner) + 1 :]
        unknown = (self._uuid().replace("-", ""), self._uuid().replace("-", ""))
        return dataclasses.replace(server, recorded_owner=self._random.choice([*later, unknown]))

    def _orphans(self, count: int) -> list[Server]:
        """Consumers of deleted servers, which nova does not know any more."""
        found = [self._server(number) for number in self._sample(range(10 * count), count)]
        self.seeded["orphaned"] = sorted(server.uuid for server in found)
        return found

    def document(self) -> dict[str, Any]:
        """Placement's state, as ``osc-placement-server --load`` reads it."""
        consumers = {
            server.uuid: {
                "allocations": server.allocations,
                "project": server.recorded_owner[0],
                "user": server.recorded_owner[1],
            }
            for server in (*self.servers, *self.orphans)
            if server.allocations
        }
        return complete({"providers": dict(self._providers()), "consumers": consumers})

    def _providers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        members = {host.uuid: aggregate for aggregate, hosts in self.aggregates for host in hosts}
        for host in self.unmirrored:
            del members[host.uuid]
        for host in self.hosts:
            aggregates = [members[host.uuid]] if host.uuid in members else []
            own = {"inventories": INVENTORIES, "traits": TRAITS, "aggregates": aggregates}
            yield host.uuid, {"name": host.node, "generation": 3, **own}
            for number, device in enumerate(host.devices):
                name, offers = f"{host.node}_device{number}", {"VGPU": {"total": 1}}
                below = {"name": name, "parent": host.uuid, "generation": 3}
                yield device, {**below, "inventories": offers}

    def nova(self) -> dict[str, Any]:
        """Nova's responses, as ``--os-nova-recording`` reads them; servers in pages of 1000."""
        listing = "GET /v2.1/servers/detail?all_tenants=1"
        ended = sorted(self.servers, key=lambda server: server.uuid)
        pages = [ended[start : start + _PAGE] for start in range(0, len(ended), _PAGE)] or [[]]
        answers: dict[str, Any] = {}
        marker = ""
        for number, page in enumerate(pages):
            body: dict[str, Any] = {"servers": [_listed(server) for server in page]}
            if number + 1 < len(pages):
                body["servers_links"] = [{"rel": "next", "href": "http://nova.example.org"}]
            answers[listing + marker] = body
            marker = f"&marker={page[-1].uuid}" if page else ""
        return {
            **answers,
            f"{listing}&deleted=true": {"servers": []},
            "GET /v2.1/os-migrations": {"migrations": []},
            "GET /v2.1/os-aggregates": {
                "aggregates": [
                    {
                        "id": number,
                        "name": f"rack-{number}",
                        "uuid": aggregate,
                        "hosts": [host.name for host in hosts],
                        "metadata": {"availability_zone": f"az{number % 3}"},
                    }
                    for number, (aggregate, hosts) in enumerate(self.aggregates, start=1)
                ]
            },
            "GET /v2.1/os-server-groups?all_projects=True": {"server_groups": []},
            **compute_hosts((host.name, host.node, host.uuid) for host in self.hosts),
            "GET /v2.1/flavors/detail?is_public=None": {
                "flavors": [_flavor(name) for name in FLAVORS]
            },
            "GET /v2.0/ports": {"ports": []},
            "GET /v3/auth/tokens": {"token": {"catalog": [{"type": "compute"}]}},
        }


def amounts(flavor: str) -> dict[str, int]:
    """What a server of a flavor allocates."""
    return dict(zip(("VCPU", "MEMORY_MB", "DISK_GB"), FLAVORS[flavor], strict=True))


def _listed(server: Server) -> dict[str, Any]:
    """One server of nova's listing."""
    vcpus, ram, disk = FLAVORS[server.flavor]
    sizes = {"vcpus": vcpus, "ram": ram, "disk": disk, "ephemeral": 0, "swap": 0}
    return {
        "id": server.uuid,
        "name": f"server-{server.uuid[:8]}",
        "tenant_id": server.owner[0],
        "user_id": server.owner[1],
        "OS-EXT-SRV-ATTR:host": server.host.name,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host.node,
        "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:task_state": None,
        "OS-EXT-STS:power_state": 1,
        "os-extended-volumes:volumes_attached": [],
        "status": "ACTIVE",
        "flavor": {"original_name": server.flavor, "extra_specs": {}, **sizes},
        "image": {"id": "6d7fbe68-4490-5f94-b2b5-6bb1e6144025", "properties": {}},
        "created": "2025-08-01T01:56:00Z",
        "updated": "2025-08-01T01:57:00Z",
    }


def _flavor(name: str) -> dict[str, Any]:
    vcpus, ram, disk = FLAVORS[name]
    return {
        "id": name,
        "name": name,
        "vcpus": vcpus,
        "ram": ram,
        "disk": disk,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "swap": 0,
        "extra_specs": {},
    }
