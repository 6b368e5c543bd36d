# SPDX-License-Identifier: Apache-2.0
"""Random plans of roll, claimed step by step as nova does; every host of a leg is empty then."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Callable

import pytest

from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import document
from tests.functional.moving.test_drain_claims import carry_out, recording
from tests.support.candidates import comparison
from tests.support.capacity import drains
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack


@pytest.mark.parametrize("target", ["placement"], indirect=True)
@pytest.mark.seeds(12, long=200)
def test_every_prefix_of_a_plan_can_be_claimed_and_the_hosts_of_each_leg_are_empty(
    seed: int,
    openstack: OpenStack,
    target: targets.Target,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(f"roll claims {seed}")
    draw_cloud = draw.choice((drains.draw_pools, drains.draw_flat, drains.draw_cloud))
    base = draw_cloud(draw)
    comparison.seed(base, target)
    on_hosts = {it.uuid: base.providers[it.root_uuid].name for it in drains.placed(base)}
    line = ["placement host roll --all", "--at-once", str(draw.choice((1, 2, 3)))]
    line += ["--parallel", str(draw.choice((1, 2))), "--keep", "1"][: draw.choice((2, 4))]
    line += ["--plan-out", "plan.json", "-f", "json"]
    answer = json.loads(openstack.run(*line, *recording(base, on_hosts)).stdout)
    plan = document.load(pathlib.Path("plan.json"))
    record_property("moves", len(plan.moves))
    assert len(plan.hosts) + len(plan.legs.left) == len(hosts_of(base))
    for at in range(len(plan.legs.legs)):
        leg = plan.leg(at)
        carry_out(target, [move.to_dict() for move in leg.moves])
        for move in leg.moves:
            on_hosts[move.server] = move.target.removeprefix("nova-")
        assert not {host.removeprefix("nova-") for host in leg.hosts} & set(on_hosts.values())
    assert answer["complete"] == (not plan.legs.left)
