# SPDX-License-Identifier: Apache-2.0
"""Random plans of moves, claimed step by step as nova does, with the doubled allocations of moves.

For a step, the migration takes what the server has, and the server claims its target. All steps of
a wave are claimed before the first of them ends. So every prefix of the plan is a state of the
service.
"""

from __future__ import annotations

import json
import pathlib
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from osc_placement import testing
from osc_placement.engine import state
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import document
from tests.support.candidates import clouds, comparison
from tests.support.capacity import drains
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack, Outcome
from tests.support.rows import nova_recording

pytestmark = [
    pytest.mark.parametrize("target", ["placement"], indirect=True),
    pytest.mark.seeds(4, long=200),
]


def body(allocations: Mapping[str, Any], generation: int | None) -> dict[str, Any]:
    return {
        "allocations": {key: {"resources": amounts} for key, amounts in allocations.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
    }


def recording(base: state.CloudState, on_hosts: Mapping[str, str]) -> Sequence[str]:
    """The options with nova's answers; ``on_hosts`` is ``{server: its host}``."""
    cloud = testing.Cloud("nova-{}")
    for root in hosts_of(base):
        cloud.node(base.providers[root].name)
    for server, host in on_hosts.items():
        cloud.instance(server, host, id=server, vcpus=3)
    return nova_recording(cloud.nova())


def begin(target: targets.Target, move: Mapping[str, Any]) -> str:
    """The two writes of nova; the UUID of the migration."""
    migration, path = str(uuid.uuid4()), f"/allocations/{move['server']}"
    now = target.ask("GET", path, version="1.28")
    amounts = {key: part["resources"] for key, part in now["allocations"].items()}
    moved = {
        migration: body(amounts, None),
        move["server"]: body({}, now["consumer_generation"]),
    }
    target.ask("POST", "/allocations", moved, "1.28")
    target.ask("PUT", path, body(move["allocations"], None), "1.28")
    return migration


def carry_out(target: targets.Target, moves: list[dict[str, Any]]) -> None:
    for wave in sorted({move["wave"] for move in moves}):
        running = [begin(target, move) for move in moves if move["wave"] == wave]
        for migration in running:
            target.ask("DELETE", f"/allocations/{migration}")


class Cloud(NamedTuple):
    """A random cloud; ``on_hosts`` is ``{server: its host}``."""

    draw: random.Random
    base: state.CloudState
    on_hosts: dict[str, str]

    def run(self, openstack: OpenStack, command: str, *options: str) -> Outcome:
        """A plan by what nova shows, in plan.json."""
        answers = recording(self.base, self.on_hosts)
        return openstack.run(command, *options, "--plan-out", "plan.json", *answers, "-f", "json")


@pytest.fixture
def cloud(seed: int, request: pytest.FixtureRequest, target: targets.Target) -> Cloud:
    """A random cloud of the seed and of the test, in the service."""
    draw = random.Random(f"{request.function.__name__} {seed}")
    base = drains.draw_cloud(draw, draw.choice(drains.SHAPES))
    comparison.seed(base, target)
    on_hosts = {item.uuid: base.providers[item.root_uuid].name for item in drains.placed(base)}
    return Cloud(draw, base, on_hosts)


def test_every_prefix_of_a_drain_can_be_claimed(
    cloud: Cloud, openstack: OpenStack, record_property: Callable[[str, object], None]
) -> None:
    draw, target = cloud.draw, openstack.target
    hosts = {cloud.base.providers[root].name: root for root in hosts_of(cloud.base)}
    drained = draw.sample(sorted(hosts), draw.randint(1, max(len(hosts) - 1, 1)))
    options = ["--parallel", str(draw.choice((1, 2, 3)))]
    ended = cloud.run(openstack, "placement host drain", *drained, *options)
    if len(drained) == len(hosts):
        assert ended.code == 1
        return
    plan = json.loads(pathlib.Path("plan.json").read_text())
    record_property("moves", len(plan["moves"]))
    carry_out(target, plan["moves"])
    staying = {server["server"] for server in plan["blocked"]}
    for name in drained:
        for root in cloud.base.tree[hosts[name]]:
            if clouds.SHARES not in cloud.base.providers[root].traits:
                path = f"/resource_providers/{root}/allocations"
                assert target.ask("GET", path)["allocations"].keys() <= staying


def test_every_prefix_of_a_balance_can_be_claimed_and_the_cloud_is_even_then(
    cloud: Cloud, openstack: OpenStack, record_property: Callable[[str, object], None]
) -> None:
    draw = cloud.draw
    line = ["placement capacity balance", "--within", draw.choice(("5%", "20%", "40%"))]
    line += ["--parallel", str(draw.choice((1, 2, 3)))]
    ended = cloud.run(openstack, *line)
    if ended.code == 1:
        assert "an even cloud needs two hosts" in ended.stderr
        return
    plan = json.loads(pathlib.Path("plan.json").read_text())
    record_property("moves", len(plan["moves"]))
    carry_out(openstack.target, plan["moves"])
    for move in plan["moves"]:
        cloud.on_hosts[move["server"]] = move["target"].removeprefix("nova-")
    again = cloud.run(openstack, *line)
    if json.loads(ended.stdout)["even"]:
        answer = json.loads(again.stdout)
        assert (answer["even"], answer["moves"]) == (True, [])


def test_every_prefix_of_a_roll_can_be_claimed_and_the_hosts_of_each_leg_are_empty(
    cloud: Cloud, openstack: OpenStack, record_property: Callable[[str, object], None]
) -> None:
    draw, on_hosts = cloud.draw, cloud.on_hosts
    line = ["placement host roll --all", "--at-once", str(draw.choice((1, 2, 3)))]
    line += ["--parallel", str(draw.choice((1, 2))), "--keep", "1"][: draw.choice((2, 4))]
    answer = json.loads(cloud.run(openstack, *line).stdout)
    plan = document.load(pathlib.Path("plan.json"))
    record_property("moves", len(plan.moves))
    assert len(plan.hosts) + len(plan.legs.left) == len(hosts_of(cloud.base))
    for at in range(len(plan.legs.legs)):
        leg = plan.leg(at)
        carry_out(openstack.target, [move.to_dict() for move in leg.moves])
        for move in leg.moves:
            on_hosts[move.server] = move.target.removeprefix("nova-")
        assert not {host.removeprefix("nova-") for host in leg.hosts} & set(on_hosts.values())
    assert answer["complete"] == (not plan.legs.left)
