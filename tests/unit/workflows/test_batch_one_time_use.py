# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: the guard that keeps what nova reserved, and the selector of unused."""

from __future__ import annotations

from typing import Any

from osc_placement.model import inventory
from osc_placement.plan import plan, result
from osc_placement.workflows import batch, selector
from tests.support import embedded, plans
from tests.support.batch_runs import statuses

TRAIT = "HW_PCI_ONE_TIME_USE"
CLASS = "PCI_DEVICE"
EVERYTHING = selector.Selector(everything=True)
USAGES = "GET /resource_providers/{}/usages"
LISTING = "GET /resource_providers"


def device(name: str, *traits: str, reserved: int = 1) -> embedded.Host:
    offered = inventory.Inventory(total=1, max_unit=1, reserved=reserved)
    return embedded.Host(name, traits, inventories={CLASS: offered})


def cloud() -> embedded.Client:
    """``used`` has a server, ``dirty`` had one, ``clean`` had none; ``other`` is for many."""
    client = embedded.Client(
        [
            device("clean", TRAIT, reserved=0),
            device("dirty", TRAIT),
            device("used", TRAIT, reserved=0),
            device("other", reserved=0),
        ]
    )
    for name in ("used", "other"):
        client.stored(name).use(CLASS, 1)
        client.stored(name).set_inventory(CLASS, reserved=1)
    client.sent.clear()
    return client


def release(client: embedded.Client, **fields: Any) -> plan.ObservedPlan:
    selected = fields.pop("selected", EVERYTHING)
    return batch.plan_amend(client, selected, [f"{CLASS}:reserved=0"], **fields)


def by_name(report: result.RunReport) -> dict[str, tuple[str, str]]:
    return {item.subject.name: (str(item.status), item.code) for item in report.results}


def test_a_device_in_use_keeps_what_nova_reserved() -> None:
    client = cloud()
    report = plans.apply_new(client, release(client))
    assert by_name(report) == {
        "clean": ("unchanged", ""),
        "dirty": ("applied", ""),
        "used": ("refused", "one-time-use"),
        "other": ("applied", ""),
    }
    (refused,) = [item for item in report.results if item.subject.name == "used"]
    assert refused.reason == (
        f"{CLASS} of a one-time-use device would be free with 1 in use"
        " (--allow one-time-use to do it anyway)"
    )
    assert client.stored("used").inventories[CLASS].reserved == 1


def test_the_guard_reads_traits_only_where_a_used_up_class_gets_capacity() -> None:
    client = cloud()
    release(client)
    assert client.count()[LISTING] == 2
    client.sent.clear()
    batch.plan_amend(client, EVERYTHING, [f"{CLASS}:reserved=1"])
    assert client.count()[LISTING] == 1


def test_a_device_that_a_server_gets_after_planning_is_kept() -> None:
    client = embedded.Client([device("a", TRAIT)])
    planned = release(client)
    client.stored("a").set_inventory(CLASS, reserved=0)
    client.stored("a").use(CLASS, 1)
    client.stored("a").set_inventory(CLASS, reserved=1)
    assert by_name(plans.apply_new(client, planned)) == {"a": ("refused", "one-time-use")}


def test_unused_selects_providers_without_allocations() -> None:
    client = cloud()
    chosen = selector.select(client, selector.Selector(required=(TRAIT,), unused=True))
    assert [item.name for item in chosen.providers] == ["clean", "dirty"]
    assert client.count() == {LISTING: 1, USAGES: 3}
    client.sent.clear()
    alone = selector.select(client, selector.Selector(unused=True))
    assert [item.name for item in alone.providers] == ["clean", "dirty"]
    assert client.count() == {LISTING: 1, USAGES: 4}
    named = selector.Selector(providers=("used", "dirty"), unused=True)
    assert [item.name for item in selector.select(client, named).providers] == ["dirty"]
    assert str(named) == "used dirty --unused"


def test_a_trait_that_placement_does_not_know_is_on_no_device() -> None:
    client = cloud()
    unknown = embedded.at(LISTING, embedded.refuse(400, "No such trait(s)"))
    selected = selector.Selector(providers=("used", "other"))
    client.before(lambda request: unknown(request) if "required" in request.query else None)
    report = plans.apply_new(client, release(client, selected=selected))
    assert statuses(report) == {"applied": 2}
