# SPDX-License-Identifier: Apache-2.0
"""``placement allocation audit`` on every target, with recorded responses of a real nova."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.plan import reasons
from osc_placement.workflows.repair import findings
from tests.support import commands, guide
from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

AUDIT = "placement allocation audit"
RECORDED = ("--os-nova-recording", "12-hosts")

NOVA = testing.sample_nova("12-hosts")
LISTED = "GET /v2.1/servers/detail?all_tenants=1"
SERVERS = {item["name"]: item for item in NOVA[LISTED]["servers"]}
CONSUMERS = testing.sample_cloud("12-hosts")["consumers"]

#: Servers and migrations of the sample with wrong allocations, and their codes.
WRONG = {
    "al-double": "doubled",
    "al-wronghost": "wrong-host",
    "al-offloaded": "wrong-host",
    "al-wrongsize": "wrong-size",
    "al-trait-only": "wrong-size",
    "al-otherowner": "wrong-owner",
    "al-nested-placeholder": "incomplete",
    "st-deleted-alloc": "orphaned",
    "resize of mg-confirmed": "leaked-move",
}

#: Consumers that nova does not know: with nova's classes, on two hosts, without owner, with a
#: VGPU, on a deleted host; with a custom class, and with a shared disk.
UNKNOWN = {
    "3905aef8-6d9e-5a1d-9bcc-e73e2b94af7b": "orphaned",
    "0c57cadb-fc21-585e-9f39-000d38c633c0": "orphaned",
    "17ad4477-40dd-56de-9387-54e5309deb97": "orphaned",
    "b5f29068-c06a-581f-a2c9-61b54f3315c0": "orphaned",
    "e7888f24-239e-532d-a237-3054e6c685a9": "orphaned",
    "c0e22cf7-1bcd-5d66-8ce3-66d3ad464d99": "unknown",
    "4d39cbb5-ec7f-597c-a7bc-22be014bbeef": "unknown",
}

#: Servers with right allocations; nova-manage would remove some of these.
RIGHT = {
    "al-shared",
    "mg-live-new",
    "mg-resized-new",
    "st-building",
    "st-error-nohost",
    "st-error-cell0",
    "st-offloaded",
}

#: Servers without allocations that cannot get any, and the cause.
SKIPPED = {
    "mg-live-old": "moving",
    "mg-pending": "moving",
    "mg-resized-old": "moving",
    "mg-resizing": "moving",
    "st-rebooting": "busy",
    "st-spawning": "busy",
    "st-softdeleted": "soft-deleted",
    "xx-cyborg": "no-flavor",
    "xx-nocapacity": "no-capacity",
    "xx-noinventory": "no-inventory",
    "xx-nonode": "no-compute-node",
    "xx-noprovider": "no-provider",
}


def audited(openstack: shell.OpenStack, *arguments: str, code: int = 3) -> list[dict[str, Any]]:
    allowed = ("--allow", "recorded-nova") if "--repair" in arguments else ()
    return openstack.rows(AUDIT, *RECORDED, *arguments, *allowed, code=code)


def codes(listed: list[dict[str, Any]]) -> dict[str, set[str]]:
    """``{name: its codes}``"""
    found_codes: dict[str, set[str]] = collections.defaultdict(set)
    for row in listed:
        found_codes[row["name"]].add(row["code"])
    return dict(found_codes)


def test_every_wrong_allocation_has_its_code_and_right_ones_have_none(
    openstack: shell.OpenStack,
) -> None:
    listed = audited(openstack)
    found_codes = codes(listed)
    for name, code in {**WRONG, **UNKNOWN}.items():
        assert found_codes[name] == {code}, name
    assert not RIGHT & found_codes.keys()
    causes = {row["name"]: row["cause"] for row in listed}
    for name, cause in SKIPPED.items():
        assert (found_codes[name], causes[name]) == ({"unknown"}, cause), name
    for name, server in SERVERS.items():
        if name.startswith("vm-") and server["id"] in CONSUMERS:
            owner = CONSUMERS[server["id"]]["project"]
            assert found_codes.get(name, set()) == (
                set() if owner == server["tenant_id"] else {"incomplete"}
            )
    missing = {name for name, seen in found_codes.items() if seen == {"missing"}}
    assert {"vm-00005", "rs-mixed", "xx-granular", "st-stopped"} <= missing
    assert not missing & {name for name, item in SERVERS.items() if item["id"] in CONSUMERS}


@fixtures.ON_ONE_TARGET
def test_rows_for_programs_have_codes_and_documented_fields(openstack: shell.OpenStack) -> None:
    page = (guide.DOCS / "user/repair/audit-output.rst").read_text()
    fields = page.partition("Fields of ``evidence``")[2].partition("\nActions\n")[0]
    documented = {*re.findall(r"``([a-z_]+)``", fields)}
    written = {"allocations", "commands", "ports", "removed", "project_id", "user_id"}
    for row in [*audited(openstack), *audited(openstack, "--repair", "--dry-run")]:
        assert row["cause"] in {*reasons.Code}, row
        assert row["action"] in {*findings.Remedy}, row
        assert row["evidence"].keys() <= documented, row
        assert row["proposed"].keys() <= written, row
        assert bool(row["proposed"]) == (row["code"] != "unknown"), row
        assert not [text for text in _texts([row["evidence"], row["proposed"]]) if " " in text]
        assert row.get("status") != "skipped" or row["reason_code"] == row["cause"]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def check_repaired(after: dict[str, Any]) -> None:
    """Right allocations are kept, and wrong ones are as nova needs them."""
    for name in ("al-shared", "mg-live-new", "mg-resized-new"):
        uuid = SERVERS[name]["id"]
        assert after[uuid]["allocations"] == CONSUMERS[uuid]["allocations"]
    nodes = {
        item["hypervisor_hostname"]: item["id"]
        for item in NOVA["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    }
    small = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}
    for name, resources in (
        ("al-double", small),
        ("al-wronghost", small),
        ("al-wrongsize", {"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 80}),
    ):
        (provider,) = after[SERVERS[name]["id"]]["allocations"].items()
        assert provider == (nodes["cmp-0002.lab.example.org"], resources)
    assert SERVERS["al-offloaded"]["id"] not in after


def test_repair_leaves_only_unknown_and_undo_restores_everything(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    before = target.state()
    planned = audited(openstack, "--repair", "--dry-run")
    assert target.state() == before
    listed = audited(openstack, "--repair", "--undo-out", "undo.json", code=9)
    assert [row["code"] for row in planned] == [row["code"] for row in listed]
    assert {row["status"] for row in listed if row["code"] != "unknown"} == {"applied"}
    assert {row["status"] for row in listed if row["code"] == "unknown"} == {"skipped"}
    after = target.state()
    check_repaired(after["consumers"])
    assert {row["code"] for row in audited(openstack, code=0)} == {"unknown"}
    audited(openstack, "--strict")
    audited(openstack, "--repair", code=0)
    audited(openstack, "--repair", "--strict")
    assert target.state() == after
    openstack.do("placement plan undo", "undo.json")
    assert target.state() == before


def test_only_selected_codes_and_hosts_are_repaired(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    before = target.state()["consumers"]
    listed = audited(openstack, "--repair", "--only", "doubled", "--only", "wrong-size", code=9)
    assert set(codes(listed)) == {"al-double", "al-wrongsize", "al-trait-only"}
    after = target.state()["consumers"]
    assert {uuid for uuid in before if before[uuid] != after.get(uuid)} == {
        SERVERS[name]["id"] for name in codes(listed)
    }
    listed = audited(openstack, "--repair", "--host", "cmp-0009", "--max-count", "2", code=5)
    assert {host for row in listed for host in row["hosts"]} == {"cmp-0009"}
    assert collections.Counter(row["status"] for row in listed)["applied"] == 2


@fixtures.ON_ONE_TARGET
def test_recent_change_is_unknown(openstack: shell.OpenStack) -> None:
    century = ("--min-age", str(100 * 365 * 24 * 3600))
    found_codes = codes(audited(openstack, *century))
    assert found_codes["al-double"] == found_codes["st-deleted-alloc"] == {"unknown"}
    assert found_codes["3905aef8-6d9e-5a1d-9bcc-e73e2b94af7b"] == {"orphaned"}


@fixtures.ON_ONE_TARGET
def test_each_option_that_a_row_advises_belongs_to_the_command_that_it_names(
    openstack: shell.OpenStack,
) -> None:
    shown = openstack.run(AUDIT, *RECORDED)
    cells = [cell for line in shown.stdout.splitlines() for cell in line.split("|") if "--" in cell]
    entries = {commands.command_name(entry): entry for entry in commands.COMMANDS}
    advised = set()
    for cell in cells:
        for listed in re.finditer(r"--[a-z][a-z-]*", cell):
            before = cell[: listed.start()]
            named = max(entries, key=lambda name: (before.rfind(name), len(name)))
            assert named in before, cell
            advised.add((named, listed[0]))
    assert advised >= {("placement allocation heal", "--assign")}
    for command, option in advised:
        help_text = commands.parser_of(entries[command]).format_help()
        assert f" {option} " in help_text, (command, option)
