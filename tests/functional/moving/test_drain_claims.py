# SPDX-License-Identifier: Apache-2.0
"""Random drain plans, claimed step by step as nova does, with the doubled allocations of moves.

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
from typing import Any

import pytest

from osc_placement.engine import state
from osc_placement.testing import nova
from osc_placement.workflows.cloud.hosts import hosts_of
from tests.support.candidates import clouds, comparison
from tests.support.capacity import drains
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack
from tests.support.rows import nova_recording


def body(allocations: Mapping[str, Any], generation: int | None) -> dict[str, Any]:
    return {
        "allocations": {key: {"resources": amounts} for key, amounts in allocations.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
    }


def recording(base: state.CloudState, on_hosts: Mapping[str, str]) -> Sequence[str]:
    """The options with nova's answers; ``on_hosts`` is ``{server: its host}``."""
    services, nodes = [], []
    for root in hosts_of(base):
        name = base.providers[root].name
        services.append(nova.service(f"nova-{name}"))
        nodes.append(nova.node(root, name, f"nova-{name}"))
    servers = [
        nova.server(uuid, vcpus=3, host=f"nova-{host}", node=host)
        for uuid, host in on_hosts.items()
    ]
    listings = {"services": services, "hypervisors": nodes, "servers": servers, "flavors": []}
    return nova_recording(nova.answers(**listings))


def begin(target: targets.Target, move: Mapping[str, Any]) -> str:
    """The two writes of nova; the UUID of the migration."""
    migration, path = str(uuid.uuid4()), f"/allocations/{move['server']}"
    now = target.ask("GET", path, version="1.28")
    held = {key: each["resources"] for key, each in now["allocations"].items()}
    moved = {
        migration: body(held, None),
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


@pytest.mark.parametrize("target", ["placement"], indirect=True)
@pytest.mark.seeds(20, long=200)
def test_every_prefix_of_a_plan_can_be_claimed(
    seed: int,
    openstack: OpenStack,
    target: targets.Target,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(f"claims {seed}")
    base = drains.draw_pools(draw) if seed % 2 else drains.draw_cloud(draw)
    comparison.seed(base, target)
    hosts = {base.providers[root].name: root for root in hosts_of(base)}
    on_hosts = {each.uuid: base.providers[each.root_uuid].name for each in drains.placed(base)}
    nova_options = recording(base, on_hosts)
    drained = draw.sample(sorted(hosts), draw.randint(1, max(len(hosts) - 1, 1)))
    options = ["--parallel", str(draw.choice((1, 2, 3))), "--plan-out", "plan.json"]
    ended = openstack.run("placement host drain", *drained, *options, *nova_options, "-f", "json")
    if len(drained) == len(hosts):
        assert ended.code == 1
        return
    plan = json.loads(pathlib.Path("plan.json").read_text())
    record_property("moves", len(plan["moves"]))
    carry_out(target, plan["moves"])
    staying = {each["server"] for each in plan["blocked"]}
    for name in drained:
        for each in base.tree[hosts[name]]:
            if clouds.SHARES not in base.providers[each].traits:
                path = f"/resource_providers/{each}/allocations"
                assert target.ask("GET", path)["allocations"].keys() <= staying
