# SPDX-License-Identifier: Apache-2.0
"""The ratios of host aggregates with a real nova and placement, case by case."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from lab import place
from lab.tests.test_heal import Lab, reset

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

#: The metadata of host aggregates; az1 and ssd share hosts.
RATIOS = {"az1": "8.0", "ssd": "2.0", "pinned": "1.0"}
KEY = "cpu_allocation_ratio"


@pytest.fixture
def lab(seeded_lab: place.Place, tmp_path: pathlib.Path) -> Iterator[Lab]:
    reset(seeded_lab)
    made = Lab(seeded_lab, tmp_path)
    for name, ratio in RATIOS.items():
        path = f"/v2.1/os-aggregates/{made.aggregates[name]['id']}/action"
        made.ask("nova", "POST", path, {"set_metadata": {"metadata": {KEY: ratio}}})
    yield made
    reset(seeded_lab)


def room(lab: Lab) -> dict[str, float]:
    """``{node: VCPU of the largest server that nova's old filter of CPU accepted}``

    The ratio of a host is the smallest of its aggregates, else its own. A server cannot have
    more VCPU than the host has CPUs.
    """
    ratios = {}
    for name, entry in lab.providers().items():
        path = f"/resource_providers/{entry['uuid']}"
        inventory = lab.ask("placement", "GET", f"{path}/inventories")["inventories"].get("VCPU")
        if inventory is None:
            continue
        host = name.partition(".")[0]
        expected = [
            float(RATIOS[aggregate])
            for aggregate, item in lab.aggregates.items()
            if aggregate in RATIOS and host in item["hosts"]
        ]
        ratio = min(expected, default=inventory["allocation_ratio"])
        used = lab.ask("placement", "GET", f"{path}/usages")["usages"]["VCPU"]
        free = (inventory["total"] - inventory["reserved"]) * ratio - used
        ratios[entry["uuid"]] = min(free, inventory["total"])
    return ratios


def candidates(lab: Lab, vcpus: int) -> set[str]:
    path = f"/allocation_candidates?resources=VCPU:{vcpus}&limit=1000"
    requests = lab.ask("placement", "GET", path)["allocation_requests"]
    return {uuid for request in requests for uuid in request["allocations"]}


def test_placement_returns_the_hosts_of_novas_old_filter(lab: Lab) -> None:
    free = room(lab)
    cases = sorted({int(amount) for amount in free.values()} | {1})
    cases = [vcpus for amount in cases for vcpus in (amount, amount + 1) if 0 < vcpus <= 64]
    expected = {
        vcpus: {uuid for uuid, amount in free.items() if amount >= vcpus} for vcpus in cases
    }
    assert {vcpus: candidates(lab, vcpus) for vcpus in cases} != expected
    outcome = lab.openstack.run("placement aggregate mirror --ratios")
    assert outcome.returncode == 0, outcome
    assert "nova-compute" in outcome.stderr
    assert {vcpus: candidates(lab, vcpus) for vcpus in cases} == expected
    assert len(cases) > 3
