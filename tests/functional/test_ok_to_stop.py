"""``placement host ok-to-stop``."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.workflows.capacity import count
from tests.support.candidates import cloud_builder, clouds, comparison
from tests.support.capacity import brute_force
from tests.support.functional_cloud import AGGREGATE, allocate, create, empty_nova, send_to
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack

STOP = "placement host ok-to-stop"

Judged = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def first_generation() -> int:
    """The generation with which ``comparison.seed`` writes."""
    return 0


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


@pytest.mark.seeds(6, long=60)
def test_the_moves_of_a_yes_can_be_made(seed: int, judged: Judged, target: targets.Target) -> None:
    draw = random.Random(f"moves {seed}")
    base = brute_force.small_state(draw)
    queries = [cloud_builder.draw_query(draw, base, microversion.MAXIMUM) for _ in range(6)]
    base, _ = brute_force.with_servers(draw, base, queries)
    comparison.seed(base, send_to(target))
    hosts = count.hosts_of(base)
    code, found = judged(*hosts, "--max", str(len(hosts)))
    if code == 3:
        return
    assert (code, found["answer"]) == (0, "yes")
    make_moves(target, found["moves"])
    roots = {base.named[name] for name in found["hosts"]}
    for provider in base.providers.values():
        if provider.root_uuid in roots and clouds.SHARES not in provider.traits:
            path = f"/resource_providers/{provider.uuid}/usages"
            assert not any(target.ask("GET", path)["usages"].values())


def make_moves(target: targets.Target, moves: list[dict[str, Any]]) -> None:
    """Replace the allocations of all servers in one request."""
    body = {}
    for move in moves:
        known = target.ask("GET", f"/allocations/{move['server']}", version="1.28")
        body[move["server"]] = {
            "allocations": {
                uuid: {"resources": resources} for uuid, resources in move["allocations"].items()
            },
            "project_id": known["project_id"],
            "user_id": known["user_id"],
            "consumer_generation": known["consumer_generation"],
        }
    if body:
        target.ask("POST", "/allocations", body, "1.28")
