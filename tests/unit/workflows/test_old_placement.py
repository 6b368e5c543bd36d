# SPDX-License-Identifier: Apache-2.0
"""Plans that need a newer Placement: refused before any request, also to a program."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from osc_placement import testing
from osc_placement.client import api, api_errors
from osc_placement.nova.api import RecordedNova
from osc_placement.workflows.batch import batch, mirror
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.selector import Selector
from osc_placement.workflows.repair.allocations import audit, heal
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.reshape import documents, reshape_plan
from osc_placement.workflows.snapshot import save

NOVA = RecordedNova({}, "a test")
EVERY = Selector(name_globs=("*",))
MOVES = "moves: [{from: a, to: b, resources: {VCPU: 1}}]"

#: ``{plan: (the newest version that is too old, how to make it)}``
PLANS: dict[str, tuple[str, Callable[[api.Client], object]]] = {
    "heal": ("1.27", lambda client: heal.plan_healing(client, NOVA, HealRequest())),
    "audit": ("1.27", lambda client: audit.audit_cloud(client, NOVA, audit.AuditRequest())),
    "save": (
        "1.27",
        lambda client: save.save(client, save.SaveRequest(pathlib.Path("new.sqlite"))),
    ),
    "reshape": ("1.29", lambda client: reshape(client)),
    "mirror": ("1.18", lambda client: mirror.plan_mirror(client, NOVA, mirror.MirrorRequest())),
    "aggregates": ("1.18", lambda client: batch.plan_aggregates(client, EVERY, add=["rack"])),
    "traits": ("1.17", lambda client: batch.plan_traits(client, EVERY, add=["CUSTOM_A"])),
}


def reshape(client: api.Client) -> reshape_plan.Prepared:
    request = reshape_plan.ReshapeRequest(documents.parse(MOVES, "moves.yaml"))
    return reshape_plan.plan_reshape(client, request, ReadContext())


@pytest.mark.parametrize("name", PLANS)
def test_a_placement_that_is_too_old_is_refused_before_any_request(name: str) -> None:
    version, plan = PLANS[name]
    with testing.InProcessPlacement(load="12-hosts") as placement:
        with pytest.raises(api_errors.UnsupportedVersion):
            plan(placement.client(version))
        assert placement.requests == []
