# SPDX-License-Identifier: Apache-2.0
"""The example of a policy in the documentation, on real plans; and the Markdown of a plan."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from osc_placement import testing
from tests.functional.explain.test_nova_questions import ALIAS
from tests.support.peer import fixtures, process, shell
from tests.support.rows import Row, State, checked

POLICY = process.ROOT / "doc" / "source" / "user" / "reference" / "policy" / "test_plan.py"
TRAIT = "resource provider trait add --trait HW_CPU_X86_AVX512F cmp-0009.lab.example.org"

pytestmark = fixtures.ON_ONE_TARGET


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(
    ("command", "failed"),
    [
        ("resource provider inventory amend --all --resource VCPU:allocation_ratio=5", []),
        (
            "resource provider inventory amend --all --resource VCPU:allocation_ratio=17",
            ["test_no_ratio_is_too_high"],
        ),
        (TRAIT, ["test_no_trait_of_a_driver_changes"]),
        (
            "resource provider trait remove --trait HW_CPU_X86_AVX2 cmp-0002.lab.example.org"
            " --allow standard-traits",
            ["test_no_guard_is_off", "test_no_trait_of_a_driver_changes"],
        ),
    ],
)
def test_the_policy_of_the_documentation_judges_plans(
    openstack: shell.OpenStack, command: str, failed: list[str]
) -> None:
    made = openstack.run(*command.split(), "--dry-run", "--plan-out", "plan.json")
    assert made.code == 0, made
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf", str(POLICY)],
        env={**os.environ, "PLAN": "plan.json", "PYTEST_ADDOPTS": ""},
        cwd=".",
        capture_output=True,
        text=True,
    )
    summary = [line.partition("::")[2] for line in ended.stdout.splitlines() if "FAILED" in line]
    assert sorted(line.split()[0] for line in summary) == failed, ended.stdout
    assert ended.returncode == (1 if failed else 0)


def services_down() -> dict[str, Any]:
    nova = testing.sample_nova("12-hosts")
    for service in nova["GET /v2.1/os-services"]["services"]:
        service["state"] = "down"
    return nova


AVX2 = "resource provider trait remove --trait HW_CPU_X86_AVX2 --name-glob cmp-000*"
RESERVED = "resource provider inventory amend --all --resource VCPU:reserved=1"
PLAN, ALL = "--dry-run --plan-out plan.json", "--max-percent 100"
SHOW = "placement plan show plan.json"
GATE = f"{SHOW} --impact --fail-on flavor-lost"
RECORDED = "--os-nova-recording 12-hosts"
STATES = {
    "trait": State("12-hosts", before=[f"{TRAIT} {PLAN}"]),
    "trait of nine": State("12-hosts", before=[f"{AVX2} --allow standard-traits {ALL} {PLAN}"]),
    "trait of all": State(
        "12-hosts", before=[f"{AVX2.replace('000', '')} --allow standard-traits {ALL} {PLAN}"]
    ),
    "refused flavor": State(
        testing.Cloud("nova-{}")
        .compute("one", "two", VCPU=4, MEMORY_MB=64)
        .flavor("ok", ram=16)
        .flavor("wrong", ram=16, extra_specs={"hw:tpm_version": "9"})
        .flavor("pci", ram=16, extra_specs={"pci_passthrough:alias": "nic:1"}),
        files={"nova.conf": f"{ALIAS}[filter_scheduler]\npci_in_placement = true\n"},
        before=[f"resource provider inventory amend one --resource VCPU:reserved=3 {PLAN}"],
    ),
    "all down": State("12-hosts", services_down(), before=[f"{RESERVED} {ALL} {PLAN}"]),
}
HOST = "cmp-0001.lab.example.org"
DOWN = {"host": HOST, "reason": "nova-compute down"}

# fmt: off
TABLE = [
    Row(f"{SHOW} --format markdown", "trait", 0,
        ("## Plan: 1 to change; ", "<summary>1 change</summary>",
         "<code>cmp-0009.lab.example.org</code>")),
    Row(SHOW, "trait", 0, "| name"),
    Row(f"{SHOW} --impact -f markdown {RECORDED}", "trait of nine", 0,
        ("| <code>t1.trait</code> | 11 → 2 |", "unchanged flavors</summary>")),
    Row(f"{GATE} {RECORDED}", "trait of nine", 0),
    Row(f"{GATE} {RECORDED}", "trait of all", 3, [..., {"flavor": "t1.trait", "hosts_after": 0}]),
    Row(f"{SHOW} --impact", "refused flavor", 0, [
        {"flavor": "ok", "fits_before": 8, "fits_after": 5},
        {"flavor": "pci", "fits_before": 8, "fits_after": 5},
        {"flavor": "wrong", "refused": ("hw:tpm_version=9 is not one of 1.2, 2.0",)}]),
    Row(f"{SHOW} --impact --nova-conf nova.conf", "refused flavor", 0, [
        {"flavor": "ok", "fits_before": 8}, {"flavor": "pci", "fits_before": 0}, {}]),
    # A gate does not pass while no host is counted.
    Row(f"{GATE} -f markdown", "all down", 4, ("not counted: <code>", HOST)),
    Row(GATE, "all down", 4, [..., {"flavor": "m1.small", "not_counted": [..., DOWN]}]),
]
# fmt: on

test_plan_show = checked(TABLE, STATES)
