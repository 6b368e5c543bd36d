# SPDX-License-Identifier: Apache-2.0
"""The requests to Placement of drain, make-room and retire: exact numbers, at two sizes."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Callable, Iterator

import pytest

from osc_placement import testing
from osc_placement.testing.cloud import complete
from tests.support.functional_cloud import compute_hosts, flavor, nova_recording, server
from tests.support.peer import target as targets

#: Servers of each of the first two hosts.
SERVERS = 4

Counted = Callable[..., dict[str, int]]


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


@pytest.fixture(params=[12, 60])
def hosts(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def counted(
    hosts: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Counted]:
    """Runs a command; ``{request: count}`` without that for the version."""
    monkeypatch.chdir(tmp_path)
    names = {f"host{number}": uuid_of(f"host{number}") for number in range(hosts)}
    servers = {uuid_of(f"{name} {n}"): name for name in ("host0", "host1") for n in range(SERVERS)}
    offered = {"inventories": {"VCPU": {"total": 64}}, "traits": ["COMPUTE_NODE"]}
    document = {
        "providers": {
            own: {"name": name, "generation": 1, **offered} for name, own in names.items()
        },
        "consumers": {
            own: {"allocations": {names[name]: {"VCPU": 3}}, "project": "p", "user": "u"}
            for own, name in servers.items()
        },
    }
    nova = nova_recording(
        {
            **compute_hosts(names),
            "GET /v2.1/flavors/detail": {"flavors": [flavor("f", 3)]},
            "GET /v2.1/servers/detail": {
                "servers": [server(own, name) for own, name in servers.items()]
            },
        }
    )
    with testing.LoopbackPlacement(load=complete(document), legacy_rbac=True) as placement:

        def run(command: str, *arguments: str) -> dict[str, int]:
            placement.requests.clear()
            ended = targets.run_at(placement.url, command, *arguments, *nova, "-f", "json")
            assert ended.code in (0, 3, 4), ended
            return {path: number for path, number in placement.count().items() if path != "GET /"}

        yield run


ALLOCATIONS = "GET /resource_providers/{}/allocations"
#: What reads all hosts: listings of providers, and requests for the candidates of all.
WIDE = {"GET /resource_providers": 8, "GET /allocation_candidates": 1}


def of_hosts(number: int) -> dict[str, int]:
    """The requests for so many hosts that are emptied: within 60, 3 per host and 2 per server."""
    expected = {**WIDE, ALLOCATIONS: number, "GET /allocations/{}": number * SERVERS}
    assert sum(expected.values()) <= 60 + 3 * number + 2 * number * SERVERS
    return expected


def test_a_drain_plan_sends_as_many_requests_whatever_the_number_of_hosts(
    counted: Counted,
) -> None:
    assert counted("placement host drain", "host0", "--plan-out", "plan.json") == of_hosts(1)
    assert counted("placement host drain", "host0", "host1") == of_hosts(2)
    assert counted("placement host drain", "--continue", "plan.json") == of_hosts(1)
    verify = ("--continue", "plan.json", "--verify-empty")
    assert counted("placement host drain", *verify) == of_hosts(1)


def test_a_retired_host_is_read_alone(counted: Counted) -> None:
    assert counted("placement host retire", "host0", "--dry-run") == {
        "GET /resource_providers": 1, ALLOCATIONS: 1, "GET /allocations/{}": SERVERS
    }  # fmt: skip


def test_what_needs_every_record_reads_each_once(counted: Counted, hosts: int) -> None:
    every = {
        "GET /resource_providers": 4,
        "GET /resource_classes": 1,
        "GET /traits": 1,
        "GET /resource_providers/{}/inventories": 2 * hosts,
        **{f"GET /resource_providers/{{}}/{part}": hosts for part in ("traits", "aggregates")},
        ALLOCATIONS: hosts,
        "GET /allocations/{}": 2 * SERVERS,
    }
    assert counted("placement host drain", "host0", "--keep", "1") == every
    assert counted("placement capacity make-room", "--flavor", "f") == every
