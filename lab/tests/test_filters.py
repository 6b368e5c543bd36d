# SPDX-License-Identifier: Apache-2.0
"""Compares the rules for host aggregates with the filters of nova's scheduler.

``--long`` compares every release.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import pytest

from lab import install, place
from lab.tests.test_request import RELEASES
from osc_placement.nova import flavor, values
from osc_placement.scheduling import filters, nova_options, request
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.rule import Host
from osc_placement.scheduling.server_hosts import ServerHosts

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

MANY = 3000

VALUES = ("1", "2", "4", "ssd", "hdd", "ssd,hdd", "a b", "")
REQUIREMENTS = (
    *VALUES, "<or> ssd <or> hdd", "<in> sd", "<all-in> s d", ">= 2", "= 2", "== 2.0", "!= 2",
    "<= 2", "s== ssd", "s!= ssd", "s> h", "s>= ssd", "s< t", "s<= hdd", "> 2",
)  # fmt: skip
SCOPE = "aggregate_instance_extra_specs"
SPECS = ("disk", f"{SCOPE}:disk", f"{SCOPE}:cpu", f"{SCOPE}:a:b", "hw:cpu_policy", "cpu")
METADATA = {
    "disk": VALUES,
    "cpu": VALUES,
    "a": VALUES,
    "filter_tenant_id": ("acme", "other", "acme,other"),
    "filter_tenant_id3": ("third", "acme", "other"),
    "filter_tenant_id_x": ("acme,third",),
    "instance_type": ("m1.small", "m1.small,m1.large", "m1.large"),
    "max_instances_per_host": ("1", "3", "x", "2,9", " 2", "1_0", "+3", "", "0", "-1"),
    "hw_disk_bus": ("virtio", "scsi", "virtio,scsi"),
    "hw_machine_type": ("q35", "pc"),
    "availability_zone": ("az1",),
}
IMAGE = {"hw_disk_bus": ("virtio", "scsi"), "hw_machine_type": ("q35", "pc")}


def draw_case(draw: random.Random) -> dict[str, Any]:
    def some(words: Any, chance: float) -> list[str]:
        return [key for key in words if draw.random() < chance]

    return {
        "specs": {key: draw.choice(REQUIREMENTS) for key in some(SPECS, 0.15)},
        "image": {key: draw.choice(IMAGE[key]) for key in some(IMAGE, 0.5)},
        "flavor": draw.choice(("m1.small", "m1.large")),
        "project": draw.choice(("acme", "other", "third")),
        "aggregates": [
            {key: draw.choice(METADATA[key]) for key in some(METADATA, 0.35)}
            for _ in range(draw.randint(0, 2))
        ],
        "servers": draw.choice((0, 1, 2, 3, 4, 9, 10, 49, 50, 60)),
    }


def accepts(case: dict[str, Any], release: int, names: Collection[str]) -> dict[str, bool]:
    spec = request.ServerSpec(
        flavor.Flavor(1, 1, 1, extra_specs=case["specs"]),
        flavor_name=case["flavor"],
        image=case["image"],
        project_id=case["project"],
    )
    options = nova_options.SchedulerOptions(
        max_instances_per_host=nova_options.DEFAULT_MAX_INSTANCES
    )
    asked = Case(Way.BOOT, spec, ServerHosts(values.Hosts()), (release,), options)
    host = Host(
        listed=tuple(
            values.HostAggregate(str(number), "name", "uuid", metadata=metadata)
            for number, metadata in enumerate(case["aggregates"])
        ),
        servers=case["servers"],
    )
    verdicts = {
        rule.name: rule.verdict(asked, host) for rule in filters.FILTER_RULES if rule.name in names
    }
    assert verdicts.keys() == set(names)
    assert not any(verdict.unknown for verdict in verdicts.values())
    return {name: not verdict.refused for name, verdict in verdicts.items()}


@pytest.mark.parametrize("release", RELEASES)
def test_each_filter_accepts_the_hosts_that_nova_accepts(release: int) -> None:
    draw = random.Random("filters")
    cases = [draw_case(draw) for _ in range(MANY)]
    answers = install.ask_release(place.find(), release, "filters.py", cases)
    refused: dict[str, int] = {}
    for case, theirs in zip(cases, answers, strict=True):
        for name, ours in accepts(case, release, theirs).items():
            if theirs[name] is not None:
                assert ours == theirs[name], (name, case)
                refused[name] = refused.get(name, 0) + (not ours)
    assert all(refused.values()), refused
