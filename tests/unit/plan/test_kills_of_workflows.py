# SPDX-License-Identifier: Apache-2.0
"""Kills at random moments of a healing and of a mirror; runs that continue and undo them."""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, file as plan_file, plan
from osc_placement.workflows.batch import mirror
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import heal, heal_request
from tests.support import embedded, plans
from tests.support.reshape import cloud_builder

CONTEXT = ReadContext(workers=1)
Planning = Callable[[embedded.Client, nova_api.Nova], plan.ObservedPlan]
WORKFLOWS: dict[str, Planning] = {
    "heal": lambda client, nova: heal.plan_healing(
        client, nova, heal_request.HealRequest(), CONTEXT
    ),
    "mirror": lambda client, nova: mirror.plan_mirror(
        client, nova, mirror.MirrorRequest(), CONTEXT
    ),
}


def state(client: embedded.Client) -> Any:
    return cloud_builder.without_generations(client.export())


@pytest.mark.seeds(3, long=100)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_killed_workflow_is_continued_and_undone(
    name: str, seed: int, tmp_path: pathlib.Path
) -> None:
    chance = random.Random(seed)
    nova = nova_api.RecordedNova(testing.sample_nova("12-hosts"), "the sample")
    client = embedded.Client(load=testing.sample_cloud("12-hosts"))
    options = apply.Options(check_precondition=lambda _: "")
    before, path = state(client), tmp_path / "plan"
    planned = WORKFLOWS[name](client, nova)
    whole = embedded.Client(load=testing.sample_cloud("12-hosts"))
    plans.apply_new(whole, planned, name, options)
    after = state(whole)
    assert after != before
    dry_run = dataclasses.replace(options, dry_run=True, plan_out=path)
    plans.apply_new(client, planned, name, dry_run)
    stored = plan_file.read(path)

    def kill_sometimes(request: embedded.Request) -> None:
        if chance.random() < 0.5:
            kills.append(request)
            embedded.kill(request)

    kills: list[embedded.Request] = []
    client.before_write(kill_sometimes)
    client.after_write(kill_sometimes)
    for step, expected in [(plans.apply_file, after), (plans.undo_file, before)] * 2:
        for _ in range(200):
            try:
                step(client, stored, path, options)
            except embedded.Killed:
                continue
            break
        assert state(client) == expected
    assert kills
