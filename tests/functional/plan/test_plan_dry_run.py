# SPDX-License-Identifier: Apache-2.0
"""A dry run of a plan file or of an undo reads the cloud: it shows what the run would do."""

from __future__ import annotations

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.functional.batch.test_undo import AMEND
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, table

CLOUD = testing.Cloud().host("one", VCPU=8).host("two", VCPU=8)
RATIO = f"{AMEND} --all --resource VCPU:allocation_ratio"
PLANNED = State(CLOUD, before=[f"{RATIO}=2 --dry-run --plan-out plan"])
APPLIED = State(CLOUD, before=[f"{RATIO}=2 --plan-out plan --undo-out undo"])
OTHER = f"{AMEND} one --resource VCPU:allocation_ratio=6"
STATES = {
    "planned": PLANNED,
    "planned, and changed": State(CLOUD, before=[*PLANNED.before, OTHER]),
    "planned, and made": State(CLOUD, before=[*PLANNED.before, f"{RATIO}=2"]),
    "applied": APPLIED,
    "applied, and changed": State(CLOUD, before=[*APPLIED.before, OTHER]),
    "planned, and used": State(
        CLOUD,
        before=[
            f"{AMEND} one --resource VCPU:total=4 --dry-run --plan-out plan",
            f"{AMEND} one --resource VCPU:reserved=1 --resource VCPU:max_unit=8",
            f"resource provider allocation set {uuid_of('server')} --allocation"
            f" rp={uuid_of('one')},VCPU=7 --project-id p --user-id u",
        ],
    ),
}
APPLY, UNDO = "placement plan apply plan", "placement plan undo undo"
DRY_RUN = "--dry-run -c name -c status -c reason"


def rows_of(**statuses: str) -> list[dict[str, str]]:
    return [{"name": name, "status": status} for name, status in statuses.items()]


IS_SIX = {"name": "one", "status": "stale", "reason": ("VCPU:allocation_ratio=6.0",)}


@table(
    [
        Row(f"{APPLY} {DRY_RUN}", "planned", 0, rows_of(one="planned", two="planned")),
        Row(f"{APPLY} {DRY_RUN} --detailed-exitcode", "planned", 3),
        Row(
            f"{APPLY} {DRY_RUN}", "planned, and made", 0, rows_of(one="unchanged", two="unchanged")
        ),
        Row(
            f"{APPLY} {DRY_RUN}",
            "planned, and changed",
            7,
            [IS_SIX, {"name": "two", "status": "planned"}],
            unchanged=True,
        ),
        Row(f"{UNDO} {DRY_RUN}", "applied", 0, rows_of(one="planned", two="planned")),
        Row(
            f"{UNDO} {DRY_RUN}",
            "applied, and changed",
            7,
            [IS_SIX, {"name": "two", "status": "planned"}],
            unchanged=True,
        ),
        Row(f"{UNDO} {DRY_RUN}", "applied, and changed", 7, (), "1 planned, 1 stale"),
        Row(
            f"{APPLY} {DRY_RUN}",
            "planned, and used",
            6,
            [{"name": "one", "status": "refused", "reason": ("7 used",)}],
            unchanged=True,
        ),
    ]
)
def test_a_dry_run_reads_the_cloud(row: Row, openstack: OpenStack) -> None:
    row.check(openstack, STATES)
