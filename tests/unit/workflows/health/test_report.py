# SPDX-License-Identifier: Apache-2.0
"""The values of the report: fills, order, zones and the shapes of trees."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from osc_placement import server, testing
from osc_placement.engine import state
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.v1.health import report as pages
from osc_placement.workflows.cloud import rehearsal, source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.health import health, report
from tests.support.clouds import read

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)


def state_of(document: dict[str, Any]) -> state.CloudState:
    app = server.create_app(load=document)
    with (
        rehearsal.opened(lambda: app) as client,
        source.of(client, ReadContext()).everything() as base,
    ):
        return base


def built(document: dict[str, Any], figures: report.Figures | None = None) -> report.Report:
    return report.build("a test", NOW, state_of(document), figures or report.Figures())


def built_of(kit: testing.Cloud) -> report.Report:
    """The report with what nova says of its hosts."""
    cloud = read.hosts(kit)
    return built(kit.document(), report.Figures(cloud.aggregates, ServerHosts(cloud.hosts)))


def cloud(*providers: tuple[str, str | None, dict[str, Any], int]) -> dict[str, Any]:
    """Providers ``(name, name of the parent, inventories, used VCPU)``."""
    made = testing.Cloud()
    for name, parent, inventories, used in providers:
        made.host(name, parent=parent, **inventories)
        if used:
            made.server(f"server on {name}", {name: {"VCPU": used}})
    return made.document()


@pytest.mark.parametrize(
    ("capacity", "used", "percent"),
    [
        (100, 0, 0),
        (1000, 1, 1),
        (1000, 999, 99),
        (10, 10, 100),
        (10, 12, 120),
        (0, 0, 0),
        (0, 1, 100),
    ],
)
def test_a_fill_is_0_only_if_unused_and_100_only_if_full(
    capacity: int, used: int, percent: int
) -> None:
    assert report.ClassUse("VCPU", capacity, used).percent == percent


def test_the_sums_are_those_of_all_providers() -> None:
    document = testing.sample_cloud("200-hosts")
    total = built(document).uses
    for use in total:
        inventories = [
            item["inventories"][use.name]
            for item in document["providers"].values()
            if use.name in item["inventories"]
        ]
        capacity = sum(
            int((item["total"] - item.get("reserved", 0)) * item.get("allocation_ratio", 1.0))
            for item in inventories
        )
        used = sum(
            amounts.get(use.name, 0)
            for consumer in document["consumers"].values()
            for amounts in consumer["allocations"].values()
        )
        assert (use.capacity, use.used) == (capacity, used)


def test_hosts_are_sorted_by_number_and_colored_by_their_scarcest_class() -> None:
    small, large = {"VCPU": {"total": 4}, "DISK_GB": {"total": 100}}, {"VCPU": {"total": 40}}
    page = built(cloud(("h10", None, small, 3), ("h9", None, large, 3), ("h2", None, small, 0)))
    assert [(host.name, host.percent) for host in page.hosts] == [("h2", 0), ("h9", 7), ("h10", 75)]
    assert [host.name for host in page.hottest] == ["h10", "h9"]
    assert [host.name for host in page.emptiest] == ["h2", "h9", "h10"]
    assert page.hosts[2].scarcest == report.ClassUse("VCPU", 4, 3)


def test_hosts_that_take_no_server_are_marked_and_zones_are_those_of_nova() -> None:
    kit = testing.Cloud("host-{}").compute("a", VCPU=4)
    kit.compute("b", service={"status": "disabled"}, VCPU=4).host("c", VCPU=4)
    page = built_of(kit.aggregate("rack", ["b"], availability_zone="az1"))
    assert {host.name: host.refused for host in page.hosts} == {
        "a": "",
        "b": "nova-compute disabled",
        "c": "nova lists no compute node",
    }
    assert [(zone, [host.name for host in hosts]) for zone, hosts in page.zones] == [
        ("az1", ["b"]),
        ("", ["a", "c"]),
    ]
    assert [host.name for host in page.emptiest] == ["a"]


def test_zones_and_aggregates_have_nova_s_hosts_and_say_what_placement_has() -> None:
    kit = testing.Cloud().compute("a", aggregates=["az", "foreign"], VCPU=4)
    kit.compute("b", "c", VCPU=4).compute("d", aggregates=["az"], VCPU=4)
    for name in "abcd":
        kit.server(f"on {name}", {name: {"VCPU": 1}})
    kit.aggregate("az", "abc", availability_zone="az1").aggregate("rack", "b")
    page = built_of(kit)
    assert {
        (part.name or part.members): (part.hosts, part.mirrored, part.by_class["VCPU"].used)
        for part in page.aggregates
    } == {"az": (3, 1, 3), "rack": (1, 0, 1), "a": (1, 1, 1)}
    assert [(host.name, host.zone, host.in_zone) for host in page.hosts] == [
        ("a", "az1", True), ("b", "az1", False), ("c", "az1", False), ("d", "", True),
    ]  # fmt: skip
    text = pages.page(page)
    assert "1 of 3 in Placement" in text
    assert f"<small>{testing.uuid_of('foreign')}</small>" in text


def test_the_head_of_the_page_counts_what_was_not_checked_and_gives_each_reason_once() -> None:
    areas = [
        health.Area("allocations", error="no nova"),
        health.Area("flavors", error="no nova", not_checked=["x"]),
        health.Area("hosts", unread=["the cell of c is down"]),
        health.Area("placement", checked="API"),
    ]
    lines = tuple(health.lines(areas, today=NOW.date()))
    page = report.build("a test", NOW, state_of(cloud()), report.Figures(), lines, areas)
    assert page.unread == {
        "no nova": ["allocations", "flavors"], "the cell of c is down": ["hosts"]
    }  # fmt: skip
    text = pages.page(page)
    assert "<b>3 of 4</b>" in text
    assert text.count("no nova") == text.count("the cell of c is down") == 1
    assert "No problem was found in what was checked." in text


def test_trees_of_one_shape_are_drawn_once_and_children_alike_are_counted() -> None:
    def tree(root: str, children: int) -> list[tuple[str, str | None, dict[str, Any], int]]:
        vgpu = {"VGPU": {"total": 1}}
        return [
            (root, None, {"VCPU": {"total": 4}}, 0),
            *((f"{root}-{number}", root, vgpu, 0) for number in range(children)),
        ]

    page = built(cloud(*tree("a", 6), *tree("b", 6), *tree("c", 0), *tree("d", 0), *tree("e", 0)))
    assert [shape.names for shape in page.trees] == [("c", "d", "e"), ("a", "b")]
    drawn = page.trees[1].root
    assert [child.name for child in drawn.children] == ["a-0", "a-1", "a-2", "a-3"]
    assert drawn.more == 2


def test_a_common_domain_is_left_out_only_if_all_hosts_have_it() -> None:
    inventory = {"VCPU": {"total": 4}}
    same = cloud(("a.example.org", None, inventory, 0), ("b.example.org", None, inventory, 0))
    other = cloud(("a.example.org", None, inventory, 0), ("b.example.com", None, inventory, 0))
    assert (built(same).domain, built(other).domain) == (".example.org", "")


@pytest.mark.parametrize(
    ("number", "resource_class", "text"),
    [
        (3584, "MEMORY_MB", "3.5 GiB"),
        (512, "MEMORY_MB", "512 MiB"),
        (2048, "DISK_GB", "2 TiB"),
        (1234567, "VCPU", "1,234,567"),
        (2**31 * 10**6, "DISK_GB", "2,000,000 EiB"),
    ],
)
def test_amounts_have_units(number: int, resource_class: str, text: str) -> None:
    assert pages.amount(number, resource_class) == text
