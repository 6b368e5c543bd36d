# SPDX-License-Identifier: Apache-2.0
"""The requests of make-room to nova and neutron: exact numbers, whatever stays."""

from __future__ import annotations

import collections
import json
import pathlib
import uuid
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.neutron.api import RecordedNeutron
from osc_placement.nova import api
from osc_placement.testing.cloud import complete
from tests.functional.answers.test_requests_of_moves import (
    AGGREGATES,
    GROUPS,
    MIGRATIONS,
    NODES,
    SERVERS,
    SERVICES,
    CountedNova,
)
from tests.support.functional_cloud import compute_hosts, flavor, nova_recording, server
from tests.support.peer import target as targets

#: The VCPUs of each host, and of the flavor that is to fit.
WHOLE = 8


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def cloud(hosts: int, staying: int, moves: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The documents of Placement and of nova.

    The first host has ``moves`` small servers, the next so many hosts have room for one each, and
    the others are full, with ``staying`` servers.
    """
    names = {f"host{number}": uuid_of(f"host{number}") for number in range(hosts)}
    sizes = {f"host0 {number}": 1 for number in range(moves)}
    sizes |= {f"host{number} 0": WHOLE - 1 for number in range(1, moves + 1)}
    for number in range(moves + 1, hosts):
        sizes |= {f"host{number} {one}": 1 for one in range(staying - 1)}
        sizes[f"host{number} last"] = WHOLE - staying + 1
    offered = {"inventories": {"VCPU": {"total": WHOLE}}, "traits": ["COMPUTE_NODE"]}
    document = {
        "providers": {
            own: {"name": name, "generation": 1, **offered} for name, own in names.items()
        },
        "consumers": {
            uuid_of(name): {
                "allocations": {names[name.split()[0]]: {"VCPU": size}},
                "project": "p",
                "user": "u",
            }
            for name, size in sizes.items()
        },
    }
    of_server = server("", "")["flavor"]
    nova = {
        **compute_hosts(names),
        "GET /v2.1/flavors/detail": {"flavors": [{**flavor("whole", WHOLE), "ram": 0}]},
        "GET /v2.1/servers/detail": {
            "servers": [
                server(uuid_of(name), name.split()[0], flavor={**of_server, "vcpus": size})
                for name, size in sizes.items()
            ]
        },
    }
    return document, nova


@pytest.mark.parametrize("moves", [0, 1, 2])
@pytest.mark.parametrize(("hosts", "staying"), [(12, 1), (60, 1), (12, 4), (60, 4)])
def test_make_room_sends_as_many_requests_to_nova_whatever_stays(
    hosts: int, staying: int, moves: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document, answers = cloud(hosts, staying, moves)
    of_nova: list[str] = []
    of_neutron: list[str] = []
    read, ask = api.read_recording, RecordedNeutron.ask

    def counted(neutron: RecordedNeutron, path: str) -> Any:
        of_neutron.append(path.partition("?")[0])
        return ask(neutron, path)

    monkeypatch.setattr(api, "read_recording", lambda path: CountedNova(read(path), of_nova))
    monkeypatch.setattr(RecordedNeutron, "ask", counted)
    recording = nova_recording(answers)
    with testing.LoopbackPlacement(load=complete(document), legacy_rbac=True) as placement:
        ended = targets.run_at(
            placement.url, "placement capacity make-room", "--flavor", "whole", *recording,
            "-f", "json",
        )  # fmt: skip
    assert ended.code == 0, ended
    assert len(json.loads(ended.stdout)["moves"]) == moves
    # For the flavor, for all servers, and for those that move.
    questions = 2 + (moves > 0)
    assert collections.Counter(of_nova) == {
        **dict.fromkeys(("/flavors/detail", SERVICES, NODES, MIGRATIONS, SERVERS), 1),
        **dict.fromkeys(("/", AGGREGATES), questions),
        GROUPS: questions - 1,
    }
    # The ports of all servers, 64 in a request, and of those that move.
    number = len(document["consumers"])
    assert collections.Counter(of_neutron) == {"/ports": -(-number // 64) + (moves > 0)}
