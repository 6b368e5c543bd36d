# SPDX-License-Identifier: Apache-2.0
"""A policy that hides servers or host aggregates never empties a cloud."""

from __future__ import annotations

import copy
import json
import pathlib
import re
from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import shell, target as targets

AUDIT = "placement allocation audit"
MIRROR = "placement aggregate mirror"
ALLOWED = ("--allow", "recorded-nova")
MANY = ("--allow", "many")
NOVA = testing.sample_nova("12-hosts")


@pytest.fixture(autouse=True)
def cloud(target: targets.Target) -> None:
    target.load("12-hosts")


def hiding(tmp_path: pathlib.Path, path: str, name: str) -> tuple[str, ...]:
    """Nova's recorded answers with empty lists for requests of ``path``."""
    answers = {
        request: {**answer, name: []} if request.startswith(f"GET /v2.1/{path}") else answer
        for request, answer in copy.deepcopy(NOVA).items()
    }
    file = tmp_path / "nova.json"
    file.write_text(json.dumps(answers))
    return ("--os-nova-recording", str(file))


def test_an_audit_deletes_nothing_where_nova_lists_no_servers(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    recorded = hiding(tmp_path, "servers", "servers")
    before = target.state()
    found = openstack.rows(AUDIT, *recorded, "--repair", *ALLOWED, code=6)
    repairable = [row for row in found if row["code"] != "unknown"]
    assert {row["code"] for row in repairable} == {"orphaned"}
    assert {row["status"] for row in repairable} == {"refused"}
    assert all("--allow many to do it anyway" in row["reason"] for row in repairable)
    assert target.state() == before
    planned = ("--repair", "--dry-run", "--plan-out", "plan.json")
    assert openstack.rows(AUDIT, *recorded, *planned, code=3)
    shown = re.search(
        r"Removes (\d+) of (\d+) allocations \(limit 20\)",
        openstack.run("placement plan show", "plan.json").stderr,
    )
    assert shown
    stopped = f"the plan removes {shown[1]} of {shown[2]} allocations, and the limit is 20"
    assert any(stopped in row["reason"] for row in repairable)
    outcome = openstack.run("placement plan apply", "plan.json", *recorded, *ALLOWED)
    assert (outcome.code, "Stopped: the plan removes" in outcome.stderr) == (6, True), outcome
    assert target.state() == before


def test_a_mirror_removes_nothing_where_nova_lists_no_host_aggregates(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    openstack.run(MIRROR, "--os-nova-recording", "12-hosts", *ALLOWED)
    recorded = hiding(tmp_path, "os-aggregates", "aggregates")
    before = target.state()
    refused = openstack.rows(MIRROR, *recorded, "--prune", *ALLOWED, code=6)
    assert {row["code"] for row in refused if row["status"] == "refused"} == {"many"}
    assert target.state() == before
    allowed = (*ALLOWED, "--allow", "many")
    assert openstack.rows(MIRROR, *recorded, "--prune", *allowed, code=0)
    assert target.state() != before


def test_the_limit_can_be_lower(openstack: shell.OpenStack, target: targets.Target) -> None:
    before = target.state()
    only = ("--os-nova-recording", "12-hosts", "--repair", "--only", "doubled", *ALLOWED)
    refused = openstack.rows(AUDIT, *only, "--max-percent", "0", code=6)
    assert [row["status"] for row in refused] == ["refused"]
    assert target.state() == before
    assert [row["status"] for row in openstack.rows(AUDIT, *only, code=9)] == ["applied"]


@pytest.mark.parametrize("what", ["trait", "aggregate"])
def test_a_removal_by_hand_has_a_limit_on_request(openstack: shell.OpenStack, what: str) -> None:
    name = "CUSTOM_GOLD" if what == "trait" else "4d1c1c2e-3a0d-4a3b-9f0e-0f6f3a6b7c11"
    hosts = [f"cmp-00{number:02}.lab.example.org" for number in range(1, 9)]
    option = (f"--{what}", name)
    create = ("--create",) if what == "trait" else ()
    openstack.run(f"resource provider {what} add", *option, *create, *hosts)
    remove = (f"resource provider {what} remove", *option, *hosts[:4])
    refused = openstack.rows(*remove, "--max-percent", "49", code=6)
    assert [(row["status"], row["code"]) for row in refused] == [("refused", "many")] * 4
    assert "removes 4 of 8" in refused[0]["reason"]
    allowed = openstack.rows(*remove, "--max-percent", "50", "--dry-run", code=0)
    assert [row["status"] for row in allowed] == ["planned"] * 4
    limits = ("--max-percent", "0", "--allow", "many")
    assert len(openstack.rows(*remove, *limits, code=0)) == 4
    rest = (f"resource provider {what} remove", *option, *hosts[4:])
    assert [row["status"] for row in openstack.rows(*rest, code=0)] == ["applied"] * 4


AMEND = "resource provider inventory amend"
RATIOS = "placement aggregate mirror --ratios"


def test_an_amendment_has_a_limit_of_capacity_on_request(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    hosts = [f"cmp-00{number:02}.lab.example.org" for number in range(1, 5)]
    before = target.inventories()
    sum_before = sum(capacity(before[host]["VCPU"]) for host in hosts)
    amend = (AMEND, "--resource", "VCPU:allocation_ratio*=0.5", "--allow", "over-capacity")
    refused = openstack.rows(*amend, *hosts, "--max-percent", "49", code=6)
    assert [(row["status"], row["code"]) for row in refused] == [("refused", "many")] * 4
    assert f"removes {sum_before // 2} of {sum_before} units of VCPU" in refused[0]["reason"]
    assert target.inventories() == before
    planned = (*amend, *hosts, "--dry-run", "--plan-out", "plan.json", "--max-percent")
    assert [row["status"] for row in openstack.rows(*planned, "49", code=0)] == ["refused"] * 4
    # What one selected host loses is compared with the capacity of all of them.
    reserved = before[hosts[0]]["VCPU"]["reserved"]
    one = (AMEND, "--resource", f"VCPU:reserved={reserved + 8}", hosts[0], "--dry-run")
    (row,) = openstack.rows(*one, "--max-percent", "1", code=0)
    assert row["status"] == "refused"
    (row,) = openstack.rows(*one, "--max-percent", "40", code=0)
    assert row["status"] == "planned"
    assert len(openstack.rows(*amend, *hosts, "--max-percent", "50", code=0)) == 4
    assert target.inventories() != before
    assert len(openstack.rows(*amend, *hosts, "--max-percent", "0", *MANY, code=0)) == 4


def test_ratios_have_a_limit_of_capacity_on_request(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    recorded = ("--os-nova-recording", "12-hosts", *ALLOWED, "--allow", "over-capacity")
    node = "cmp-0001.lab.example.org"
    openstack.run(AMEND, "--resource", "VCPU:allocation_ratio=64", node)
    before = target.inventories()
    refused = openstack.rows(RATIOS, *recorded, "--max-percent", "10", code=6)
    reasons = [row["reason"] for row in refused if row["code"] == "many"]
    assert reasons
    assert all("units of VCPU capacity, and the limit is" in reason for reason in reasons)
    assert target.inventories() == before
    # The sample has hosts with an invalid ratio, which are refused in every run.
    rest = openstack.rows(RATIOS, *recorded, "--max-percent", "100", code=6)
    assert "many" not in {row["code"] for row in rest}
    assert target.inventories() != before


def test_a_reshape_has_a_limit_of_capacity_and_providers_on_request(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    node = "cmp-0012.lab.example.org"
    vcpu = target.inventories()[node]["VCPU"]
    before = target.inventories()
    move = f"{{from: {node}, resources: {{VCPU: 16}}, to: {node}, as: {{VCPU: PCPU}}}}"
    pathlib.Path("pcpu.yaml").write_text(f"moves:\n- {move}\n")
    reshape = ("placement reshape pcpu.yaml", "--allow", "nova-owned", "--max-percent")
    refused = openstack.rows(*reshape, "5", code=6)
    had, has = capacity(vcpu), capacity({**vcpu, "total": vcpu["total"] - 16})
    text = f"removes {had - has} of {had} units of VCPU capacity"
    assert any("many" in row["code"] and text in row["reason"] for row in refused), refused
    assert target.inventories() == before
    assert openstack.rows(*reshape, "5", *MANY, "--undo-out", "undo.json", code=0)
    assert "PCPU" in target.inventories()[node]
    openstack.do("placement plan undo", "undo.json")
    assert target.inventories() == before


def test_a_reshape_counts_the_providers_that_it_deletes(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    target.ask("POST", "/resource_providers", {"name": "parent"})
    parent = target.ask("GET", "/resource_providers?name=parent")["resource_providers"][0]
    for name in ("child-0", "child-1"):
        body = {"name": name, "parent_provider_uuid": parent["uuid"]}
        target.ask("POST", "/resource_providers", body)
    openstack.do(f"{AMEND} --resource VGPU:total=2 --create child-0")
    pathlib.Path("delete.yaml").write_text(
        "moves:\n- {from: child-0, resources: {VGPU: 2}, to: parent}\ndelete: [child-0]\n"
    )
    refused = openstack.rows("placement reshape delete.yaml --max-percent 33", code=6)
    assert any("removes 1 of 3 providers" in row["reason"] for row in refused), refused
    assert openstack.rows("placement reshape delete.yaml --max-percent 34", code=0)


NODES = [f"cmp-00{number:02}.lab.example.org" for number in (1, 2, 4, 5)]
GROUP = "4d1c1c2e-3a0d-4a3b-9f0e-0f6f3a6b7c11"


def test_one_inventory_has_a_limit_on_request(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    openstack.run("resource provider create empty")
    openstack.do("resource provider inventory set empty --resource VCPU=64 --resource PCPU=8")
    before = target.inventories()["empty"]
    one_class = ("resource provider inventory class set empty VCPU --total 32",)
    replaced = ("resource provider inventory set empty --resource MEMORY_MB=64",)
    for command, text in (
        (one_class, "removes 32 of 64 units of VCPU capacity, and the limit is 31"),
        (replaced, "removes 64 of 64 units of VCPU capacity, and the limit is 31"),
        ((*replaced, "--dry-run"), "removes 64 of 64 units of VCPU capacity, and the limit is 31"),
    ):
        code, message = openstack.fails(*command, "--max-percent", "49")
        assert (code, text in message) == (1, True), message
    assert target.inventories()["empty"] == before
    openstack.do(*one_class, "--max-percent", "50")
    assert target.inventories()["empty"]["VCPU"]["total"] == 32
    openstack.do(*replaced, "--max-percent", "0", *MANY)
    assert {*target.inventories()["empty"]} == {"MEMORY_MB"}


def test_the_inventories_of_an_aggregate_have_a_limit_on_request(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    openstack.run("resource provider aggregate add", "--aggregate", GROUP, *NODES)
    before = target.inventories()
    sum_before = sum(capacity(before[node]["VCPU"]) for node in NODES)
    ratio = f"VCPU:allocation_ratio={before[NODES[0]]['VCPU']['allocation_ratio'] / 2}"
    amend = ("resource provider inventory set", GROUP, "--aggregate", "--amend")
    amend = (*amend, "--resource", ratio)
    text = f"removes {sum_before // 2} of {sum_before} units of VCPU capacity, and the limit is"
    for extra in ((), ("--dry-run",)):
        code, message = openstack.fails(*amend, "--max-percent", "49", *extra)
        assert (code, text in message) == (1, True), message
    assert target.inventories() == before
    openstack.do(*amend, "--max-percent", "50", "--dry-run")
    assert target.inventories() == before
    openstack.do(*amend, "--max-percent", "50")
    after = target.inventories()
    assert sum(capacity(after[node]["VCPU"]) for node in NODES) == sum_before // 2


def test_the_traits_of_an_aggregate_have_a_limit_on_request(openstack: shell.OpenStack) -> None:
    openstack.run("resource provider aggregate add", "--aggregate", GROUP, *NODES[:2])
    openstack.run("resource provider trait add --trait CUSTOM_GOLD --create", *NODES)
    traits = openstack("resource provider trait list", NODES[0])
    keep = [
        word for row in traits if row["name"] != "CUSTOM_GOLD" for word in ("--trait", row["name"])
    ]
    replace = ("resource provider trait set", GROUP, "--aggregate", *keep)
    code, message = openstack.fails(*replace, "--max-percent", "1")
    assert (code, "traits of providers, and the limit is" in message) == (1, True), message
    assert openstack("resource provider trait list", NODES[0]) == traits
    openstack.do(*replace, "--max-percent", "50")
    assert openstack("resource provider trait list", NODES[0]) != traits
    code, message = openstack.fails(
        "resource provider trait set", NODES[0], *keep, "--max-percent", "50"
    )
    assert (code, "--max-percent: requires --aggregate" in message) == (2, True), message


def capacity(item: dict[str, Any]) -> int:
    return int((item["total"] - item["reserved"]) * item["allocation_ratio"])
