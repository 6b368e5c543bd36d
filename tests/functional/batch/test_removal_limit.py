# SPDX-License-Identifier: Apache-2.0
"""A policy that hides servers or host aggregates never empties a cloud."""

from __future__ import annotations

import copy
import json
import pathlib
import re
from typing import NamedTuple

import pytest

from osc_placement import testing
from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

AUDIT = "placement allocation audit"
MIRROR = "placement aggregate mirror"
ALLOWED = ("--allow", "recorded-nova")
NOVA = testing.sample_nova("12-hosts")


def hiding(tmp_path: pathlib.Path, path: str, name: str) -> tuple[str, ...]:
    """Nova's recorded answers with empty lists for requests of ``path``."""
    answers = {
        request: {**answer, name: []} if request.startswith(f"GET /v2.1/{path}") else answer
        for request, answer in copy.deepcopy(NOVA).items()
    }
    file = tmp_path / "nova.json"
    file.write_text(json.dumps(answers))
    return ("--os-nova-recording", str(file))


@fixtures.ON_ONE_TARGET
def test_an_audit_deletes_nothing_where_nova_lists_no_servers(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    recorded = hiding(tmp_path, "servers", "servers")
    before = target.state()
    listed = openstack.rows(AUDIT, *recorded, "--repair", *ALLOWED, code=6)
    repairable = [row for row in listed if row["code"] != "unknown"]
    assert {row["code"] for row in repairable} == {"orphaned", "leaked-move"}
    assert {row["status"] for row in repairable} == {"refused"}
    assert all("--allow many to do it anyway" in row["reason"] for row in repairable)
    assert target.state() == before
    planned = ("--repair", "--dry-run", "--plan-out", "plan.json")
    assert openstack.rows(AUDIT, *recorded, *planned, code=6)
    shown = re.search(
        r"Removes (\d+) of (\d+) allocations \(limit 20, refused\)",
        openstack.run("placement plan show", "plan.json").stderr,
    )
    assert shown
    stopped = f"the plan removes {shown[1]} of {shown[2]} allocations, and the limit is 20"
    assert any(stopped in row["reason"] for row in repairable)
    outcome = openstack.run("placement plan apply", "plan.json", *recorded, *ALLOWED)
    assert (outcome.code, "Stopped: the plan removes" in outcome.stderr) == (6, True), outcome
    assert target.state() == before


@fixtures.ON_ONE_TARGET
def test_a_mirror_removes_nothing_where_nova_lists_no_host_aggregates(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    openstack.run(MIRROR, "--os-nova-recording", "12-hosts", *ALLOWED)
    before = target.state()
    none = hiding(tmp_path, "os-aggregates", "aggregates")
    assert openstack.rows(MIRROR, *none, "--prune", *ALLOWED) == []
    assert target.state() == before
    # Where nova lists them with one host each, the others would leave.
    answers = copy.deepcopy(NOVA)
    for item in answers["GET /v2.1/os-aggregates"]["aggregates"]:
        item["hosts"] = item["hosts"][:1]
    (tmp_path / "nova.json").write_text(json.dumps(answers))
    few = (*none, "--prune", *ALLOWED)
    refused = openstack.rows(MIRROR, *few, code=6)
    assert "many" in {row["code"] for row in refused if row["status"] == "refused"}
    assert target.state() == before
    openstack.rows(MIRROR, *few, "--allow", "many")
    assert target.state() != before


HOSTS = " ".join(f"cmp-000{number}.lab.example.org" for number in (1, 2, 4, 5))
HOST, FREE = HOSTS.split()[0], "cmp-0012.lab.example.org"
GROUP = "4d1c1c2e-3a0d-4a3b-9f0e-0f6f3a6b7c11"
GROUPED = f"resource provider aggregate add --aggregate {GROUP}"
GOLDEN = "resource provider trait add --create --trait CUSTOM_GOLD"
NEIGHBOURS = " ".join(f"cmp-000{number}.lab.example.org" for number in (6, 7, 8, 9))
AMEND = "resource provider inventory amend"
RECORDED = "--os-nova-recording 12-hosts --allow recorded-nova"
SET = "resource provider inventory set"
#: With given UUIDs, so that the states of two runs can be compared.
CREATE = "resource provider create --uuid 00000000-0000-4000-8000-00000000000"
CREATED = (f"{CREATE}0 empty", f"{SET} empty --resource VCPU=64 --resource PCPU=8")
TREE = (
    f"{CREATE}1 parent",
    f"{CREATE}2 child-0 --parent-provider parent",
    f"{CREATE}3 child-1 --parent-provider parent",
    f"{AMEND} --resource VGPU:total=2 --create child-0",
)


class Limited(NamedTuple):
    """A command that removes more than the first percentage, and at most the second.

    ``before`` are commands that prepare the cloud. A command with a plan refuses with the code 6.
    """

    command: str
    percentages: tuple[int, int]
    reason: str
    before: tuple[str, ...] = ()
    code: int = 6


LIMITED = {
    "memberships with a trait": Limited(
        f"resource provider trait remove --trait CUSTOM_GOLD {HOSTS}",
        (49, 50),
        "removes 4 of 8",
        before=(f"{GOLDEN} {HOSTS} {NEIGHBOURS}",),
    ),
    "memberships of an aggregate": Limited(
        f"resource provider aggregate remove --aggregate {GROUP} {HOSTS}",
        (49, 50),
        "removes 4 of 8",
        before=(f"{GROUPED} {HOSTS} {NEIGHBOURS}",),
    ),
    "memberships of a deleted host aggregate": Limited(
        f"{MIRROR} --forget {GROUP} --host-aggregate ssd {RECORDED}",
        (49, 100),
        "aggregate memberships, and the limit is",
        before=(f"{MIRROR} --host-aggregate ssd {RECORDED}", f"{GROUPED} {HOSTS} {NEIGHBOURS}"),
    ),
    "capacity by an amendment": Limited(
        f"{AMEND} {HOSTS} --resource VCPU:allocation_ratio*=0.5 --allow over-capacity",
        (49, 50),
        "removes 496 of 992 units of VCPU capacity, and the limit is 486",
    ),
    # What one host loses is compared with the capacity of all that are selected.
    "capacity of one host": Limited(
        f"{AMEND} {HOST} --resource VCPU:reserved=10",
        (1, 40),
        "units of VCPU capacity, and the limit is",
    ),
    "capacity by the ratios of host aggregates": Limited(
        f"placement aggregate mirror --ratios {RECORDED} --allow over-capacity"
        " --host-aggregate ssd",
        (10, 100),
        "units of VCPU capacity, and the limit is",
        before=(f"{AMEND} --resource VCPU:allocation_ratio=64 {HOST}",),
    ),
    "capacity by a reshape": Limited(
        "placement reshape pcpu.yaml --allow nova-owned",
        (5, 100),
        "removes 64 of 248 units of VCPU capacity, and the limit is 12",
    ),
    "providers by a reshape": Limited(
        "placement reshape delete.yaml", (33, 34), "removes 1 of 3 providers", before=TREE
    ),
    "capacity of one class": Limited(
        "resource provider inventory class set empty VCPU --total 32",
        (49, 50),
        "removes 32 of 64 units of VCPU capacity, and the limit is 31",
        before=CREATED,
        code=1,
    ),
    "all inventories": Limited(
        f"{SET} empty --resource MEMORY_MB=64",
        (49, 100),
        "removes 64 of 64 units of VCPU capacity, and the limit is 31",
        before=CREATED,
        code=1,
    ),
    "inventories of an aggregate": Limited(
        f"{SET} {GROUP} --aggregate --amend --resource VCPU:allocation_ratio=2",
        (49, 50),
        "removes 496 of 992 units of VCPU capacity, and the limit is 486",
        before=(f"{GROUPED} {HOSTS}",),
        code=1,
    ),
    "traits of an aggregate": Limited(
        f"resource provider trait set {GROUP} --aggregate --trait COMPUTE_NODE",
        (1, 100),
        "traits of providers, and the limit is",
        before=(f"{GROUPED} {HOSTS}",),
        code=1,
    ),
}


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize("case", LIMITED.values(), ids=LIMITED)
def test_a_removal_has_a_limit_on_request(
    openstack: shell.OpenStack, target: targets.Target, case: Limited
) -> None:
    refused_at, allowed_at = case.percentages
    moves = f"{{from: {FREE}, resources: {{VCPU: 16}}, to: {FREE}, as: {{VCPU: PCPU}}}}"
    pathlib.Path("pcpu.yaml").write_text(f"moves: [{moves}]")
    pathlib.Path("delete.yaml").write_text(
        "moves: [{from: child-0, resources: {VGPU: 2}, to: parent}]\ndelete: [child-0]"
    )
    for command in case.before:
        openstack.do(command)
    before = target.state()

    def run(percent: int, *more: str) -> shell.Outcome:
        return openstack.run(case.command, "--max-percent", str(percent), *more, "-f", "json")

    refused = run(refused_at)
    assert (refused.code, '"code": "many"' in refused.stdout) == (case.code, case.code == 6)
    assert case.reason in refused.stdout + refused.stderr
    if " set " not in case.command or case.command.startswith(SET):
        dry_runs = [run(refused_at, "--dry-run")]
        if case.code == 6:
            run(refused_at, "--dry-run", "--plan-out", "plan.json")
            nova = RECORDED if RECORDED in case.command else ""
            dry_runs.append(openstack.run(f"placement plan apply plan.json --dry-run {nova}"))
            assert "capacity" not in dry_runs[-1].stderr.splitlines()[0]
            assert ", refused)" in openstack.run("placement plan show plan.json").stderr
        for shown in dry_runs:
            assert shown.code == case.code, shown
            assert case.reason in shown.stdout + shown.stderr
    assert target.state() == before
    assert run(allowed_at).code == 0
    after = target.state()
    assert after != before
    target.load("12-hosts")
    for command in case.before:
        openstack.do(command)
    assert run(0, "--allow", "many").code == 0
    assert target.state() == after
