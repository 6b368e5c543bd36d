# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from osc_placement.model.inventory import Inventory
from tests.support.candidates.clouds import (
    SHARES,
    cloud,
    found,
    group,
    provider,
    serving,
)

NUMA = (
    provider("host", DISK_GB=100, traits="ROOT", aggregates="A"),
    provider("numa0", "host", VCPU=4, traits="N", aggregates="B"),
    provider("numa1", "host", VCPU=4, traits="N T"),
    provider("gpu0", "numa0", VGPU=1),
    provider("gpu1", "numa1", VGPU=1, traits="FAST"),
)


def storage(name: str = "ss", **fields: object) -> object:
    return provider(name, **{"DISK_GB": 1000, "traits": SHARES, "aggregates": "A", **fields})


# One provider


def test_a_provider_supplies_up_to_its_capacity():
    base = cloud(provider("host", VCPU=Inventory(10, reserved=2, allocation_ratio=1.5)))
    assert found(base, group(VCPU=12)) == [{"host": {"VCPU": 12}}]
    assert found(base, group(VCPU=13)) == []


def test_used_amounts_are_not_available():
    base = cloud(provider("host", VCPU=4), used={"host": {"VCPU": 3}})
    assert found(base, group(VCPU=1)) == [{"host": {"VCPU": 1}}]
    assert found(base, group(VCPU=2)) == []


def test_a_fully_reserved_provider_supplies_nothing():
    assert found(cloud(provider("host", VCPU=Inventory(4, reserved=4))), group(VCPU=1)) == []


@pytest.mark.parametrize(
    ("amount", "fits"), [(2, False), (4, True), (5, False), (8, True), (10, False)]
)
def test_an_amount_respects_the_units(amount: int, fits: bool):
    base = cloud(provider("host", VCPU=Inventory(100, min_unit=4, max_unit=8, step_size=2)))
    assert bool(found(base, group(VCPU=amount))) is fits


def test_every_class_must_be_available():
    base = cloud(provider("host", VCPU=4, MEMORY_MB=8), provider("other", VCPU=4))
    assert found(base, group(VCPU=1, MEMORY_MB=2)) == [{"host": {"VCPU": 1, "MEMORY_MB": 2}}]


def test_a_query_without_resources_has_no_candidates():
    assert found(cloud(provider("host", traits="T")), group("_A", required="T")) == []


# Trees and the unsuffixed group


def test_several_providers_may_serve_the_unsuffixed_group():
    assert serving(cloud(*NUMA), group(VCPU=1, DISK_GB=1)) == {("host+numa0",), ("host+numa1",)}


def test_a_class_is_never_split_between_providers():
    assert found(cloud(*NUMA), group(VCPU=8)) == []


def test_the_providers_of_the_unsuffixed_group_need_its_traits_in_sum():
    assert serving(cloud(*NUMA), group(VCPU=1, DISK_GB=1, required="ROOT T")) == {("host+numa1",)}


def test_one_of_alternative_traits_is_enough():
    base = cloud(*NUMA)
    assert serving(base, group(VGPU=1, VCPU=1, required="FAST|T")) == {
        ("gpu0+numa1",),
        ("gpu1+numa0",),
        ("gpu1+numa1",),
    }


def test_a_forbidden_trait_is_on_none_of_the_providers():
    assert serving(cloud(*NUMA), group(VCPU=1, DISK_GB=1, forbidden="T")) == {("host+numa0",)}


def test_aggregates_of_the_root_count_for_the_whole_tree_in_the_unsuffixed_group():
    base = cloud(*NUMA)
    assert serving(base, group(VCPU=1, member_of="A")) == {("numa0",), ("numa1",)}
    assert serving(base, group(VCPU=1, member_of="B")) == {("numa0",)}
    assert serving(base, group(VCPU=1, not_member_of="A")) == set()
    assert serving(base, group(VCPU=1, not_member_of="B")) == {("numa1",)}


def test_a_provider_or_its_root_alone_must_meet_all_member_of():
    base = cloud(*NUMA, provider("numa2", "host", VCPU=4, aggregates="A B"))
    assert serving(base, group(VCPU=1, member_of="A B")) == {("numa2",)}
    assert len(serving(base, group(VCPU=1, member_of="A A|B"))) == 3


def test_in_a_suffixed_group_only_own_aggregates_count():
    base = cloud(*NUMA)
    assert serving(base, group("_A", VCPU=1, member_of="A")) == set()
    assert serving(base, group("_A", VCPU=1, member_of="B|C")) == {("numa0",)}
    assert serving(base, group("_A", VCPU=1, not_member_of="A")) == {("numa0",), ("numa1",)}


def test_in_tree_may_name_any_provider_of_the_tree():
    base = cloud(*NUMA, provider("other", VCPU=4))
    assert serving(base, group(VCPU=1)) == {("numa0",), ("numa1",), ("other",)}
    assert serving(base, group(VCPU=1, in_tree="gpu1")) == {("numa0",), ("numa1",)}
    assert serving(base, group(VCPU=1, in_tree="unknown")) == set()


def test_root_traits_apply_to_the_root():
    base = cloud(*NUMA, provider("other", VCPU=4, traits="N"))
    assert serving(base, group(VCPU=1), root_required=frozenset({"ROOT"})) == {
        ("numa0",),
        ("numa1",),
    }
    assert serving(base, group(VCPU=1), root_forbidden=frozenset({"ROOT"})) == {("other",)}


# Several groups


def test_one_provider_serves_a_suffixed_group():
    assert serving(cloud(*NUMA), group("_A", VCPU=1, VGPU=1)) == set()
    assert serving(cloud(*NUMA), group("_A", VCPU=1, required="N T")) == {("numa1",)}


def test_isolated_groups_use_different_providers():
    one, two = group("_A", VCPU=1), group("_B", VCPU=1)
    assert serving(cloud(*NUMA), one, two, isolate=True) == {("numa0", "numa1"), ("numa1", "numa0")}
    assert len(serving(cloud(*NUMA), one, two)) == 4


def test_isolation_does_not_apply_to_the_unsuffixed_group():
    base = cloud(provider("host", VCPU=4, DISK_GB=4))
    assert serving(base, group(DISK_GB=1), group("_A", VCPU=1), isolate=True) == {("host", "host")}


def test_groups_on_one_provider_respect_its_capacity_in_sum():
    base = cloud(*NUMA)
    three, two = group("_A", VCPU=3), group("_B", VCPU=2)
    assert serving(base, three, two) == {("numa0", "numa1"), ("numa1", "numa0")}


def test_groups_on_one_provider_respect_max_unit_in_sum():
    base = cloud(provider("host", VCPU=Inventory(8, max_unit=3)))
    assert found(base, group("_A", VCPU=2), group("_B", VCPU=1)) == [{"host": {"VCPU": 3}}]
    assert found(base, group("_A", VCPU=2), group("_B", VCPU=2)) == []


def test_each_group_respects_min_unit_and_step_size_separately():
    base = cloud(provider("host", VCPU=Inventory(8, min_unit=2, step_size=2)))
    assert found(base, group("_A", VCPU=1), group("_B", VCPU=1)) == []
    assert found(base, group("_A", VCPU=2), group("_B", VCPU=4)) == [{"host": {"VCPU": 6}}]


def test_the_same_class_in_the_unsuffixed_and_a_suffixed_group_is_added_up():
    base = cloud(*NUMA)
    assert found(base, group(VCPU=2), group("_A", VCPU=2, required="T")) == [
        {"numa1": {"VCPU": 2}, "numa0": {"VCPU": 2}},
        {"numa1": {"VCPU": 4}},
    ]


def test_same_subtree_needs_a_provider_that_is_an_ancestor_of_the_others():
    cpu, gpu = group("_A", VCPU=1), group("_G", VGPU=1)
    assert serving(cloud(*NUMA), cpu, gpu, same_subtree=(frozenset({"_A", "_G"}),)) == {
        ("numa0", "gpu0"),
        ("numa1", "gpu1"),
    }


def test_siblings_are_not_a_subtree():
    one, two = group("_A", VCPU=1), group("_B", VCPU=1)
    binding = {"same_subtree": (frozenset({"_A", "_B"}),)}
    assert serving(cloud(*NUMA), one, two, **binding) == {("numa0", "numa0"), ("numa1", "numa1")}
    assert serving(cloud(*NUMA), one, two, isolate=True, **binding) == set()


def test_a_group_without_resources_can_hold_a_subtree_together():
    base = cloud(*NUMA, provider("gpu2", "numa1", VGPU=1, traits="SLOW"))
    groups = (
        group("_N", required="N"),
        group("_G", VGPU=1, required="FAST"),
        group("_H", VGPU=1, required="SLOW"),
    )
    bound = (frozenset({"_N", "_G", "_H"}),)
    assert serving(base, *groups, same_subtree=bound) == {("numa1", "gpu1", "gpu2")}
    assert found(base, *groups, same_subtree=bound) == [{"gpu1": {"VGPU": 1}, "gpu2": {"VGPU": 1}}]


def test_isolation_applies_to_groups_without_resources():
    base = cloud(*NUMA)
    groups = (group("_N", required="N"), group("_A", VCPU=1))
    bound = {"same_subtree": (frozenset({"_N"}),)}
    assert ("numa0", "numa0") in serving(base, *groups, **bound)
    assert serving(base, *groups, isolate=True, **bound) == {("numa0", "numa1"), ("numa1", "numa0")}


def test_a_group_without_resources_must_require_something():
    bound = {"same_subtree": (frozenset({"_N", "_A"}),)}
    cpu = group("_A", VCPU=1)
    assert serving(cloud(*NUMA), cpu, group("_N", forbidden="T"), **bound) == set()
    assert serving(cloud(*NUMA), cpu, group("_N", in_tree="host"), **bound) == set()
    assert serving(cloud(*NUMA), cpu, group("_N", member_of="A"), **bound) == {
        ("numa0", "host"),
        ("numa1", "host"),
    }


# Sharing providers


def test_a_sharing_provider_serves_every_tree_with_an_aggregate_in_common():
    base = cloud(
        storage(),
        provider("one", VCPU=1, aggregates="A"),
        provider("two", VCPU=1, aggregates="B"),
        provider("three", VCPU=1, DISK_GB=10, aggregates="A"),
    )
    assert serving(base, group(VCPU=1, DISK_GB=5)) == {("one+ss",), ("ss+three",), ("three",)}


def test_an_aggregate_of_a_child_shares_with_the_whole_tree():
    base = cloud(storage(), provider("host", VCPU=1), provider("child", "host", aggregates="A"))
    assert serving(base, group(VCPU=1, DISK_GB=5)) == {("host+ss",)}


def test_without_the_trait_nothing_is_shared():
    base = cloud(storage(traits=""), provider("host", VCPU=1, aggregates="A"))
    assert found(base, group(VCPU=1, DISK_GB=5)) == []


def test_a_sharing_provider_can_serve_a_suffixed_group():
    base = cloud(storage(), provider("host", VCPU=1, aggregates="A"))
    assert serving(base, group("_A", VCPU=1), group("_B", DISK_GB=5)) == {("host", "ss")}


def test_a_sharing_provider_alone_is_one_candidate_for_all_its_trees():
    hosts = [provider(f"host{n}", VCPU=1, aggregates="A") for n in range(5)]
    assert found(cloud(*hosts, storage()), group(DISK_GB=5)) == [{"ss": {"DISK_GB": 5}}]


def test_every_tree_that_sharing_providers_serve_is_found():
    base = cloud(
        storage(),
        provider("net", IPV4_ADDRESS=8, traits=SHARES, aggregates="A"),
        *(provider(f"host{n}", VCPU=1, aggregates="A") for n in range(3)),
    )
    assert serving(base, group(IPV4_ADDRESS=1, DISK_GB=5), group("_A", VCPU=1)) == {
        ("net+ss", "host0"),
        ("net+ss", "host1"),
        ("net+ss", "host2"),
    }


def test_sharing_providers_that_share_with_each_other_serve_all_their_trees():
    base = cloud(
        storage("one", aggregates="A"),
        storage("two", aggregates="A B"),
        provider("host", VCPU=1, aggregates="B"),
    )
    assert serving(base, group(DISK_GB=5), group("_A", VCPU=1)) == {("two", "host")}


def test_root_traits_apply_to_the_tree_that_is_served():
    base = cloud(
        storage(),
        provider("one", VCPU=1, aggregates="A", traits="T"),
        provider("two", VCPU=1, aggregates="A"),
    )
    arguments = {"root_required": frozenset({"T"})}
    assert serving(base, group(VCPU=1, DISK_GB=5), **arguments) == {("one+ss",)}
    assert serving(base, group(DISK_GB=5), **arguments) == {("ss",)}
    assert serving(base, group(DISK_GB=5), root_required=frozenset({"U"})) == set()


def test_in_tree_excludes_sharing_providers_of_other_trees():
    base = cloud(storage(), provider("host", VCPU=1, DISK_GB=9, aggregates="A"))
    assert serving(base, group(VCPU=1, DISK_GB=5, in_tree="host")) == {("host",)}
    assert serving(base, group(VCPU=1), group("_D", DISK_GB=5, in_tree="ss")) == {("host", "ss")}


def test_a_sharing_provider_below_a_root_shares_itself_but_not_its_tree():
    base = cloud(
        provider("array", DISK_GB=10),
        provider("pool", "array", DISK_GB=10, traits=SHARES, aggregates="A"),
        provider("host", VCPU=1, aggregates="A"),
    )
    assert serving(base, group(VCPU=1, DISK_GB=5)) == {("host+pool",)}


# Microversions below 1.29, and limits


def test_below_1_29_a_tree_supplies_one_provider():
    base = cloud(*NUMA, storage(), provider("flat", VCPU=1, DISK_GB=9))
    disk = group(VCPU=1, DISK_GB=5)
    assert serving(base, disk, nested=False) == {("flat",), ("numa0+ss",), ("numa1+ss",)}
    assert ("host+numa0",) in serving(base, disk)


def test_the_limit_ends_the_search():
    base = cloud(*(provider(f"host{n}", VCPU=4) for n in range(9)))
    assert len(found(base, group(VCPU=1), limit=3)) == 3
    assert len(found(base, group(VCPU=1), limit=100)) == 9
