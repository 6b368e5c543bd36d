"""What a server is allocated by our arithmetic, and by nova's own functions."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from osc_placement.nova import flavor
from tests.support.lab import lifecycle, place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

MANY = 1500

POLICIES = ("dedicated", "dedicated", "mixed", "mixed", "shared", "", "bogus")
MASKS = ("1", "^0", "2-3", "^0-1", "0-1,^0", "0-3", "3-1", "7", "x", "", " 1 , 2")
YES = ("yes", "true", "1", "no", "what")
AMOUNTS = ("0", "1", "2", "3", "x", "-1", " 4 ", "1.5")
CLASSES = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_X", "NONSENSE")
SUFFIXES = ("", "", "", "1", "2", "_A", "_a-b", "x.y")

#: extra spec -> (how often, its values)
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

#: Traits that nova adds to the group of the tree say where a server may go, not what it takes.
OWN_TRAITS = ("COMPUTE_", "HW_CPU_")


class Case(NamedTuple):
    """A server as nova would be asked for it."""

    flavor: flavor.Flavor
    image: Mapping[str, str]
    volume: bool

    def written(self) -> dict[str, Any]:
        numbers = dataclasses.asdict(self.flavor)
        specs = numbers.pop("extra_specs")
        return {"flavor": numbers, "specs": specs, "image": self.image, "volume": self.volume}

    def request(self) -> flavor.ServerRequest:
        return flavor.request_of(self.flavor, self.image, booted_from_volume=self.volume)


def some(
    chance: random.Random, known: Mapping[str, tuple[float, tuple[str, ...]]]
) -> dict[str, str]:
    return {
        name: chance.choice(values)
        for name, (often, values) in known.items()
        if chance.random() < often
    }


def cases(chance: random.Random) -> Iterator[Case]:
    while True:
        specs = some(chance, SPECS)
        if chance.random() < 0.7:
            for name in ("hw:cpu_policy", "hw:cpu_dedicated_mask", "hw:cpu_realtime"):
                if chance.random() < 0.5:
                    specs.pop(name, None)
        for _ in range(chance.choice((0, 0, 1, 2, 4))):
            key = f"resources{chance.choice(SUFFIXES)}:{chance.choice(CLASSES)}"
            specs[key] = chance.choice(AMOUNTS)
        for _ in range(chance.choice((0, 0, 1, 2))):
            key = f"trait{chance.choice(SUFFIXES)}:CUSTOM_{chance.choice('AB')}"
            specs[key] = chance.choice(("required", "forbidden", "preferred"))
        yield Case(
            flavor.Flavor(
                vcpus=chance.choice((1, 4, 4, 8)),
                ram=chance.choice((512, 2048)),
                disk=chance.choice((0, 20)),
                ephemeral=chance.choice((0, 0, 5)),
                swap=chance.choice((0, 0, 1, 1024, 1025)),
                extra_specs=specs,
            ),
            some(chance, IMAGE) if chance.random() < 0.5 else {},
            chance.random() < 0.3,
        )


def ask_nova(lab: place.Place, asked: list[Case]) -> list[dict[str, Any]]:
    """``{scheduler: a query or refused, manage: resources or refused}`` of each."""
    ended = subprocess.run(
        [lab.program("python"), "-P", str(place.HERE / "scheduler.py")],
        input=json.dumps([case.written() for case in asked]),
        env=dict(lab.environment()),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def groups_of(query: Mapping[str, str]) -> dict[str, tuple[dict[str, int], set[str]]]:
    """``{suffix: (resources, traits)}`` of a query string's parts, where there are resources."""
    found = {}
    for key, value in query.items():
        if key.startswith("resources") and value:
            suffix = key.removeprefix("resources")
            resources = {name: int(amount) for name, amount in _pairs(value)}
            traits = set(filter(None, query.get(f"required{suffix}", "").split(",")))
            if not suffix:
                traits = {each for each in traits if not each.lstrip("!").startswith(OWN_TRAITS)}
            found[suffix] = (resources, traits)
    return found


def _pairs(text: str) -> Iterator[list[str]]:
    return (each.split(":") for each in text.split(","))


def groups_asked(request: flavor.ServerRequest) -> dict[str, tuple[dict[str, int], set[str]]]:
    """The same of ours."""
    return {
        suffix: (
            dict(group.resources),
            {each for alternatives in group.required for each in alternatives}
            | {f"!{each}" for each in group.forbidden},
        )
        for suffix, group in request.groups.items()
    }


@pytest.fixture(scope="module")
def lab() -> place.Place:
    """A lab with nova's code; nothing of it needs to run."""
    found = place.find()
    lifecycle.provide(found)
    return found


def test_a_server_is_allocated_what_novas_scheduler_asks_for(lab: place.Place) -> None:
    chance = random.Random(7)
    asked = list(itertools.islice(cases(chance), MANY))
    compared = 0
    for case, told in zip(asked, ask_nova(lab, asked), strict=True):
        request, query = case.request(), told["scheduler"]
        if "refused" in query:
            # No such server can be; what is told of it must not be taken for an amount,
            # unless all that is wrong is what else encrypted memory needs.
            assert request.unknown or flavor.MEM_ENCRYPTION_CONTEXT in request.total(), (
                case,
                query,
            )
            continue
        compared += 1
        assert groups_asked(request) == groups_of(query), (case, query)
        assert request.isolate == (query.get("group_policy") == "isolate"), (case, query)
        assert bool(request.unknown) == ("accel:device_profile" in case.flavor.extra_specs), case
    assert compared > MANY / 2


def test_nova_manage_differs_in_nothing_but_what_the_image_asks_for(lab: place.Place) -> None:
    chance = random.Random(8)
    asked = [case._replace(image={}) for case in itertools.islice(cases(chance), MANY)]
    compared = 0
    for case, told in zip(asked, ask_nova(lab, asked), strict=True):
        if "refused" not in told["manage"]:
            compared += 1
            assert case.request().total() == told["manage"], case
    assert compared > MANY / 3
