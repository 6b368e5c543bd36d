# SPDX-License-Identifier: Apache-2.0
"""Targets are spread, and hosts with scarce things come last."""

from __future__ import annotations

from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import places as capacity_moves, steps, targets
from tests.support.candidates import clouds
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force, cases

LARGE = cases.wanted(query(group(VCPU=8)))


def chosen(base: state.CloudState) -> dict[str, tuple[str, str]]:
    """``{server: (its target, why)}`` when host a is emptied; a flavor "large" has 8 VCPU."""
    placed_servers = servers.servers_on(base, hosts_of(base))
    moves = capacity_moves.Moves(base, placed_servers, budgets.SearchBudget(), more=[LARGE])
    preference = targets.Preference(moves, ["a"], {"large": LARGE})
    moving = moves.servers_on(["a"])
    schedule = steps.schedule(moves, ["a"], moving, preference)
    return {step.server.uuid: (step.option.root_uuid, step.why) for step in schedule.steps}


def with_servers(base: state.CloudState, *amounts: int) -> state.CloudState:
    for number, amount in enumerate(amounts):
        base = brute_force.claim(base, f"s{number}", {"a": {"VCPU": amount}})
    return base


def test_servers_are_spread_over_the_emptiest_hosts() -> None:
    base = clouds.cloud(*(provider(name, VCPU=16) for name in "abcd"))
    roots = [root for root, _ in chosen(with_servers(base, 2, 2, 2)).values()]
    assert sorted(roots) == ["b", "c", "d"]


def test_a_host_with_devices_is_last_and_says_so() -> None:
    base = clouds.cloud(
        provider("a", VCPU=4),
        provider("b", VCPU=64),
        provider("b-gpu", "b", VGPU=4),
        provider("c", VCPU=3),
        provider("d", VCPU=1),
    )
    found = chosen(with_servers(base, 2, 2))
    assert sorted(root for root, _ in found.values()) == ["b", "c"]
    assert ("b", "the only host with room; it has VGPU") in found.values()


def test_a_host_with_a_rare_trait_of_a_flavor_is_last_but_not_for_who_requests_it() -> None:
    base = clouds.cloud(
        provider("a", VCPU=4),
        provider("b", VCPU=64, traits="CUSTOM_LICENCE CUSTOM_RACK_1"),
        provider("c", VCPU=3, traits="CUSTOM_RACK_2"),
        provider("d", VCPU=1),
    )
    licensed = query(group(VCPU=2, required="CUSTOM_LICENCE"))
    answers = []
    for queries in ({}, {"s0": licensed}):
        placed_servers = servers.servers_on(with_servers(base, 2), ["a"], cases.of_servers(queries))
        wanted = cases.wanted(licensed)
        moves = capacity_moves.Moves(base, placed_servers, budgets.SearchBudget(), more=[wanted])
        preference = targets.Preference(moves, ["a"], {"licensed": wanted})
        (step,) = steps.schedule(moves, ["a"], placed_servers, preference).steps
        answers.append((step.option.root_uuid, preference.scarce_beside(placed_servers[0], "b")))
    assert answers == [("c", ["CUSTOM_LICENCE"]), ("b", [])]


def test_the_last_place_for_a_large_flavor_is_kept() -> None:
    base = clouds.cloud(provider("a", VCPU=4), provider("b", VCPU=8), provider("c", VCPU=7))
    assert chosen(with_servers(base, 2)) == {"s0": ("c", "best of 2 hosts")}
    base = clouds.cloud(provider("a", VCPU=4), provider("b", VCPU=8), provider("c", VCPU=1))
    assert chosen(with_servers(base, 2)) == {
        "s0": ("b", "the only host with room; it is the last place for large")
    }
