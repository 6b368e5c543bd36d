# SPDX-License-Identifier: Apache-2.0
"""The audit with a real keystone, nova and placement: the seed contains the expected codes."""

from __future__ import annotations

from typing import Any

import pytest

from lab import database, nova_manage, place
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

#: The lab was seeded a moment ago.
AUDIT = "placement allocation audit --min-age 0"

#: Codes that differ from the seed: the type of one consumer is another service's, one provider
#: lacks the trait COMPUTE_NODE, and with --min-age 0 an evacuation is stuck at once.
DIFFERENT = {
    "container": "",
    "cmp-gone.lab.example.org": "unknown",
    "mg-evacuating": "stuck-move",
}


class Cloud(conftest.SeededCloud):
    """What the seed says about the contents of placement."""

    @property
    def filling(self) -> str:
        return str(self.seed["consumers"]["filling"]["uuid"])

    def known(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """``{uuid: (name, entry of the seed)}`` for everything that may have a finding."""
        kinds = ("servers", "consumers", "faulty")
        return {
            entry["uuid"]: (f"{kind} {name}", entry)
            for kind in kinds
            for name, entry in self.seed[kind].items()
        }

    def state(self) -> dict[str, Any]:
        """``{consumer: its allocations and owner}``, without generations."""
        allocations = {}
        for uuid in self.known():
            body = self.ask("placement", "GET", f"/allocations/{uuid}")
            body.pop("consumer_generation", None)
            for part in body["allocations"].values():
                del part["generation"]
            allocations[uuid] = body
        return allocations


def expected_code(name: str, entry: dict[str, Any]) -> str:
    """The code that the audit should report; empty for none."""
    own = name.split()[1]
    if own in DIFFERENT:
        return DIFFERENT[own]
    code = str(entry["audit"])
    return "unknown" if code == "missing" and entry.get("stays") else code


def test_every_seeded_fault_has_its_code_and_nothing_else_has_one(cloud: Cloud) -> None:
    codes: dict[str, set[str]] = {}
    for row in cloud.rows(AUDIT, 3):
        codes.setdefault(row["uuid"], set()).add(row["code"])
    objects = cloud.known()
    assert codes.keys() <= objects.keys()
    found_codes = {name: codes.get(uuid, set()) for uuid, (name, _) in objects.items()}
    assert found_codes == {
        name: {expected_code(name, fields)} - {""} for name, fields in objects.values()
    }


def test_repair_leaves_only_unknown_and_undo_restores_everything(cloud: Cloud) -> None:
    before = cloud.state()
    codes = cloud.rows(f"{AUDIT} --repair --undo-out undo.json", 9)
    assert {row["status"] for row in codes} == {"applied", "skipped"}
    again = cloud.rows(AUDIT, 0)
    assert {row["code"] for row in again} == {"unknown", "stuck-move"}
    # One consumer exceeds its host's capacity: Placement refuses to write it again.
    undone = cloud.rows("placement plan undo undo.json", 6)
    assert [row["name"] for row in undone if row["status"] == "failed"] == [cloud.filling]
    after = cloud.state()
    assert {uuid for uuid in before if before[uuid] != after[uuid]} == {cloud.filling}


def test_nova_manage_then_reports_only_its_false_positives(
    cloud: Cloud, seeded_lab: place.Place
) -> None:
    cloud.rows(f"{AUDIT} --repair", 9)
    left = {row["uuid"] for row in cloud.rows(AUDIT, 0)}
    database.save(seeded_lab, "repaired")
    objects = cloud.known()
    uuids = {uuid for uuid, _ in nova_manage.audit(seeded_lab, state="repaired").findings}
    assert {objects[uuid][0].split()[1] for uuid in uuids - left} == {
        "al-shared",
        "al-shared-only",
        "container",
        "mg-evacuated",
        "mg-live-both",
        "mg-live-new",
        "mg-resizing-new",
        "xx-shared",
    }
