# SPDX-License-Identifier: Apache-2.0
"""Random clouds are what they promise, and a shrunken cloud has only what its failure needs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from osc_placement import testing
from osc_placement.testing import random_clouds
from osc_placement.testing.cloud import uuid_of

SHAPES: tuple[random_clouds.Shape, ...] = ("trees", "flat", "pools")


def draw(seed: object, shape: random_clouds.Shape = "trees", **options: bool) -> testing.Cloud:
    return testing.random_cloud(random.Random(f"{seed}"), shape, **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_seed_is_a_cloud(shape: random_clouds.Shape) -> None:
    assert draw(1, shape).parts == draw(1, shape).parts != draw(2, shape).parts


def shares(cloud: testing.Cloud) -> bool:
    providers = cloud.parts["providers"].values()
    return any(random_clouds.SHARES in provider["traits"] for provider in providers)


def has_fault(**fields: object) -> Callable[[testing.Cloud], bool]:
    return lambda cloud: any(fields.items() <= it.items() for it in cloud.parts["services"])


FEATURES: dict[str, Callable[[testing.Cloud], bool]] = {
    "shares": shares,
    "a child": lambda cloud: any(it["parent"] for it in cloud.parts["providers"].values()),
    "consumers": lambda cloud: bool(cloud.parts["consumers"]),
    "down": has_fault(state="down", status="enabled"),
    "disabled": has_fault(state="up", status="disabled"),
    "cell down": has_fault(status="UNKNOWN"),
    "no service": lambda cloud: len(cloud.parts["services"]) < len(cloud.parts["hypervisors"]),
    "a node of another provider": lambda cloud: any(
        it["id"] not in cloud.parts["providers"] for it in cloud.parts["hypervisors"]
    ),
    "a consumer that nova lacks": lambda cloud: bool(
        cloud.parts["consumers"].keys() - {it["id"] for it in cloud.parts["servers"]}
    ),
    "a migration with allocations": lambda cloud: any(
        it["uuid"] in cloud.parts["consumers"] for it in cloud.parts["migrations"]
    ),
}


#: The records besides providers that a feature needs, if it is not one.
RECORDS = {"shares": 0, "a child": 0, "a migration with allocations": 2}
OF_NOVA = ("down", "disabled", "cell down", "no service", "a node of another provider")


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_in_some_random_clouds_and_not_in_all(feature: str) -> None:
    answers = [FEATURES[feature](draw(seed)) for seed in range(100)]
    assert 5 <= answers.count(True) <= 95


def test_small_trees_have_little_capacity_and_no_servers() -> None:
    for seed in range(20):
        cloud = draw(seed, small=True)
        assert cloud.parts["consumers"] == {}
        for provider in cloud.parts["providers"].values():
            assert all(offer["total"] <= 4 for offer in provider["inventories"].values())


@pytest.mark.parametrize("feature", FEATURES)
def test_nothing_can_be_left_out_of_a_shrunken_cloud(feature: str) -> None:
    has = FEATURES[feature]
    cloud = next(filter(has, map(draw, range(100))))
    before = repr(cloud.parts)
    smallest = testing.shrink(cloud, has)
    assert has(smallest)
    assert repr(cloud.parts) == before
    assert testing.shrink(smallest, has).parts == smallest.parts
    parts = dict(smallest.parts)
    providers = parts.pop("providers")
    assert sum(map(len, parts.values())) == RECORDS.get(feature, 1)
    # Only a provider and those above it.
    parents = {provider["parent"] for provider in providers.values()}
    assert len(providers.keys() - parents) == (feature not in OF_NOVA)
    with testing.InProcessPlacement(load=smallest) as placement:
        assert placement.export()["consumers"] == smallest.document()["consumers"]


def test_what_needs_a_part_goes_with_it() -> None:
    cloud = (
        testing.Cloud()
        .host("a", VCPU=8, traits=["CUSTOM_T1"], aggregates=["rack"])
        .child("a", "a.0", VGPU=1)
        .child("a.0", "a.0.0", VGPU=1)
        .host("b", VCPU=8)
        .server("s", {"a": {"VCPU": 1}, "a.0.0": {"VGPU": 1}})
        .server("t", {"b": {"VCPU": 1}})
    )
    smallest = testing.shrink(cloud, lambda part: uuid_of("b") in part.parts["providers"])
    assert smallest.parts == testing.Cloud().host("b").parts
    smallest = testing.shrink(cloud, lambda part: uuid_of("s") in part.parts["consumers"])
    alone = testing.Cloud().host("a", VCPU=8).server("s", {"a": {"VCPU": 1}})
    assert smallest.parts == alone.parts
