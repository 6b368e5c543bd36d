# SPDX-License-Identifier: Apache-2.0
"""The requests to nova while servers move: exact numbers, which their number does not change."""

from __future__ import annotations

import collections
import datetime
import pathlib
from typing import Any

import pytest

from osc_placement.client import transport
from osc_placement.nova import api
from tests.support.functional_cloud import allocate, compute_hosts, create, nova_recording, server
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack

SERVERS, MIGRATIONS, SERVICES = "/servers/detail", "/os-migrations", "/os-services"
NODES, AGGREGATES, GROUPS = "/os-hypervisors/detail", "/os-aggregates", "/os-server-groups"
ZERO = "00000000-0000-4000-8000"


def moving(openstack: OpenStack, count: int) -> tuple[str, str]:
    """So many servers that move live from ``full`` to ``target``; the options for nova."""
    uuids = {name: create(openstack, name, VCPU=99) for name in ("full", "target")}
    answers: dict[str, Any] = compute_hosts(uuids)
    servers, migrations = [], []
    for number in range(count):
        uuid, move = f"{ZERO}-c{number:011}", f"{ZERO}-d{number:011}"
        allocate(openstack, uuids["target"], "VCPU=3", uuid)
        allocate(openstack, uuids["full"], "VCPU=3", move)
        servers.append(server(uuid, "full", **{"OS-EXT-STS:task_state": "migrating"}))
        migrations.append(
            {
                "uuid": move,
                "instance_uuid": uuid,
                "migration_type": "live-migration",
                "status": "running",
                "source_compute": "nova-full",
                "source_node": "full",
                "dest_compute": "nova-target",
                "dest_node": "target",
                "updated_at": "",
                "created_at": "",
            }
        )
    answers["GET /v2.1/os-migrations"] = {"migrations": migrations}
    answers["GET /v2.1/servers/detail"] = {"servers": servers}
    answers["GET /v2.1/servers/detail?host=nova-target"] = {"servers": []}
    answers["GET /v2.1/servers/detail?deleted=true"] = {"servers": []}
    answers["GET /v2.1/flavors/detail"] = {"flavors": []}
    answers |= {
        f"GET /v2.1/servers/detail?uuid={each['id']}": {"servers": [each]} for each in servers
    }
    answers["GET /v2.0/ports"] = {"ports": []}
    answers["GET /v2.0/agents"] = {"agents": []}
    return nova_recording(answers)


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


#: One listing of what each host check reads.
_HOSTS = {SERVICES: 1, NODES: 1, MIGRATIONS: 1}
_CHECK = {**_HOSTS, SERVERS: 1, AGGREGATES: 1, GROUPS: 1, "/": 1}
#: Servers and deleted servers.
_AUDIT = {**_HOSTS, SERVERS: 2}


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize("count", [2, 30])
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("placement host check full", _CHECK),
        # The servers that move there are not among its own: up to five one each, or one listing.
        ("placement host check target", {**_CHECK, SERVERS: 3}),
        ("placement allocation audit", _AUDIT),
        ("placement allocation heal --dry-run", {**_HOSTS, SERVERS: 1}),
        # Each area needs the hosts, which are read once.
        (
            "placement health show",
            {**_AUDIT, AGGREGATES: 1, "/flavors/detail": 1, "/": 1},
        ),
    ],
)
def test_the_requests_to_nova_are_those_of_listings(
    command: str,
    expected: dict[str, int],
    count: int,
    openstack: OpenStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nova = moving(openstack, count)
    sent: list[str] = []
    read = api.read_recording

    def counted(path: pathlib.Path) -> CountedNova:
        return CountedNova(read(path), sent)

    monkeypatch.setattr(api, "read_recording", counted)
    ended = openstack.run(command, *nova)
    assert ended.code in (0, 3), ended.stderr
    if command.endswith("target") and count > 5:
        expected = {**expected, SERVERS: 2}
    assert collections.Counter(sent) == expected
