# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: the guard of every command that writes inventories, and the audit."""

from __future__ import annotations

import ast
import pathlib

import pytest

import osc_placement
from osc_placement.testing import Cloud, uuid_of
from tests.support.peer import shell, target as targets
from tests.support.rows import Row, State, checked

DEVICE, CLASS, TRAIT = "bm-1", "CUSTOM_BAREMETAL_GOLD", "HW_PCI_ONE_TIME_USE"
UUID, RACK, SERVER = uuid_of(DEVICE), uuid_of("rack"), uuid_of("server")
RESERVED = {CLASS: {"total": 1, "reserved": 1, "max_unit": 1}}


def device(name: str, *traits: str, **inventories: dict[str, int]) -> Cloud:
    """A device as nova leaves it when a server gets it: everything is allocated and reserved."""
    cloud = Cloud().host(name, traits=traits, aggregates=["rack"], **(inventories or RESERVED))
    return cloud.server("server", {name: {CLASS: 1}})


IN_USE = device(DEVICE, TRAIT)
SET = "resource provider inventory set"
AMEND = f"resource provider inventory amend {DEVICE} --resource {CLASS}"
CLASS_SET = f"resource provider inventory class set {UUID} {CLASS}"
FILES = {
    "stay": f"tree: {{name: {DEVICE}, inventories: {{{CLASS}: {{reserved: 0}}}}}}",
    "grow": f"{{tree: {{name: {DEVICE}, inventories: {{{CLASS}: 2}}}}, change_totals: [{CLASS}]}}",
    "move": f"moves: [{{from: {DEVICE}, resources: {{{CLASS}: 1}}, to: {{name: child, parent:"
    f" {DEVICE}, inventories: {{{CLASS}: {{reserved: 0}}}}}}}}]",
}
#: Reserved by a plan, which can be undone.
PLANNED = State(
    device(DEVICE, TRAIT, **{CLASS: {"total": 1, "max_unit": 1}}),
    before=[f"{AMEND}:reserved=1 --allow over-capacity --plan-out plan"],
)
#: Commands that would give capacity to the device, and the exit code of their refusal.
WRITERS = {
    f"{AMEND}:reserved=0": 6,
    f"{AMEND}:total+=1": 6,
    f"{SET} {UUID} --amend --resource {CLASS}:reserved=0": 1,
    f"{SET} {UUID} --amend --resource {CLASS}:total=3": 1,
    f"{SET} {UUID} --resource {CLASS}=1": 1,
    f"{SET} {RACK} --aggregate --amend --resource {CLASS}:reserved=0": 1,
    f"{SET} {RACK} --aggregate --resource {CLASS}=1": 1,
    f"{CLASS_SET} --total 1": 1,
    f"{CLASS_SET} --total 5 --reserved 1": 1,
    "placement plan undo plan": 6,
    "placement reshape --to-tree stay": 1,
    "placement reshape --to-tree grow": 1,
    "placement reshape move": 1,
}


@pytest.mark.parametrize("command", WRITERS)
def test_no_command_releases_a_device_in_use(
    target: targets.Target, openstack: shell.OpenStack, command: str
) -> None:
    state = PLANNED if "undo" in command else State(IN_USE, files=FILES)
    state.arrange(openstack)
    before = target.inventories()
    previews = [] if command.startswith((CLASS_SET, "placement plan")) else [["--dry-run"]]
    if command.startswith(AMEND):
        previews[0].append("--detailed-exitcode")
    for more in (*previews, []):
        outcome = openstack.run(command, *more)
        assert (outcome.code, target.inventories()) == (WRITERS[command], before), outcome
    assert "--allow one-time-use" in " ".join((outcome.stdout + outcome.stderr).split())
    allowed = openstack.run(command, "--allow", "one-time-use")
    assert (allowed.code, target.inventories() != before) == (0, True), allowed


NAMED = "cmp-0001 GPU"
AUDIT = "placement allocation audit --os-nova-recording 12-hosts --only over-capacity"
STATES = {
    "in use": IN_USE,
    "free": Cloud().host(DEVICE, traits=[TRAIT], **RESERVED),
    # Not an Ironic node: the audit leaves these out also without the trait.
    "in use on a host": device(NAMED, TRAIT),
    "over capacity": device(NAMED),
    "two devices": device(DEVICE, TRAIT).host("bm-2", **RESERVED),
}
TABLE = [
    # The guard does not depend on the microversion.
    *(
        Row(f"--os-placement-api-version {version} {command}", "in use", 1, "--allow one-time-use")
        for command in WRITERS
        if command.startswith((f"{SET} {UUID}", CLASS_SET))
        for version in ("1.0", "1.5", "1.17", "1.39")
    ),
    # Without a server, a device is released as upstream does it.
    Row(f"{SET} {UUID} --amend --resource {CLASS}:reserved=0", "free", 0, [{"reserved": 0}]),
    # A device in use cannot lose its inventory.
    *(
        Row(command, "in use", 1, "HTTP 409", unchanged=True)
        for command in (
            f"resource provider inventory delete {UUID}",
            f"resource provider inventory delete {UUID} --resource-class {CLASS}",
            f"{SET} {UUID} --resource VCPU=1",
        )
    ),
    Row(AUDIT, "in use on a host", 0, []),
    Row(AUDIT, "over capacity", 0, [{"name": NAMED}]),
    Row("resource provider list --name-glob 'bm-*' --unused", "two devices", 0, [{"name": "bm-2"}]),
]

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


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
