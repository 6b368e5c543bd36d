# SPDX-License-Identifier: Apache-2.0
"""The example of a policy in the documentation, on real plans; and the Markdown of a plan."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from osc_placement import testing
from tests.support.peer import fixtures, process, shell

POLICY = process.ROOT / "doc" / "source" / "user" / "reference" / "policy" / "test_plan.py"
TRAIT = "resource provider trait add --trait HW_CPU_X86_AVX512F cmp-0009.lab.example.org"

pytestmark = [fixtures.ON_ONE_TARGET, pytest.mark.usefixtures("sample")]


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


def test_a_plan_is_shown_as_markdown(openstack: shell.OpenStack) -> None:
    openstack.run(*TRAIT.split(), "--dry-run", "--plan-out", "plan.json")
    shown = openstack.run("placement plan show plan.json --format markdown")
    assert shown.code == 0, shown
    assert shown.stdout.startswith("## Plan: 1 to change; ")
    assert "<summary>1 change</summary>" in shown.stdout
    assert "<code>cmp-0009.lab.example.org</code>" in shown.stdout
    plain = openstack.run("placement plan show plan.json -f table")
    assert "| name" in plain.stdout


def test_the_impact_is_part_of_the_markdown(openstack: shell.OpenStack) -> None:
    remove = "resource provider trait remove --trait HW_CPU_X86_AVX2 --name-glob cmp-000*"
    guards = "--allow standard-traits --max-percent 100 --dry-run --plan-out plan.json"
    assert openstack.run(*remove.split(), *guards.split()).code == 0
    recorded = ("--os-nova-recording", "12-hosts")
    shown = openstack.run("placement plan show plan.json --impact -f markdown", *recorded)
    assert shown.code == 0, shown
    assert "| <code>t1.trait</code> | 11 → 2 |" in shown.stdout
    assert "unchanged flavors</summary>" in shown.stdout


def test_a_gate_does_not_pass_while_no_host_is_counted(
    openstack: shell.OpenStack, tmp_path: pathlib.Path
) -> None:
    nova = testing.sample_nova("12-hosts")
    for service in nova["GET /v2.1/os-services"]["services"]:
        service["state"] = "down"
    (tmp_path / "nova.json").write_text(json.dumps(nova))
    amend = "resource provider inventory amend --all --resource VCPU:reserved=1"
    planned = openstack.run(amend, "--dry-run", "--plan-out", "plan.json", "--max-percent", "100")
    assert planned.code == 0, planned
    show = "placement plan show plan.json --impact --fail-on flavor-lost"
    recorded = ("--os-nova-recording", str(tmp_path / "nova.json"))
    shown = openstack.run(show, "-f", "markdown", *recorded)
    assert shown.code == 4, shown
    assert "not counted: <code>" in shown.stdout
    assert "cmp-0001.lab.example.org" in shown.stdout
    rows = json.loads(openstack.run(show, "-f", "json", *recorded).stdout)
    (small,) = (row for row in rows if row["flavor"] == "m1.small")
    assert {"host": "cmp-0001.lab.example.org", "reason": "nova-compute down"} in small[
        "not_counted"
    ]
