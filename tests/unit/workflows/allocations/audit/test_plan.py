# SPDX-License-Identifier: Apache-2.0
"""The plan of repairs, and invariants of the audit."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies

from osc_placement.model import allocation
from osc_placement.model.candidate import RequestGroup
from osc_placement.neutron import api
from osc_placement.nova.flavor import Flavor
from osc_placement.workflows import findings
from osc_placement.workflows.allocations import audit
from osc_placement.workflows.allocations.snapshot import Owner
from tests.support import plans
from tests.support.clouds.audited import (
    CUSTOM,
    LARGE,
    NO_TYPE,
    PINNED,
    codes,
    context,
    find,
    on,
    repaired,
)
from tests.support.clouds.small import LONG_AGO, SMALL, USES, cloud, move, server

parts = strategies.dictionaries(
    strategies.sampled_from(["n-a.", "n-b.", "n-c.", "n-gone.", "u-nic", "u-nfs"]),
    strategies.dictionaries(
        strategies.sampled_from(["VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_X"]),
        strategies.integers(1, 3),
        min_size=1,
        max_size=3,
    ),
    max_size=3,
)


def test_wrong_owner_and_placeholder_have_different_codes() -> None:
    placeholder = Owner(allocation.PLACEHOLDER, allocation.PLACEHOLDER, "unknown")
    for owner, code in ((Owner("q", "u", "INSTANCE"), "wrong-owner"), (placeholder, "incomplete")):
        snapshot = cloud([server()], allocations={"s": on(a=USES)}, owners={"s": owner})
        found = find(snapshot)
        assert codes(found) == [code]
        (item,) = audit.plan_repair(snapshot, found).changes
        assert (plans.after(item)["project_id"], plans.after(item)["user_id"]) == ("p", "u")
        assert plans.after(item)["consumer_type"] == owner.type


def test_consumer_with_two_findings_is_written_once() -> None:
    snapshot = cloud(
        [server()], allocations={"s": on(a=USES, b=USES)}, owners={"s": Owner("q", "u", "INSTANCE")}
    )
    found = find(snapshot)
    assert codes(found) == ["doubled", "wrong-owner"]
    (item,) = audit.plan_repair(snapshot, found).changes
    assert plans.after(item)["n-b.:VCPU"] is None
    assert (plans.after(item)["n-a.:VCPU"], plans.after(item)["project_id"]) == (1, "p")
    (alone,) = audit.plan_repair(snapshot, findings.select(found, codes=["wrong-owner"])).changes
    assert plans.after(alone)["n-b.:VCPU"] == 1


def test_missing_binding_is_repaired_with_the_rest() -> None:
    egress = {"NET_BW_EGR_KILOBIT_PER_SEC": 10}
    port = api.Port("t", "t", "s", {"t": RequestGroup("t", egress)})
    snapshot = cloud(
        [server("b", flavor=LARGE)],
        allocations={"s": on(b=USES, nic=egress)},
        ports={"s": (port,)},
    )
    found = find(snapshot)
    assert codes(found) == ["missing", "wrong-size"]
    assert "do not name their providers" in found[0].evidence.text
    (item,) = audit.plan_repair(snapshot, found).changes
    assert item.kind == "bound allocations"
    assert (plans.before(item)["port t:t"], plans.after(item)["port t:t"]) == (None, "u-nic")
    assert (
        plans.after(item)["n-b.:VCPU"],
        plans.after(item)["u-nic:NET_BW_EGR_KILOBIT_PER_SEC"],
    ) == (2, 10)


def test_repairs_that_free_capacity_come_first() -> None:
    full = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 90}
    snapshot = cloud(
        [server()], allocations={"x": on(a=full)}, owners={"x": Owner("p", "u", "INSTANCE")}
    )
    found = find(snapshot)
    assert codes(found) == ["missing", "orphaned"]
    assert {
        item.subject.uuid: item.stage for item in audit.plan_repair(snapshot, found).changes
    } == {
        "x": 0,
        "s": 1,
    }


def test_select_narrows_to_hosts_and_codes() -> None:
    snapshot = cloud(
        [server(), server("b", uuid="t")], allocations={"x": on(c=USES)}, owners={"x": NO_TYPE}
    )
    found = find(snapshot)
    assert codes(findings.select(found, ["b"])) == ["missing"]
    assert codes(findings.select(found, ["c"], ["orphaned"])) == ["orphaned"]
    assert codes(findings.select(found, codes=["unknown"])) == []


def test_codes_are_those_of_all_checks() -> None:
    assert {*audit.CODES} == {*audit.REPAIR_ORDER, "unknown"}
    assert len(audit.CODES) == len(audit.REPAIR_ORDER) + 1


def test_time_of_another_clock_does_not_prevent_repair() -> None:
    later = "2030-01-01T00:00:00.000000"
    assert not context().too_young([later, LONG_AGO, ""])
    assert "0 seconds" in context().too_young(["2026-01-01T00:00:00"]).text


def test_amounts_are_unchanged_if_the_location_is_in_doubt() -> None:
    """After a correction on its host, its allocations elsewhere would look doubled."""
    devices = {"VCPU": 1, "MEMORY_MB": 1, "CUSTOM_X": 1}
    held = {**on(a={"VCPU": 1, "CUSTOM_X": 1}), **on(c=devices)}
    snapshot = cloud([server()], allocations={"s": held})
    found = find(snapshot)
    assert codes(found) == ["unknown"]
    assert repaired(snapshot, found) == {}


@hypothesis.given(
    held=parts,
    orphan=parts,
    host=strategies.sampled_from(["a", "b", "c", None]),
    state=strategies.sampled_from(["active", "resized", "shelved_offloaded", "error", "building"]),
    status_of=strategies.sampled_from(["running", "finished", "confirmed", "done", "error"]),
    kind=strategies.sampled_from(["resize", "evacuation", "live-migration"]),
    flavor=strategies.sampled_from([SMALL, LARGE, PINNED, CUSTOM]),
)
def test_second_audit_finds_nothing_to_repair(
    held: Any, orphan: Any, host: str | None, state: str, status_of: str, kind: str, flavor: Flavor
) -> None:
    one = server(host, vm_state=state, flavor=flavor)
    moves = [move(kind, status_of)]
    snapshot = cloud([one], moves, {k: v for k, v in {"s": held, "m": orphan}.items() if v})
    left = {**snapshot.allocations, **repaired(snapshot, found := find(snapshot))}
    again = find(cloud([one], moves, {uuid: each for uuid, each in left.items() if each}))
    assert [item for item in again if item.repair] == []
    providers = {"over-capacity", "stale-provider", "unknown"}
    assert all(item.repair or item.code in providers for item in found)
