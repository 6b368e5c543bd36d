# SPDX-License-Identifier: Apache-2.0
"""Compares the resources requested for a server with those that nova's functions compute."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from lab import lifecycle, place
from osc_placement.nova import flavor
from osc_placement.nova.flavor import ServerRequest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

MANY = 1500

POLICIES = ("dedicated", "dedicated", "mixed", "mixed", "shared", "", "bogus")
MASKS = ("1", "^0", "2-3", "^0-1", "0-1,^0", "0-3", "3-1", "7", "x", "", " 1 , 2")
YES = ("yes", "true", "1", "no", "what")
AMOUNTS = ("0", "1", "2", "3", "x", "-1", " 4 ", "1.5")
CLASSES = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_X", "NONSENSE")
SUFFIXES = ("", "", "", "1", "2", "_A", "_a-b", "x.y")

#: extra spec -> (probability, values)
SPECS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "hw:cpu_policy": (0.5, POLICIES),
    "hw:cpu_dedicated_mask": (0.4, MASKS),
    "hw:cpu_realtime": (0.2, YES),
    "hw:cpu_realtime_mask": (0.2, MASKS),
    "hw:emulator_threads_policy": (0.3, ("isolate", "isolate", "share", "", "bogus")),
    "hw:cpu_thread_policy": (0.1, ("prefer", "isolate", "require")),
    "hw:mem_encryption": (0.15, YES),
    "hw:pmem": (0.1, ("6GB", "6GB,small,6gb", "a b,a-b", "")),
    "hw:tpm_version": (0.1, ("2.0",)),
    "hw:numa_nodes": (0.1, ("2",)),
    "group_policy": (0.3, ("isolate", "none", "bogus")),
    "accel:device_profile": (0.1, ("dp1",)),
    "pci_passthrough:alias": (0.1, ("a1:2", "a1:1,b:1")),
    "same_subtree": (0.1, ("_A,_a-b",)),
}
IMAGE: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "hw_cpu_policy": (0.3, ("dedicated", "mixed", "shared")),
    "hw_cpu_realtime_mask": (0.1, ("2-3", "^0")),
    "hw_emulator_threads_policy": (0.1, ("isolate",)),
    "hw_mem_encryption": (0.1, YES),
    "hw_firmware_type": (0.8, ("uefi",)),
    "hw_tpm_version": (0.1, ("2.0",)),
    "trait:CUSTOM_B": (0.1, ("required",)),
}

#: Traits that nova adds to the unnumbered group; they do not affect allocations.
NOVA_TRAITS = ("COMPUTE_", "HW_CPU_")


class Case(NamedTuple):
    """The flavor and image of a server."""

    flavor: flavor.Flavor
    image: Mapping[str, str]
    volume: bool

    def to_dict(self) -> dict[str, Any]:
        numbers = dataclasses.asdict(self.flavor)
        specs = numbers.pop("extra_specs")
        return {"flavor": numbers, "specs": specs, "image": self.image, "volume": self.volume}

    def request(self) -> ServerRequest:
        return flavor.request_of(self.flavor, self.image, booted_from_volume=self.volume)


def choose(
    rng: random.Random, words: Mapping[str, tuple[float, tuple[str, ...]]]
) -> dict[str, str]:
    return {
        name: rng.choice(values)
        for name, (probability, values) in words.items()
        if rng.random() < probability
    }


def cases(rng: random.Random) -> Iterator[Case]:
    while True:
        specs = choose(rng, SPECS)
        if rng.random() < 0.7:
            for name in ("hw:cpu_policy", "hw:cpu_dedicated_mask", "hw:cpu_realtime"):
                if rng.random() < 0.5:
                    specs.pop(name, None)
        for _ in range(rng.choice((0, 0, 1, 2, 4))):
            key = f"resources{rng.choice(SUFFIXES)}:{rng.choice(CLASSES)}"
            specs[key] = rng.choice(AMOUNTS)
        for _ in range(rng.choice((0, 0, 1, 2))):
            key = f"trait{rng.choice(SUFFIXES)}:CUSTOM_{rng.choice('AB')}"
            specs[key] = rng.choice(("required", "forbidden", "preferred"))
        yield Case(
            flavor.Flavor(
                vcpus=rng.choice((1, 4, 4, 8)),
                ram=rng.choice((512, 2048)),
                disk=rng.choice((0, 20)),
                ephemeral=rng.choice((0, 0, 5)),
                swap=rng.choice((0, 0, 1, 1024, 1025)),
                extra_specs=specs,
            ),
            choose(rng, IMAGE) if rng.random() < 0.5 else {},
            rng.random() < 0.3,
        )


def run_nova(lab: place.Place, sample: list[Case]) -> list[dict[str, Any]]:
    """``{scheduler: a query or refused, manage: resources or refused}`` of each case."""
    completed = subprocess.run(
        [lab.program("python"), "-P", str(place.HERE / "scheduler.py")],
        input=json.dumps([case.to_dict() for case in sample]),
        env=dict(lab.environment()),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    rows: list[dict[str, Any]] = json.loads(completed.stdout)
    return rows


def groups_of(query: Mapping[str, str]) -> dict[str, tuple[dict[str, int], set[str]]]:
    """``{suffix: (resources, traits)}`` of the groups of a query that request resources."""
    fields = {}
    for key, value in query.items():
        if key.startswith("resources") and value:
            suffix = key.removeprefix("resources")
            resources = {name: int(amount) for name, amount in _pairs(value)}
            traits = set(filter(None, query.get(f"required{suffix}", "").split(",")))
            if not suffix:
                traits = {each for each in traits if not each.lstrip("!").startswith(NOVA_TRAITS)}
            fields[suffix] = (resources, traits)
    return fields


def _pairs(text: str) -> Iterator[list[str]]:
    return (pair.split(":") for pair in text.split(","))


def groups_requested(request: flavor.ServerRequest) -> dict[str, tuple[dict[str, int], set[str]]]:
    """The groups of our request, in the same form."""
    return {
        suffix: (
            dict(group.resources),
            {name for alternatives in group.required for name in alternatives}
            | {f"!{name}" for name in group.forbidden},
        )
        for suffix, group in request.groups.items()
    }


@pytest.fixture(scope="module")
def lab() -> place.Place:
    """A lab with nova's code; no service needs to run."""
    found = place.find()
    lifecycle.provide(found)
    return found


def test_request_equals_the_query_of_novas_scheduler(lab: place.Place) -> None:
    rng = random.Random(7)
    sample = list(itertools.islice(cases(rng), MANY))
    compared = 0
    for case, result in zip(sample, run_nova(lab, sample), strict=True):
        request, query = case.request(), result["scheduler"]
        if "refused" in query:
            # Nova refuses such a server: its request must be unknown, except where only a
            # requirement of encrypted memory is missing.
            assert request.unknown or flavor.MEM_ENCRYPTION_CONTEXT in request.total(), (
                case,
                query,
            )
            continue
        compared += 1
        assert groups_requested(request) == groups_of(query), (case, query)
        assert request.isolate == (query.get("group_policy") == "isolate"), (case, query)
        assert bool(request.unknown) == ("accel:device_profile" in case.flavor.extra_specs), case
    assert compared > MANY / 2


def test_request_without_image_equals_nova_manage(lab: place.Place) -> None:
    rng = random.Random(8)
    sample = [case._replace(image={}) for case in itertools.islice(cases(rng), MANY)]
    compared = 0
    for case, result in zip(sample, run_nova(lab, sample), strict=True):
        if "refused" not in result["manage"]:
            compared += 1
            assert case.request().total() == result["manage"], case
    assert compared > MANY / 3
