"""``placement host ok-to-stop``."""

from __future__ import annotations

import json

import pytest

from tests.support.functional_cloud import AGGREGATE, allocate, create
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack

STOP = "placement host ok-to-stop"


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


@pytest.fixture(autouse=True)
def _only_a_file(target: targets.Target, openstack: OpenStack) -> None:
    """A service is refused: the command needs every allocation."""
    if target.name != "embedded":
        create(openstack, "live", VCPU=1)
        code, text = openstack.fails(STOP, "live")
        assert (code, "placement snapshot save" in text) == (1, True)


def judged(openstack: OpenStack, *arguments: str) -> tuple[int, dict[str, object]]:
    outcome = openstack.run(STOP, *arguments, "-f", "json")
    return outcome.code, json.loads(outcome.stdout)


def is_file(target: targets.Target) -> bool:
    return target.name == "embedded"


def test_a_yes_has_a_place_for_each_server(
    openstack: OpenStack, target: targets.Target, servers: dict[str, str]
) -> None:
    if is_file(target):
        code, found = judged(openstack, "host0")
        assert (code, found["answer"], found["hosts"]) == (0, "yes", ["host0"])
        (move,) = found["moves"]  # type: ignore[misc]
        assert (move["server"], move["from"], move["to"]) == (servers["small"], "host0", "host2")
        assert list(move["allocations"].values()) == [{"VCPU": 3}]


def test_a_no_names_the_servers(
    openstack: OpenStack, target: targets.Target, servers: dict[str, str]
) -> None:
    if is_file(target):
        code, found = judged(openstack, "host0", "host1")
        assert (code, found["answer"]) == (3, "no")
        (stranded,) = found["unplaced"]  # type: ignore[misc]
        assert (stranded["server"], stranded["host"]) == (servers["large"], "host1")
        assert found["reason"] == "9 VCPU are needed, and there is room for 6"


def test_a_largest_set_of_an_aggregate_is_found(
    openstack: OpenStack, target: targets.Target, servers: dict[str, str]
) -> None:
    if is_file(target):
        code, found = judged(openstack, "--aggregate", AGGREGATE, "--max", "2")
        assert (code, found["answer"]) == (0, "yes")
        assert found["hosts"] in (["host0"], ["host1"])


def test_an_unknown_host_is_an_error(openstack: OpenStack, target: targets.Target) -> None:
    if is_file(target):
        create(openstack, "host", VCPU=1)
        assert "No resource provider has the name" in openstack.fails(STOP, "other")[1]
        assert "has no hosts" in openstack.fails(STOP, "--aggregate", AGGREGATE)[1]
        assert openstack.fails(STOP)[0] == 2
