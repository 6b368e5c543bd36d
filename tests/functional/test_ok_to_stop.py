"""``placement host ok-to-stop``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.functional_cloud import AGGREGATE, allocate, create, empty_nova
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack

STOP = "placement host ok-to-stop"

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
def judged(openstack: OpenStack, target: targets.Target) -> Judged:
    """The exit code and the answer; of a service with a nova without servers."""
    nova = empty_nova(target)

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        outcome = openstack.run(STOP, *arguments, *nova, "-f", "json")
        return outcome.code, json.loads(outcome.stdout)

    return run


def test_a_yes_has_a_place_for_each_server(judged: Judged, servers: dict[str, str]) -> None:
    code, found = judged("host0")
    assert (code, found["answer"], found["hosts"]) == (0, "yes", ["host0"])
    (move,) = found["moves"]
    assert (move["server"], move["from"], move["to"]) == (servers["small"], "host0", "host2")
    assert list(move["allocations"].values()) == [{"VCPU": 3}]


def test_a_no_names_the_servers(judged: Judged, servers: dict[str, str]) -> None:
    code, found = judged("host0", "host1")
    assert (code, found["answer"]) == (3, "no")
    (stranded,) = found["unplaced"]
    assert (stranded["server"], stranded["host"]) == (servers["large"], "host1")
    assert found["reason"] == "9 VCPU are needed, and there is room for 6"


def test_a_largest_set_of_an_aggregate_is_found(judged: Judged, servers: dict[str, str]) -> None:
    code, found = judged("--aggregate", AGGREGATE, "--max", "2")
    assert (code, found["answer"]) == (0, "yes")
    assert found["hosts"] in (["host0"], ["host1"])


def test_an_unknown_host_is_an_error(openstack: OpenStack, target: targets.Target) -> None:
    create(openstack, "host", VCPU=1)
    nova = empty_nova(target)
    assert "No resource provider has the name" in openstack.fails(STOP, "other", *nova)[1]
    assert "has no hosts" in openstack.fails(STOP, "--aggregate", AGGREGATE, *nova)[1]
    assert openstack.fails(STOP)[0] == 2
