# SPDX-License-Identifier: Apache-2.0
"""How often a request fits: equal to the claims that brute force finds."""

from __future__ import annotations

import contextlib
import random

import pytest

from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates import search
from osc_placement.workflows import compute_nodes
from osc_placement.workflows.capacity import count
from tests.support.candidates import cloud_builder, clouds
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force
from tests.support.clouds import compute_services


def total(base: state.CloudState, *groups: object, **binding: object) -> count.Capacity:
    roots = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
    return count.Counter(base, query(*groups, **binding)).count(roots)


@pytest.mark.seeds(30, long=1000)
def test_the_count_equals_brute_force(seed: int) -> None:
    draw = random.Random(f"count {seed}")
    base = brute_force.small_state(draw)
    roots = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
    for _ in range(3):
        request = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
        if not any(each.resources for each in request.groups):
            continue
        found = count.Counter(base, request).count(roots)
        assert found.count.least <= found.count.most
        with contextlib.suppress(brute_force.TooManyStates):
            assert brute_force.most(base, request) == found.count.least == found.count.most
        assert all(found.count.least <= each.fits for each in found.classes)


@pytest.mark.seeds(30, long=1000)
def test_without_some_trees_only_the_others_count(seed: int) -> None:
    draw = random.Random(f"without {seed}")
    base = brute_force.small_state(draw)
    request = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
    roots = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
    left_out = set(draw.sample(roots, draw.randint(1, len(roots))))
    if not any(each.resources for each in request.groups):
        return
    found = count.Counter(base, request, left_out).count(set(roots) - left_out)
    expected = brute_force.most(
        base,
        request,
        lambda each: left_out.isdisjoint(
            base.providers[uuid].root_uuid for uuid in each.allocations
        ),
    )
    assert found.count.least == expected


@pytest.mark.seeds(30, long=600)
def test_only_hosts_that_the_compute_filter_accepts_count(seed: int) -> None:
    draw = random.Random(f"services {seed}")
    base = brute_force.small_state(draw)
    request = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
    if not any(each.resources for each in request.groups):
        return
    roots = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
    states = compute_services.draw_states(draw, roots)
    accepted = compute_services.accepted(states)
    compute = compute_nodes.read_server_hosts(compute_services.nova(states))
    found = count.Counter(base, request, (), compute.refused(roots)).count(roots)
    of_host = brute_force.without_trees(base, ())
    assert found.count.least == brute_force.most(
        base, request, lambda each: of_host(each) and each.root_uuid in accepted
    )
    serving = {each.root_uuid for each in search.search(base, request) if of_host(each)}
    assert set(found.refused) >= serving - accepted
    assert accepted.isdisjoint(found.refused)
    assert all(found.count.least <= each.fits for each in found.classes)


def test_remaining_amounts_are_counted_in_units_of_the_class() -> None:
    base = clouds.cloud(
        provider("a", VCPU=8, MEMORY_MB=100),
        provider("b", VCPU=3, MEMORY_MB=100),
        provider("c", VCPU=1, MEMORY_MB=4),
        used={"a": {"VCPU": 1}},
    )
    found = total(base, group(VCPU=2, MEMORY_MB=10))
    assert (found.count.least, found.hosts, found.scarcest) == (4, 2, "VCPU")
    vcpu, memory = found.classes
    assert vcpu == count.ClassCapacity("VCPU", 2, 12, 1, 11, fits=4, left=3, fragmented=3)
    assert memory == count.ClassCapacity("MEMORY_MB", 10, 204, 0, 204, 20, left=164, fragmented=4)


def test_providers_that_the_request_may_not_use_do_not_count() -> None:
    base = clouds.cloud(
        provider("a", VCPU=8, traits="T"), provider("b", VCPU=8), provider("c", VCPU=8, traits="R")
    )
    found = total(base, group(VCPU=1, required="T"), root_forbidden=frozenset({"R"}))
    (vcpu,) = found.classes
    assert (found.count.least, found.hosts, vcpu.capacity) == (8, 1, 8)


def test_a_tree_with_too_many_candidates_gives_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osc_placement.workflows.cloud.options.PER_TREE", 1)
    base = clouds.cloud(provider("host"), provider("a", "host", VF=2), provider("b", "host", VF=3))
    found = total(base, group("1", VF=1))
    assert (found.count.least, found.count.most) == (2, 5)


def test_hosts_offer_more_than_shared_resources() -> None:
    base = clouds.cloud(
        provider("nfs", traits=clouds.SHARES, aggregates="A", DISK_GB=10),
        provider("host", aggregates="A"),
        provider("numa", "host", VCPU=2),
        provider("empty"),
    )
    assert count.hosts_of(base) == ["host"]
