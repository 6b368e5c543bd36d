# SPDX-License-Identifier: Apache-2.0
"""Replacing inventories of VGPU_DISPLAY_HEAD by traits: decisions, requests, and the limit."""

from __future__ import annotations

import pytest

from osc_placement.model import inventory
from osc_placement.plan import plan, result
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.migrations import display_heads
from tests.support import embedded, plans
from tests.support.batch_runs import statuses

INVENTORIES = "GET /resource_providers/{}/inventories"
CONTEXT = ReadContext()


def gpu(name: str, traits: tuple[str, ...] = (), used: int = 0, **heads: int) -> embedded.Host:
    offered = {
        "VGPU": inventory.Inventory(total=16),
        display_heads.CLASS: inventory.Inventory(**{"total": 64, "max_unit": 4, **heads}),
    }
    return embedded.Host(
        name, traits, used={display_heads.CLASS: used} if used else {}, inventories=offered
    )


def trait(count: int) -> str:
    return f"HW_GPU_MAX_DISPLAY_HEADS_{count}"


def applied(client: embedded.Client, planned: plan.ObservedPlan) -> result.RunReport:
    return plans.apply_new(client, planned)


def reasons(report: result.RunReport) -> dict[str, str]:
    return {item.subject.name: item.reason for item in report.results if item.reason}


@pytest.mark.parametrize(
    ("total", "max_unit", "heads"),
    [
        (64, 4, 4),
        (64, 1, 1),
        (64, 3, 2),
        (64, 7, 6),
        (64, 16, 8),
        (4, inventory.MAX_AMOUNT, 4),
        (2, 8, 2),
    ],
)
def test_the_trait_promises_no_more_heads_than_a_server_can_have(
    total: int, max_unit: int, heads: int
) -> None:
    offered = inventory.Inventory(total=total, max_unit=max_unit)
    assert display_heads.trait_of(offered) == trait(heads)


def test_no_trait_is_set_without_heads() -> None:
    assert display_heads.trait_of(inventory.Inventory(total=0)) is None


def test_traits_are_added_once_and_other_traits_stay() -> None:
    client = embedded.Client(
        [
            embedded.Host("cpu"),
            gpu("a", ("CUSTOM_A",)),
            gpu("b", max_unit=2),
            gpu("c", (trait(8),)),
            gpu("d", (trait(4),)),
        ]
    )
    report = applied(client, display_heads.plan_traits(client, CONTEXT))
    assert statuses(report) == {"applied": 2, "unchanged": 2}
    assert client.stored("a").traits == {"CUSTOM_A", trait(4)}
    assert client.stored("b").traits == {trait(2)}
    assert reasons(report) == {"c": f"it has the trait {trait(8)} already"}
    assert client.count() == {
        "GET /resource_providers": 1 + len(display_heads.TRAITS),
        INVENTORIES: 5,
        "GET /resource_providers/{}/traits": 2,
        "PUT /resource_providers/{}/traits": 2,
    }
    again = applied(client, display_heads.plan_traits(client, CONTEXT))
    assert statuses(again) == {"unchanged": 4}


def test_a_cloud_without_the_class_needs_one_request_per_provider() -> None:
    client = embedded.Client(embedded.hosts(3))
    assert not display_heads.plan_traits(client, CONTEXT).plan.items()
    assert client.count() == {"GET /resource_providers": 1, INVENTORIES: 3}


def test_only_unused_inventories_of_providers_with_a_trait_are_removed() -> None:
    names = ("unused", "used", "untraited")
    client = embedded.Client(
        [gpu("unused", (trait(4),)), gpu("used", (trait(4),), used=3), gpu("untraited")]
    )
    report = applied(client, display_heads.plan_removal(client, CONTEXT))
    assert statuses(report) == {"applied": 1, "refused": 2}
    offered = {name: display_heads.CLASS in client.stored(name).inventories for name in names}
    assert offered == {"unused": False, "used": True, "untraited": True}
    assert "VGPU" in client.stored("unused").inventories
    assert "3 in use" in reasons(report)["used"]
    assert "run add_display_head_traits first" in reasons(report)["untraited"]


def test_an_allocation_after_planning_keeps_the_inventory() -> None:
    client = embedded.Client([gpu("a", (trait(4),))])
    planned = display_heads.plan_removal(client, CONTEXT)
    client.stored("a").use(display_heads.CLASS, 1)
    assert statuses(applied(client, planned)) == {"refused": 1}
    assert display_heads.CLASS in client.stored("a").inventories


def test_many_removals_need_the_guard() -> None:
    client = embedded.Client([gpu(f"gpu-{number}", (trait(4),)) for number in range(30)])
    planned = display_heads.plan_removal(client, CONTEXT)
    assert planned.plan.existing == {"inventories": 60}
    assert applied(client, planned).count(result.Status.REFUSED) == 30
    assert client.writes == 0
