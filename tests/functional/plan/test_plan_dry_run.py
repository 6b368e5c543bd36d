# SPDX-License-Identifier: Apache-2.0
"""A dry run of a plan file or of an undo reads the cloud: it shows what the run would do."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import pytest

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.functional.batch.test_undo import AMEND
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, checked, lines_of

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


PLANNED_ROWS = rows_of(one="planned", two="planned")
STALE = [IS_SIX, {"name": "two", "status": "planned"}]
# fmt: off
TABLE = [
    Row(f"{APPLY} {DRY_RUN}", "planned", 0, PLANNED_ROWS),
    Row(f"{APPLY} {DRY_RUN} --detailed-exitcode", "planned", 3),
    Row(f"{APPLY} {DRY_RUN}", "planned, and made", 0, rows_of(one="unchanged", two="unchanged")),
    Row(f"{APPLY} {DRY_RUN}", "planned, and changed", 7, STALE, unchanged=True),
    Row(f"{UNDO} {DRY_RUN}", "applied", 0, PLANNED_ROWS),
    Row(f"{UNDO} {DRY_RUN}", "applied, and changed", 7, STALE, unchanged=True),
    Row(f"{UNDO} {DRY_RUN}", "applied, and changed", 7, (), "1 planned, 1 stale"),
    Row(f"{APPLY} {DRY_RUN}", "planned, and used", 6,
        [{"name": "one", "status": "refused", "reason": ("7 used",)}], unchanged=True),
]
# fmt: on

test_a_dry_run_reads_the_cloud = checked(TABLE, STATES)


SAME = f"{AMEND} one two --resource VCPU:total=8"


test_only_a_run_that_changed_something_says_how_to_undo_it = checked(
    [
        Row(SAME, "fresh", 0, (), Absent("To undo")),
        Row(f"{RATIO}=3 --dry-run", "fresh", 0, (), Absent("To undo")),
        Row(f"{APPLY}", "planned, and made", 0, (), Absent("To undo")),
        Row(f"{APPLY}", "planned, and used", 6, (), Absent("To undo")),
        Row(f"{UNDO}", "applied", 0, (), Absent("To undo")),
        Row(f"{APPLY} --max-count 1", "planned, and changed", 7, (), "To undo: openstack"),
        Row(f"{RATIO}=3", "fresh", 0, (), "To undo: openstack"),
    ],
    {**STATES, "fresh": CLOUD},
)


AGGREGATE = uuid_of("aggregate")
MOVE = f"""
moves:
- from: {uuid_of("one")}
  resources: {{VGPU: all}}
  to: {{name: ended-gpu, parent: {uuid_of("one")}}}
"""
WITH_GPU = testing.Cloud().host("one", VCPU=8, VGPU=4).host("two", VCPU=8)
WITH_OLD = (
    testing.Cloud()
    .host("one", VCPU=8)
    .host("two", VCPU=8)
    .host("old", traits=["CUSTOM_OLD"], CUSTOM_OLD=1)
)
RESHAPE, TRAIT = "placement reshape move.yaml", "resource provider trait"
SET = (
    f"resource provider allocation set {uuid_of('server')} --allocation rp={uuid_of('one')},VGPU=1"
    " --project-id p --user-id u"
)
RECORDED = "--allow recorded-nova"
HEAL, AUDIT = (
    f"--os-nova-recording 12-hosts placement allocation heal {RECORDED}",
    f"--os-nova-recording 12-hosts placement allocation audit --repair {RECORDED} --allow many",
)
HOST = "cmp-0003.lab.example.org"


_REQUEST_ID = re.compile(r" \(Request-ID: [^)]*\)")


class Drift(NamedTuple):
    """A command whose plan is kept, and what somebody else does before it is applied or undone."""

    cloud: testing.Cloud | str
    command: str
    drift: str
    more: str = ""
    undo_drift: str = ""


DRIFTS = {
    "an inventory": Drift(CLOUD, f"{RATIO}=2", OTHER),
    "an inventory that is used": Drift(CLOUD, f"{AMEND} one --resource VCPU:total=4", OTHER),
    "a trait": Drift(
        CLOUD,
        f"{TRAIT} add --all --trait HW_CPU_X86_AVX",
        f"{TRAIT} add one --trait HW_CPU_X86_AVX",
    ),
    "a new trait": Drift(
        CLOUD, f"{TRAIT} add --create --all --trait CUSTOM_NEW", "trait create CUSTOM_NEW"
    ),
    "a membership": Drift(
        CLOUD,
        f"resource provider aggregate add --all --aggregate {AGGREGATE}",
        f"resource provider aggregate add two --aggregate {AGGREGATE}",
    ),
    "a provider that is gone": Drift(CLOUD, f"{RATIO}=2", "resource provider delete two"),
    "a tree": Drift(WITH_GPU, RESHAPE, SET, undo_drift=f"{AMEND} one-gpu --resource VGPU:total=9"),
    "a tree whose host is gone": Drift(WITH_GPU, RESHAPE, "resource provider delete --tree one"),
    "a tree with a used name": Drift(
        WITH_GPU,
        RESHAPE,
        "resource provider create one-gpu",
        undo_drift=f"{TRAIT} add one-gpu --trait HW_CPU_X86_AVX",
    ),
    "a tree whose class is gone": Drift(
        WITH_GPU,
        RESHAPE,
        "resource provider inventory delete one --resource-class VGPU",
        undo_drift="resource provider inventory delete one-gpu --resource-class VGPU",
    ),
    "a trait that is gone": Drift(
        WITH_OLD,
        f"{TRAIT} add one two --trait CUSTOM_OLD",
        f"{TRAIT} remove --all --trait CUSTOM_OLD\ntrait delete CUSTOM_OLD",
    ),
    "a class that is gone": Drift(
        WITH_OLD,
        f"{AMEND} one --create --resource CUSTOM_OLD:total=4",
        "resource provider inventory delete one --resource-class CUSTOM_OLD\n"
        "resource provider delete old\nresource class delete CUSTOM_OLD",
    ),
    "a host without room for a consumer that is healed": Drift(
        "12-hosts", HEAL, f"{AMEND} --all --resource MEMORY_MB:max_unit=1", RECORDED
    ),
    "a host without a class of a consumer that is healed": Drift(
        "12-hosts",
        HEAL,
        f"resource provider inventory delete {HOST} --resource-class MEMORY_MB",
        RECORDED,
    ),
    "the first failure ends the run": Drift(
        CLOUD,
        f"{RATIO}=2",
        "resource provider delete one",
        "--on-error stop --os-placement-workers 1",
    ),
    "a plan that removes too much": Drift("12-hosts", AUDIT, f"{AUDIT} --max-count 1", RECORDED),
    "a consumer that is healed": Drift("12-hosts", HEAL, f"{HEAL} --max-count 1", RECORDED),
    "a consumer that is repaired": Drift(
        "12-hosts", AUDIT, f"{AUDIT} --max-count 1", f"{RECORDED} --allow many"
    ),
}


@fixtures.usually_on("embedded", "placement")
@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.parametrize("undo", [False, True], ids=["apply", "undo"])
def test_a_dry_run_says_what_the_run_says_for_each_kind_of_change(
    name: str, undo: bool, openstack: OpenStack
) -> None:
    case = DRIFTS[name]
    State(case.cloud, files={"move.yaml": MOVE}).arrange(openstack)
    options = "--undo-out undo" if undo else "--dry-run --plan-out plan"
    made = openstack.run(f"{case.command} {options}")
    assert made.code in (0, 3, 6, 9), made
    state = openstack.target.state()
    for line in lines_of(case.undo_drift if undo and case.undo_drift else case.drift):
        openstack.run(line)
    assert undo or openstack.target.state() != state
    recording = "--os-nova-recording 12-hosts" if RECORDED in case.more else ""
    command = "placement plan undo undo" if undo else "placement plan apply plan"
    before = openstack.target.state()
    dry = openstack.run(f"{recording} {command} --dry-run {case.more} -f json")
    assert openstack.target.state() == before
    run = openstack.run(f"{recording} {command} {case.more} -f json")
    assert dry.code == run.code, (dry, run)
    rows = [
        [(row["name"], row["status"], row["reason"]) for row in json.loads(ended.stdout)]
        for ended in (dry, run)
    ]
    said, did = (sorted(_REQUEST_ID.sub("", str(row)) for row in listed) for listed in rows)
    assert said == [row.replace("'applied'", "'planned'") for row in did]
