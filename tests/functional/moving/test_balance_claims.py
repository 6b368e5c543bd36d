# SPDX-License-Identifier: Apache-2.0
"""Random plans of balance, claimed step by step as nova does; a second plan has no steps."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Callable

import pytest

from tests.functional.moving.test_drain_claims import carry_out, recording
from tests.support.candidates import comparison
from tests.support.capacity import drains
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack


@pytest.mark.parametrize("target", ["placement"], indirect=True)
@pytest.mark.seeds(12, long=200)
def test_every_prefix_of_a_plan_can_be_claimed_and_the_cloud_is_even_then(
    seed: int,
    openstack: OpenStack,
    target: targets.Target,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(f"balance claims {seed}")
    draw_cloud = draw.choice((drains.draw_pools, drains.draw_flat, drains.draw_cloud))
    base = draw_cloud(draw)
    comparison.seed(base, target)
    on_hosts = {each.uuid: base.providers[each.root_uuid].name for each in drains.placed(base)}
    line = ["placement capacity balance", "--within", draw.choice(("5%", "20%", "40%"))]
    line += ["--parallel", str(draw.choice((1, 2, 3))), "--plan-out", "plan.json", "-f", "json"]
    ended = openstack.run(*line, *recording(base, on_hosts))
    if ended.code == 1:
        assert "an even cloud needs two hosts" in ended.stderr
        return
    plan = json.loads(pathlib.Path("plan.json").read_text())
    record_property("moves", len(plan["moves"]))
    carry_out(target, plan["moves"])
    for move in plan["moves"]:
        on_hosts[move["server"]] = move["target"].removeprefix("nova-")
    again = openstack.run(*line, *recording(base, on_hosts))
    if json.loads(ended.stdout)["even"]:
        answer = json.loads(again.stdout)
        assert (answer["even"], answer["moves"]) == (True, [])
