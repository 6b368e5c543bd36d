# SPDX-License-Identifier: Apache-2.0
"""Findings about consumers without a server in small snapshots."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.workflows.allocations.snapshot import CloudSnapshot, Owner
from tests.support.clouds.audited import (
    CPUS,
    DISK,
    GONE,
    JUST_NOW,
    NO_TYPE,
    codes,
    find,
    on,
    repaired,
)
from tests.support.clouds.small import NODES, USES, cloud, move, server

#: A consumer that nova does not know: its allocations, its owner, the context, and the code.
UNKNOWN_CONSUMERS: dict[str, tuple[dict[str, Any], Owner, dict[str, Any], str]] = {
    "of nova's classes and project": (on(a=CPUS), NO_TYPE, {}, "orphaned"),
    "of a placeholder": (
        on(a=CPUS),
        Owner(allocation.PLACEHOLDER, allocation.PLACEHOLDER, "unknown"),
        {},
        "orphaned",
    ),
    "on two hosts": (on(a=CPUS, b=CPUS), NO_TYPE, {}, "orphaned"),
    "of a type of nova's": (on(a={"CUSTOM_X": 1}), Owner("x", "u", "INSTANCE"), {}, "orphaned"),
    "on a port's device": (on(nic={"NET_BW_EGR_KILOBIT_PER_SEC": 1}), NO_TYPE, {}, "orphaned"),
    "on a deleted provider": (on(gone=CPUS), NO_TYPE, {}, "orphaned"),
    "below microversion 1.38": (on(a=CPUS), Owner("p", "u"), {}, "orphaned"),
    "of another service's type": (on(a=CPUS), Owner("p", "u", "CONTAINER"), {}, ""),
    "of a project that nova does not know": (on(a=CPUS), Owner("x", "u", "unknown"), {}, "unknown"),
    "of an operator's own class": (on(a={"CUSTOM_X": 1}), NO_TYPE, {}, "unknown"),
    "on a disk that others may use": (on(nfs=DISK), NO_TYPE, {}, "unknown"),
    "where Zun is": (on(a=CPUS), NO_TYPE, {"other_service": "Zun"}, "unknown"),
}


@pytest.mark.parametrize("name", UNKNOWN_CONSUMERS)
def test_unknown_consumer_is_orphaned_only_if_nova_created_it(name: str) -> None:
    held, owner, more, code = UNKNOWN_CONSUMERS[name]
    others = server("a", uuid="o")
    snapshot = cloud([others], allocations={"x": held, "o": on(a=USES)}, owners={"x": owner})
    found = find(snapshot, **more)
    assert codes(found) == ([code] if code else [])
    assert repaired(snapshot, found) == ({"x": {}} if code == "orphaned" else {})


def test_consumer_that_nova_cannot_show_is_unknown() -> None:
    snapshot = cloud(
        [server("a", uuid="o")],
        allocations={"x": on(a=CPUS), "o": on(a=USES)},
        owners={"x": NO_TYPE},
        unconfirmed={"x": "503"},
    )
    assert codes(find(snapshot)) == ["unknown"]


def test_only_nova_allocates_the_class_of_a_bare_metal_node() -> None:
    node = values.ComputeNode("u-nfs", "nfs", "ironic")
    snapshot = cloud(
        [server("a", uuid="o")],
        allocations={"x": on(nfs={"CUSTOM_GOLD": 1}), "o": on(a=USES)},
        owners={"x": NO_TYPE},
        hosts=values.Hosts(nodes=(*NODES, node)),
        sharing={},
    )
    assert codes(find(snapshot)) == ["orphaned"]


def test_consumer_may_belong_to_a_cell_that_is_down() -> None:
    down = values.Hosts(nodes=NODES[:2], unreachable=frozenset({"c"}))
    typed = Owner("p", "u", "MIGRATION")
    snapshot = cloud(
        [server("a", uuid="o")],
        allocations={"x": on(c=USES), "y": on(b=USES), "o": on(a=USES)},
        owners={"x": typed, "y": typed},
        hosts=down,
    )
    found = {item.subject.uuid: item.code for item in find(snapshot)}
    assert (found["x"], found["y"]) == ("unknown", "orphaned")


def test_several_hosts_that_nova_does_not_know_may_be_another_novas() -> None:
    nodes = values.Hosts(nodes=NODES[:1])
    held: dict[str, Any] = {"x": on(b=USES), "y": on(c=USES), "z": on(a=USES), "o": on(a=USES)}
    typed = dict.fromkeys("xyz", Owner("p", "u", "INSTANCE"))
    snapshot = cloud([server("a", uuid="o")], allocations=held, owners=typed, hosts=nodes)

    def orphaned(snapshot: CloudSnapshot, **fields: Any) -> set[str]:
        found = find(snapshot, **fields)
        return {item.subject.uuid for item in found if item.code == "orphaned"}

    assert orphaned(snapshot) == {"z"}
    assert "another nova's" in next(
        item.evidence.text for item in find(snapshot) if item.subject.uuid == "x"
    )
    # The operator names the host; or nova has a record of a server there, or a server.
    assert orphaned(snapshot, hosts=frozenset({"b."})) == {"x", "z"}
    once = dataclasses.replace(
        snapshot, deleted_servers={"d": dataclasses.replace(GONE, node="b.")}
    )
    assert orphaned(once) == {"x", "y", "z"}
    there = {**held, "o": on(b=USES)}
    assert orphaned(dataclasses.replace(snapshot, allocations=there)) == {"x", "y", "z"}
    # A single such host was removed.
    assert orphaned(dataclasses.replace(snapshot, allocations={"x": held["x"]})) == {"x"}


@pytest.mark.parametrize(("is_known", "unconfirmed"), [(False, {}), (True, {"another": "503"})])
def test_no_consumer_is_orphaned_if_a_cell_went_down_during_the_audit(
    is_known: bool, unconfirmed: dict[str, str]
) -> None:
    snapshot = cloud(
        [server("a", uuid="o", known=is_known)],
        allocations={"x": on(a=USES), "o": on(a=USES)},
        owners={"x": Owner("p", "u", "MIGRATION")},
        unconfirmed=unconfirmed,
    )
    (found,) = find(snapshot)
    assert (found.code, "cell that is down" in found.evidence.text) == ("unknown", True)


def test_consumers_of_deleted_server_and_of_its_migration_are_orphaned() -> None:
    snapshot = cloud(
        [],
        [move("resize", "finished")],
        {"s": on(b=USES), "m": on(a=USES)},
        deleted_servers={"s": GONE},
    )
    found = find(snapshot)
    assert codes(found) == ["orphaned", "orphaned"]
    assert [item.subject.name for item in found] == ["resize of vm-s", "vm-s"]
    late = dataclasses.replace(GONE, updated=JUST_NOW)
    assert "unknown" in {
        item.code for item in find(dataclasses.replace(snapshot, deleted_servers={"s": late}))
    }


def test_open_migration_without_server_is_unknown() -> None:
    for state, code in (("finished", "unknown"), ("confirmed", "orphaned")):
        snapshot = cloud([], [move("resize", state)], {"m": on(a=USES)})
        assert [item.code for item in find(snapshot)] == [code]
