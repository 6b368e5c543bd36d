# SPDX-License-Identifier: Apache-2.0
"""A cloud of any size that ran the caching scheduler: Placement and nova's responses.

Of ten servers, two have the right allocations, one has a placeholder owner, seven have none.
"""

from __future__ import annotations

from typing import Any

from osc_placement import testing
from osc_placement.model import allocation
from osc_placement.testing import nova, uuid_of
from tests.support import embedded

ZERO = "00000000-0000-0000-0000-000000000000"
OWNERS = (("acme", "alice"), ("acme", "bob"), ("globex", "carol"))
FLAVOR = {"vcpus": 1, "ram": 512, "disk": 10, "ephemeral": 0, "swap": 0, "extra_specs": {}}
USES = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}


class OldCloud:
    """``answers`` are the responses for ``RecordedNova``; a test may change them."""

    def __init__(self, hosts: int = 3, servers: int = 30) -> None:
        self.hosts, kit = hosts, testing.Cloud()
        kit.compute(*map(self.host, range(hosts)), **dict.fromkeys(USES, 100000))
        for number in range(servers):
            if number % 10 < 3:
                owner = ("ZERO", ZERO) if number % 10 == 2 else OWNERS[number % len(OWNERS)]
                fields = dict(zip(("project", "user"), owner, strict=True))
                kit.server(f"vm-{number:04d}", {self.host(number): USES}, **fields)
        self.client = embedded.Client(load=kit.document())
        self.answers = kit.nova()
        self.listed = self.answers["GET /v2.1/servers/detail"]["servers"]
        self.listed += map(self.server, range(servers))
        self.migrations = self.answers["GET /v2.1/os-migrations"]["migrations"]

    def host(self, number: int) -> str:
        return f"cmp-{number % self.hosts:04d}"

    def server(self, number: int) -> dict[str, Any]:
        host, (project, user) = self.host(number), OWNERS[number % len(OWNERS)]
        image = {"id": "an image", "properties": {}}
        owner = {"name": f"vm-{number:04d}", "project": project, "user": user, "image": image}
        times = dict.fromkeys(("created", "updated"), "2017-08-01T00:00:00Z")
        uuid = uuid_of(f"vm-{number:04d}")
        return nova.server(uuid, host=host, node=host, flavor=dict(FLAVOR), **owner, **times)

    def consumer(self, number: int, owner: tuple[str, str] | None = None) -> allocation.Consumer:
        """The right consumer of a server, with another owner if one is given."""
        project, user = owner or OWNERS[number % len(OWNERS)]
        allocations = {uuid_of(self.host(number)): USES}
        uuid = uuid_of(f"vm-{number:04d}")
        return allocation.Consumer(uuid, allocations, project, user, None, "INSTANCE")

    def migration(self, name: str, of: str, status: str, kind: str = "migration") -> dict[str, Any]:
        """A migration of a server by its name, as nova lists it."""
        uuids = uuid_of(name), uuid_of(of)
        times = {"created_at": "2026-01-01", "updated_at": None}
        return nova.migration(*uuids, status=status, migration_type=kind, **times)

    def moves(self, number: int, **fields: Any) -> None:
        """Change the fields of a server that nova reports."""
        self.listed[number] |= fields
