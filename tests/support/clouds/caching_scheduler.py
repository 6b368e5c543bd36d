# SPDX-License-Identifier: Apache-2.0
"""A cloud of any size that ran the caching scheduler: Placement and nova's responses.

Of ten servers, two have the right allocations, one has a placeholder owner, seven have none.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from osc_placement.client import api
from osc_placement.model import allocation, inventory
from tests.support.clouds.compute_services import compute_hosts
from tests.support.embedded import uuid_of

ZERO = "00000000-0000-0000-0000-000000000000"
OWNERS = (("acme", "alice"), ("acme", "bob"), ("globex", "carol"))
FLAVOR = {"vcpus": 1, "ram": 512, "disk": 10, "ephemeral": 0, "swap": 0, "extra_specs": {}}
USES = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}


@dataclasses.dataclass
class OldCloud:
    """``answers`` are the responses for ``RecordedNova``; a test may change them."""

    client: api.Client
    hosts: int = 3
    servers: int = 30
    answers: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [self.host(number) for number in range(self.hosts)]
        for name in names:
            self.client.create_provider(name, uuid_of(name))
            offers = {each: inventory.Inventory(total=100000) for each in USES}
            self.client.replace_inventories(uuid_of(name), 0, offers)
        self.listed = [self.server(number) for number in range(self.servers)]
        self.migrations: list[dict[str, Any]] = []
        self.answers.update(
            {
                **compute_hosts((name, name, uuid_of(name)) for name in names),
                "GET /servers/detail?all_tenants=1": {"servers": self.listed},
                "GET /os-migrations": {"migrations": self.migrations},
                "GET /os-aggregates": {"aggregates": []},
            }
        )
        self.client.write_allocations(self._present())

    def host(self, number: int) -> str:
        return f"cmp-{number % self.hosts:04d}"

    def server(self, number: int) -> dict[str, Any]:
        host, (project, user) = self.host(number), OWNERS[number % len(OWNERS)]
        return {
            "id": uuid_of(f"vm-{number:04d}"),
            "name": f"vm-{number:04d}",
            "tenant_id": project,
            "user_id": user,
            "OS-EXT-SRV-ATTR:host": host,
            "OS-EXT-SRV-ATTR:hypervisor_hostname": host,
            "OS-EXT-STS:vm_state": "active",
            "OS-EXT-STS:task_state": None,
            "OS-EXT-STS:power_state": 1,
            "status": "ACTIVE",
            "flavor": dict(FLAVOR),
            "image": {"id": "an image", "properties": {}},
            "created": "2017-08-01T00:00:00Z",
            "updated": "2017-08-01T00:00:00Z",
        }

    def _present(self) -> list[allocation.Consumer]:
        return [
            self.consumer(number, ("ZERO", ZERO) if number % 10 == 2 else None)
            for number in range(self.servers)
            if number % 10 < 3
        ]

    def consumer(self, number: int, owner: tuple[str, str] | None = None) -> allocation.Consumer:
        """The right consumer of a server, with another owner if one is given."""
        project, user = owner or OWNERS[number % len(OWNERS)]
        allocations = {uuid_of(self.host(number)): USES}
        uuid = uuid_of(f"vm-{number:04d}")
        return allocation.Consumer(uuid, allocations, project, user, None, "INSTANCE")

    def migration(self, name: str, of: str, status: str, kind: str = "migration") -> dict[str, Any]:
        """A migration of a server by its name, as nova lists it."""
        ends = dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"))
        move = {"uuid": uuid_of(name), "instance_uuid": uuid_of(of), "status": status, **ends}
        times = {"created_at": "2026-01-01", "updated_at": None}
        return {**move, **times, "migration_type": kind}

    def moves(self, number: int, **fields: Any) -> None:
        """Change the fields of a server that nova reports."""
        self.listed[number] |= fields
