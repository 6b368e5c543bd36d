# SPDX-License-Identifier: Apache-2.0
"""The batch commands and plans, on every target: same rows, same exit codes."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from tests.support import versions
from tests.support.peer import shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

AGGREGATE = "04223a25-417d-580c-a706-c4cd6aa4087d"
HOSTS = ("cmp-0007.lab.example.org", "cmp-0008.lab.example.org")
SHARE = "nfs-share"
AMEND = "resource provider inventory amend"
TRAIT = "resource provider trait"


def status_of(found: list[Any]) -> dict[str, str]:
    return {row["name"]: row["status"] for row in found}


def test_amending_an_aggregate_shows_before_and_after(openstack: shell.OpenStack) -> None:
    arguments = (AMEND, "--member-of", AGGREGATE, "--resource", "VCPU:allocation_ratio=2")
    planned = openstack.rows(*arguments, "--dry-run", "--detailed-exitcode", code=3)
    assert planned[0] == {
        "name": HOSTS[0],
        "uuid": "1a9bb78c-5b17-57e1-9b04-f5614f57791c",
        "before": {"VCPU:allocation_ratio": 4.0},
        "after": {"VCPU:allocation_ratio": 2.0},
        "status": "planned",
        "reason": "VCPU capacity 248 -> 124, 1 used",
        "code": "",
    }
    assert openstack.rows(*arguments, "--dry-run") == planned
    assert status_of(openstack.rows(*arguments)) == {
        HOSTS[0]: "applied",
        HOSTS[1]: "applied",
        SHARE: "skipped",
    }
    again = openstack.rows(*arguments, "--detailed-exitcode")
    assert status_of(again) == {HOSTS[0]: "unchanged", HOSTS[1]: "unchanged", SHARE: "skipped"}


def test_a_dry_run_changes_nothing(openstack: shell.OpenStack, target: targets.Target) -> None:
    before = target.state()["providers"]
    openstack.rows(AMEND, "--all", "--resource", "VCPU:total*=2", "--create", "--dry-run")
    openstack.rows(f"{TRAIT} add", "--all", "--trait", "CUSTOM_NEW", "--create", "--dry-run")
    assert target.state()["providers"] == before
    assert target.request("GET", "/traits/CUSTOM_NEW").status_code == 404


def test_undo_restores_everything(openstack: shell.OpenStack, target: targets.Target) -> None:
    before = target.state()["providers"]
    for number, arguments in enumerate(
        [
            (AMEND, "--all", "--resource", "VCPU:total*=2", "--resource", "MEMORY_MB:reserved+=9"),
            (AMEND, *HOSTS, "--resource", "CUSTOM_X:total=4", "--create"),
            (f"{TRAIT} add", "--all", "--trait", "CUSTOM_NEW", "--create"),
            (f"{TRAIT} remove", "--required", "CUSTOM_RACK_A", "--trait", "CUSTOM_RACK_A"),
            (
                "resource provider aggregate add",
                "--name-glob",
                "cmp-*",
                "--aggregate",
                "5f6c1c8e-5a80-4a4c-9b8e-0f2c9ad3a001",
            ),
            ("resource provider aggregate remove", "--all", "--aggregate", AGGREGATE),
        ]
    ):
        undo = str(pathlib.Path(f"undo-{number}.json").absolute())
        found = openstack.rows(*arguments, "--undo-out", undo)
        taken = openstack.rows("placement plan undo", undo)
        applied = {name for name, status in status_of(found).items() if status == "applied"}
        assert applied
        assert status_of(taken) == dict.fromkeys(applied, "applied")
    assert target.state()["providers"] == before


def test_a_plan_is_shown_applied_and_continued(openstack: shell.OpenStack) -> None:
    arguments = (AMEND, "--name-glob", "cmp-000?.*", "--resource", "VCPU:allocation_ratio+=1")
    planned = openstack.rows(*arguments, "--dry-run", "--plan-out", "plan.json")
    assert openstack.rows("placement plan show", "plan.json") == planned
    first = openstack.rows("placement plan apply", "plan.json", "--max-count", "2", code=5)
    assert list(status_of(first).values()).count("applied") == 2
    rest = openstack.rows("placement plan apply", "plan.json")
    assert set(status_of(rest).values()) == {"applied"}
    assert len(rest) == len(planned) == 9
    back = openstack.rows("placement plan undo", "plan.json")
    assert [row["after"] for row in back] == [row["before"] for row in rest]


def test_a_concurrent_change_is_stale(openstack: shell.OpenStack) -> None:
    arguments = (AMEND, *HOSTS, "--resource", "VCPU:allocation_ratio=8")
    openstack.rows(*arguments, "--dry-run", "--plan-out", "plan.json")
    openstack.rows(AMEND, HOSTS[0], "--resource", "VCPU:allocation_ratio=6")
    applied = openstack.run("placement plan apply", "plan.json", "-f", "json")
    assert applied.code == 7
    assert status_of(json.loads(applied.stdout)) == {HOSTS[0]: "stale", HOSTS[1]: "applied"}
    first, planned = applied.messages.splitlines()[:2]
    assert first.endswith("1 applied, 1 stale; VCPU capacity 496 -> 744")
    assert planned == "Planned: VCPU capacity 496 -> 992"


def test_over_capacity_is_refused_unless_allowed(openstack: shell.OpenStack) -> None:
    arguments = (AMEND, "cmp-0001.lab.example.org", "--resource", "VCPU:allocation_ratio=0.1")
    (row,) = openstack.rows(*arguments, code=6)
    assert (row["status"], row["code"]) == ("refused", "over-capacity")
    assert "over capacity" in row["reason"]
    assert openstack.rows(*arguments, "--dry-run", "--detailed-exitcode", code=6) == [row]
    (row,) = openstack.rows(*arguments, "--allow", "over-capacity")
    assert row["status"] == "applied"
    assert "over capacity" in row["reason"]


def test_a_full_provider_is_found_among_many(openstack: shell.OpenStack) -> None:
    """Full providers are missing from the candidates, from which the usages are read."""
    arguments = ("--all", "--resource", "VCPU:allocation_ratio=0.1", "--dry-run")
    for _ in range(2):
        found = openstack.rows(AMEND, *arguments)
        assert "skipped" in status_of(found).values()


def test_providers_come_from_standard_input(openstack: shell.OpenStack) -> None:
    outcome = openstack.run(
        AMEND,
        "--providers-from",
        "-",
        "--resource",
        "VCPU:max_unit=8",
        "-f",
        "json",
        stdin=f"# two hosts\n{HOSTS[0]}\n\n{HOSTS[1]}\n",
    )
    assert status_of(json.loads(outcome.stdout)) == dict.fromkeys(HOSTS, "applied")


def test_the_summary_names_the_target_and_the_undo_command(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    outcome = openstack.run(f"{TRAIT} add", "--trait", "CUSTOM_RACK_A", *HOSTS)
    assert outcome.code == 0
    where = target.url if isinstance(target, targets.OverHttp) else target.options[1]
    if target.name == "offline":
        where = f"the database of {where}"
    assert f"On {where}" in outcome.stderr
    assert openstack.run(f"--quiet {TRAIT} add", "--trait", "CUSTOM_RACK_A", *HOSTS).stderr == ""


def test_an_edited_plan_or_a_plan_of_another_cloud_is_refused(openstack: shell.OpenStack) -> None:
    planned = (AMEND, *HOSTS, "--resource", "VCPU:total=99", "--plan-out", "plan.json")
    openstack.do(*planned, "--dry-run")
    text = pathlib.Path("plan.json").read_text()
    pathlib.Path("plan.json").write_text(text.replace("99", "98"))
    code, message = openstack.fails("placement plan apply", "plan.json")
    assert (code, "digest" in message) == (1, True)


def test_status_shows_the_target_and_finds_consumers_without_owner(
    openstack: shell.OpenStack,
) -> None:
    for version, who in ((None, "8 consumers"), ("1.37", "consumers")):
        outcome = openstack.run("placement status show", "--check", "-f", "json", version=version)
        assert outcome.code == 1
        found = json.loads(outcome.stdout)
        assert found["server_versions"] == versions.RANGE
        assert found["microversion"] == (version or versions.MAXIMUM)
        assert found["resource_providers"] == 22
        owned = found["checks"].pop("every consumer has a project and a user")
        assert owned.startswith(f"warning: {who} have the placeholder project:")
        assert set(found["checks"].values()) == {"success"}
        assert any("nova-status" in line for line in found["not_checked"])
    assert "checks" not in openstack("placement status show")
