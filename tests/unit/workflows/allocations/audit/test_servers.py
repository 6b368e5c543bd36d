# SPDX-License-Identifier: Apache-2.0
"""Findings about servers in small snapshots, and their repairs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from tests.support.clouds.audited import (
    CPUS,
    CUSTOM,
    DISK,
    JUST_NOW,
    LARGE,
    PINNED,
    codes,
    find,
    on,
    repaired,
)
from tests.support.clouds.small import SMALL, USES, cloud, move, server

HIDDEN: dict[str, Any] = {"image_properties": None}
RESIZED: dict[str, Any] = {"vm_state": "resized", "flavor": LARGE}
OFFLOADED: dict[str, Any] = {"vm_state": "shelved_offloaded", "host": None}
HEALTHY: dict[str, tuple[values.Server, tuple[values.Migration, ...], dict[str, Any]]] = {
    "on its host": (server(), (), {"s": on(a=USES)}),
    "with its disk on a share": (server(), (), {"s": on(a=CPUS, nfs=DISK)}),
    "whose image was put on a volume": (
        server(has_volumes=True),
        (),
        {"s": on(a=CPUS)},
    ),
    "pinned on a host without PCPU": (server(flavor=PINNED), (), {"s": on(a=USES)}),
    "with a port's device": (
        server("b"),
        (),
        {"s": on(b=USES, nic={"NET_BW_EGR_KILOBIT_PER_SEC": 10})},
    ),
    "with a device that its flavor does not request": (
        server(),
        (),
        {"s": on(a={**USES, "CUSTOM_PCI_8086_1572": 1})},
    ),
    "soft-deleted": (server(vm_state="soft-delete"), (), {"s": on(a=USES)}),
    "live-migrating": (
        server(task_state="migrating"),
        (move("live-migration", "running"),),
        {"s": on(b=USES), "m": on(a=USES)},
    ),
    "live-migrating as before Queens": (
        server(task_state="migrating"),
        (move("live-migration", "running"),),
        {"s": on(a=USES, b=USES)},
    ),
    "being resized": (
        server(task_state="resize_migrating"),
        (move("resize", "migrating"),),
        {"s": on(b={**USES, "VCPU": 2}), "m": on(a=USES)},
    ),
    "waiting to be confirmed": (
        server("b", **RESIZED),
        (move("resize", "finished"),),
        {"s": on(b={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20}), "m": on(a=USES)},
    ),
    "being evacuated": (
        server(task_state="rebuilding"),
        (move("evacuation", "pre-migrating"),),
        {"s": on(a=USES, b=USES)},
    ),
    "evacuated, and not cleaned up": (
        server("b"),
        (move("evacuation", "done"),),
        {"s": on(a=USES, b=USES)},
    ),
    "being built on no host": (server(None, vm_state="building"), (), {}),
    "being built with a claim": (
        server(None, vm_state="building", updated=JUST_NOW),
        (),
        {"s": on(c=USES)},
    ),
    "offloaded": (server(**OFFLOADED), (), {}),
    "in error on no host": (server(None, vm_state="error"), (), {}),
    "of a cell that is down": (server(known=False), (), {}),
    "pinned by an image that is not shown": (
        server("b", **HIDDEN),
        (),
        {"s": on(b={**DISK, "MEMORY_MB": 512, "PCPU": 1})},
    ),
    "whose device profile Cyborg knows": (
        server(flavor=dataclasses.replace(SMALL, extra_specs={"accel:device_profile": "x"})),
        (),
        {"s": on(a={"VCPU": 7, "FPGA": 1})},
    ),
}
#: A server, its migrations, the allocations, the codes, and the allocations after the repair.
WRONG: dict[
    str,
    tuple[values.Server, tuple[values.Migration, ...], dict[str, Any], list[str], dict[str, Any]],
] = {
    "on two hosts": (server(), (), {"s": on(a=USES, b=USES)}, ["doubled"], {"s": on(a=USES)}),
    "on two hosts, its disk shared": (
        server(),
        (),
        {"s": on(a=CPUS, nfs=DISK, b=CPUS)},
        ["doubled"],
        {"s": on(a=CPUS, nfs=DISK)},
    ),
    "evacuated from a deleted host": (
        server("b"),
        (dataclasses.replace(move("evacuation", "done"), source_host="gone"),),
        {"s": on(b=USES, gone=USES)},
        ["doubled"],
        {"s": on(b=USES)},
    ),
    "evacuated, cleaned up, but for this": (
        server("b"),
        (move("evacuation", "completed"),),
        {"s": on(a=USES, b=USES)},
        ["doubled"],
        {"s": on(b=USES)},
    ),
    "not evacuated in the end": (
        server(vm_state="error"),
        (move("evacuation", "failed"),),
        {"s": on(a=USES, b=USES)},
        ["doubled"],
        {"s": on(a=USES)},
    ),
    "doubled, and too small": (
        server(flavor=LARGE),
        (),
        {"s": on(a=USES, b=USES)},
        ["doubled", "wrong-size"],
        {"s": on(a={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20})},
    ),
    "on a wrong host": (server(), (), {"s": on(c=USES)}, ["wrong-host"], {"s": on(a=USES)}),
    "on a wrong host but for its disk": (
        server(),
        (),
        {"s": on(c=CPUS, nfs=DISK)},
        ["wrong-host"],
        {"s": on(a=CPUS, nfs=DISK)},
    ),
    "put back by half": (
        server(),
        (move("live-migration", "failed"),),
        {"s": on(b=USES), "m": on(a=USES)},
        ["orphaned", "wrong-host"],
        {"s": on(a=USES), "m": {}},
    ),
    "offloaded with something left": (
        server(**OFFLOADED),
        (),
        {"s": on(a=USES)},
        ["wrong-host"],
        {"s": {}},
    ),
    "of an older flavor": (
        server(flavor=LARGE),
        (),
        {"s": on(a=USES)},
        ["wrong-size"],
        {"s": on(a={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20})},
    ),
    "of an older flavor, its disk shared": (
        server(flavor=LARGE),
        (),
        {"s": on(a=CPUS, nfs=DISK)},
        ["wrong-size"],
        {"s": on(a={"VCPU": 2, "MEMORY_MB": 1024}, nfs={"DISK_GB": 20})},
    ),
    "too large": (
        server(from_volume=True),
        (),
        {"s": on(a=USES)},
        ["wrong-size"],
        {"s": on(a=CPUS)},
    ),
    "with nothing but a device": (
        server(),
        (),
        {"s": on(a={"CUSTOM_X": 1})},
        ["wrong-size"],
        {"s": on(a={**USES, "CUSTOM_X": 1})},
    ),
    "pinned, and allocated as if not": (
        server("b", flavor=PINNED),
        (),
        {"s": on(b=USES)},
        ["wrong-size"],
        {"s": on(b={"PCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10})},
    ),
    "with nothing": (server(), (), {}, ["missing"], {"s": on(a=USES)}),
    "whose resize is confirmed": (
        server("b"),
        (move("resize", "confirmed"),),
        {"s": on(b=USES), "m": on(a=USES)},
        ["orphaned"],
        {"m": {}},
    ),
}
#: A server, its migrations, the allocations, and a part of the reason why it is unknown.
UNSURE: dict[str, tuple[values.Server, tuple[values.Migration, ...], dict[str, Any], str]] = {
    "doubled while it reboots": (
        server(task_state="rebooting"),
        (move("live-migration", "running", "bb"),),
        {"s": on(a=USES, c=USES)},
        "live-migration is running",
    ),
    "without anything while it moves": (
        server(task_state="migrating"),
        (move("live-migration", "running"),),
        {},
        "live-migration is running",
    ),
    "without anything while it reboots": (server(task_state="rebooting"), (), {}, "rebooting"),
    "soft-deleted without anything": (server(vm_state="soft-delete"), (), {}, "soft-deleted"),
    "stuck while it is built": (
        server(None, vm_state="building"),
        (),
        {"s": on(c=USES)},
        "since 2020",
    ),
    "on a share of other hosts": (server("c"), (), {"s": on(c=USES, nfs=DISK)}, "does not share"),
    "on a wrong host with a port": (
        server(),
        (),
        {"s": on(b=USES, nic={"NET_BW_EGR_KILOBIT_PER_SEC": 10})},
        "NET_BW_EGR_KILOBIT_PER_SEC",
    ),
    "on a wrong host, and full": (
        server(flavor=Flavor(vcpus=99, ram=512, disk=10)),
        (),
        {"s": on(c=USES)},
        "no capacity on a.",
    ),
    "without anything, and full": (
        server(flavor=Flavor(vcpus=99, ram=512, disk=10)),
        (),
        {},
        "no capacity on a.",
    ),
    "lacking what its host has not": (
        server(flavor=CUSTOM),
        (),
        {"s": on(a=USES)},
        "no inventory of CUSTOM_X",
    ),
    "at the source alone of an evacuation": (
        server("b"),
        (move("evacuation", "done"),),
        {"s": on(a=USES)},
        "not cleaned up",
    ),
    "pinned by an image that is not shown": (server("b", **HIDDEN), (), {}, "image"),
    "changed just now": (server(updated=JUST_NOW), (), {"s": on(a=USES, b=USES)}, "10 seconds ago"),
    "moved just now": (
        server(),
        (dataclasses.replace(move("resize", "reverted"), updated=JUST_NOW),),
        {"s": on(a=USES, b=USES)},
        "10 seconds ago",
    ),
    "active, and reported on no host": (
        server(None),
        (),
        {"s": on(a=USES)},
        "a server that is active is on some host",
    ),
    "in error with its migration": (
        server(vm_state="error"),
        (move("resize", "error"),),
        {"s": on(a=USES), "m": on(b=USES)},
        "both in error",
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_right_server_has_no_finding(name: str) -> None:
    one, moves, held = HEALTHY[name]
    assert find(cloud([one], moves, held)) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_server_has_its_code_and_its_repair(name: str) -> None:
    one, moves, held, expected, left = WRONG[name]
    snapshot = cloud([one], moves, held)
    found = find(snapshot)
    assert codes(found) == expected
    assert repaired(snapshot, found) == left
    after = {uuid: parts for uuid, parts in {**held, **left}.items() if parts}
    assert find(cloud([one], moves, after)) == []


@pytest.mark.parametrize("name", UNSURE)
def test_uncertain_finding_is_unknown_and_not_repaired(name: str) -> None:
    one, moves, held, why = UNSURE[name]
    snapshot = cloud([one], moves, held)
    (found,) = find(snapshot)
    assert found.code == "unknown"
    assert why in f"{found.evidence.text}; {found.proposed.text}"
    assert repaired(snapshot, [found]) == {}
