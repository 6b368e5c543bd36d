"""One-time-use devices: the guard of ``inventory amend``, and the audit."""

from __future__ import annotations

import json

import pytest

from tests.support import embedded
from tests.support.peer import shell, target as targets

DEVICE, CLASS = "bm-1", "CUSTOM_BAREMETAL_GOLD"
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
    openstack.do(*AMEND, f"{CLASS}:reserved=1", "--allow", "over-capacity")


def test_a_device_in_use_is_not_released_without_the_guard(openstack: shell.OpenStack) -> None:
    outcome = openstack.run(*AMEND, f"{CLASS}:reserved=0", "-f", "json")
    (row,) = json.loads(outcome.stdout)
    assert (outcome.code, row["status"], row["code"]) == (6, "refused", "one-time-use")
    allowed = openstack.run(*AMEND, f"{CLASS}:reserved=0", "--allow", "one-time-use")
    assert allowed.code == 0, allowed


def over_capacity(openstack: shell.OpenStack) -> set[str]:
    audit = ("placement allocation audit", "--nova-recording", "12-hosts")
    outcome = openstack.run(*audit, "--only", "over-capacity", "-f", "json")
    return {row["name"] for row in json.loads(outcome.stdout)}


def test_the_audit_does_not_report_a_device_in_use(openstack: shell.OpenStack) -> None:
    assert DEVICE not in over_capacity(openstack)
    openstack.do("resource provider trait set", DEVICE)
    assert DEVICE in over_capacity(openstack)


def test_unused_omits_a_device_in_use(openstack: shell.OpenStack) -> None:
    listed = openstack("resource provider list", "--name-glob", "bm-*", "--unused")
    assert {row["name"] for row in listed} == {"bm-2", "bm-3"}
