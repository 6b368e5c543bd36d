# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: the guard of every command that writes inventories, and the audit."""

from __future__ import annotations

import ast
import json
import pathlib
from typing import Any

import pytest

import osc_placement
from tests.support import embedded
from tests.support.peer import shell, target as targets

DEVICE, CLASS = "bm-1", "CUSTOM_BAREMETAL_GOLD"
UUID = "226364e6-11a4-5c20-8e15-461822dcb443"
AGGREGATE = embedded.uuid_of("an aggregate")
AMEND = ("resource provider inventory amend", DEVICE, "--resource")


@pytest.fixture(autouse=True)
def device_in_use(target: targets.Target, openstack: shell.OpenStack) -> None:
    """A device as nova leaves it when a server gets it: everything is allocated and reserved."""
    target.load("12-hosts")
    openstack.do("resource provider trait add", DEVICE, "--trait", "HW_PCI_ONE_TIME_USE")
    openstack.do(
        "resource provider allocation set",
        embedded.uuid_of("a consumer"),
        *("--allocation", f"rp={DEVICE},{CLASS}=1", "--project-id", "p", "--user-id", "u"),
    )
    reserve = (*AMEND, f"{CLASS}:reserved=1", "--allow", "over-capacity")
    openstack.do(*reserve, "--plan-out", "plan")


SET = "resource provider inventory set"
RESHAPES = {
    "stay": f"tree: {{name: {DEVICE}, inventories: {{{CLASS}: {{reserved: 0}}}}}}",
    "grow": f"{{tree: {{name: {DEVICE}, inventories: {{{CLASS}: 2}}}}, change_totals: [{CLASS}]}}",
    "move": f"moves: [{{from: {DEVICE}, resources: {{{CLASS}: 1}}, to: {{name: child, parent:"
    f" {DEVICE}, inventories: {{{CLASS}: {{reserved: 0}}}}}}}}]",
}
#: Commands that would give capacity to the device, and the exit code of their refusal.
WRITERS = {
    f"resource provider inventory amend {DEVICE} --resource {CLASS}:reserved=0": 6,
    f"resource provider inventory amend {DEVICE} --resource {CLASS}:total+=1": 6,
    f"{SET} {UUID} --amend --resource {CLASS}:reserved=0": 1,
    f"{SET} {UUID} --amend --resource {CLASS}:total=3": 1,
    f"{SET} {UUID} --resource {CLASS}=1": 1,
    f"{SET} {AGGREGATE} --aggregate --amend --resource {CLASS}:reserved=0": 1,
    f"{SET} {AGGREGATE} --aggregate --resource {CLASS}=1": 1,
    f"resource provider inventory class set {UUID} {CLASS} --total 1": 1,
    f"resource provider inventory class set {UUID} {CLASS} --total 5 --reserved 1": 1,
    "placement plan undo plan": 6,
    "placement reshape --to-tree stay": 1,
    "placement reshape --to-tree grow": 1,
    "placement reshape move": 1,
}


def device(target: targets.Target) -> Any:
    return target.ask("GET", f"/resource_providers/{UUID}/inventories")["inventories"].get(CLASS)


@pytest.mark.parametrize("command", WRITERS)
def test_no_command_releases_a_device_in_use(
    target: targets.Target, openstack: shell.OpenStack, command: str
) -> None:
    openstack.do("resource provider aggregate set", UUID, "--aggregate", AGGREGATE, version="1.18")
    for name, document in RESHAPES.items():
        pathlib.Path(name).write_text(document)
    before = device(target)
    if "plan undo" not in command:
        preview = [] if "class set" in command else ["--dry-run"]
        outcome = openstack.run(
            command, *preview, *(["--detailed-exitcode"] * (" amend" in command))
        )
        assert (outcome.code, device(target)) == (WRITERS[command], before), outcome
    outcome = openstack.run(command)
    assert (outcome.code, device(target)) == (WRITERS[command], before), outcome
    assert "--allow one-time-use" in " ".join((outcome.stdout + outcome.stderr).split())
    allowed = openstack.run(command, "--allow", "one-time-use")
    assert (allowed.code, device(target) != before) == (0, True), allowed


@pytest.mark.parametrize("version", ["1.0", "1.5", "1.17", "1.39"])
def test_the_guard_does_not_depend_on_the_microversion(
    openstack: shell.OpenStack, version: str
) -> None:
    for command in WRITERS:
        if (SET in command and "--aggregate" not in command) or "class set" in command:
            code, messages = openstack.fails(command, version=version)
            assert (code, "--allow one-time-use" in messages) == (1, True), command


def test_a_device_without_server_is_released_as_upstream_does(
    target: targets.Target, openstack: shell.OpenStack
) -> None:
    openstack.do("resource provider allocation delete", embedded.uuid_of("a consumer"))
    openstack.do(SET, UUID, "--amend", "--resource", f"{CLASS}:reserved=0")
    assert device(target)["reserved"] == 0


def test_a_device_in_use_cannot_lose_its_inventory(
    target: targets.Target, openstack: shell.OpenStack
) -> None:
    before = device(target)
    for command in (
        f"resource provider inventory delete {UUID}",
        f"resource provider inventory delete {UUID} --resource-class {CLASS}",
        f"{SET} {UUID} --resource VCPU=1",
    ):
        code, messages = openstack.fails(command)
        assert (code, "HTTP 409" in messages, device(target)) == (1, True, before), command


def test_every_module_that_writes_inventories_has_the_guard() -> None:
    writes = {"replace_inventories", "update_inventory", "reshape"}
    root = pathlib.Path(osc_placement.__file__).parent
    guarded = {
        "plan/kinds/inventories.py",
        "plan/kinds/reshape.py",
        "v1/resources/inventory.py",
    }
    writers = set()
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] in {"plan", "v1", "workflows", "nova", "neutron", "offline"}:
            calls = [
                node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
            ]
            names = {node.func.attr for node in calls if isinstance(node.func, ast.Attribute)}
            writers |= {name} if writes & names else set()
    assert writers == guarded


def over_capacity(openstack: shell.OpenStack) -> set[str]:
    audit = ("placement allocation audit", "--os-nova-recording", "12-hosts")
    outcome = openstack.run(*audit, "--only", "over-capacity", "-f", "json")
    return {row["name"] for row in json.loads(outcome.stdout)}


def test_the_audit_does_not_report_a_device_in_use(openstack: shell.OpenStack) -> None:
    # Not an Ironic node: the audit leaves these out also without the trait.
    device = "cmp-0001 GPU"
    openstack.do("resource provider create", device)
    openstack.do("resource provider trait set", device, "--trait", "HW_PCI_ONE_TIME_USE")
    amend = ("resource provider inventory amend", device, "--allow", "over-capacity", "--resource")
    openstack.do(*amend, f"{CLASS}:total=1", "--create")
    openstack.do(
        "resource provider allocation set",
        embedded.uuid_of("another consumer"),
        *("--allocation", f"rp={device},{CLASS}=1", "--project-id", "p", "--user-id", "u"),
    )
    openstack.do(*amend, f"{CLASS}:reserved=1")
    assert device not in over_capacity(openstack)
    openstack.do("resource provider trait set", device)
    assert device in over_capacity(openstack)


def test_unused_omits_a_device_in_use(openstack: shell.OpenStack) -> None:
    listed = openstack("resource provider list", "--name-glob", "bm-*", "--unused")
    assert {row["name"] for row in listed} == {"bm-2", "bm-3"}
