# SPDX-License-Identifier: Apache-2.0
"""The provider audit with a real keystone, nova and placement."""

from __future__ import annotations

import pytest

from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

AUDIT = "placement provider audit"


class Cloud(conftest.SeededCloud):
    """The findings of the audit."""

    def audited(self, arguments: str = "", code: int = 0) -> dict[str, set[str]]:
        """``{code: names}``."""
        codes: dict[str, set[str]] = {}
        for row in self.rows(f"{AUDIT} {arguments}", code):
            codes.setdefault(row["code"], set()).add(row["name"])
        return codes


NODE = "cmp-0012.lab.example.org"
#: Its provider is smaller than its hypervisor.
SMALL = "cmp-0003.lab.example.org"
#: A host without provider, and a provider without a host that lacks the trait COMPUTE_NODE.
SEEDED = {
    "missing-provider": {"cmp-0010.lab.example.org"},
    "unknown": {"cmp-gone.lab.example.org"},
}


def test_only_the_seeded_faults_are_reported(cloud: Cloud) -> None:
    assert cloud.audited() == SEEDED | {"wrong-inventory": {SMALL}}


def test_faults_are_found_and_the_certain_one_is_repaired(cloud: Cloud) -> None:
    cloud.openstack.do(f"resource provider trait add --trait COMPUTE_STATUS_DISABLED {NODE}")
    cloud.openstack.do(f"resource provider inventory amend {NODE} --resource VCPU:total=63")
    cloud.openstack.do("resource provider create cmp-0011")
    rows = cloud.audited(code=3)
    assert rows == SEEDED | {
        "double-provider": {"cmp-0011"},
        "wrong-inventory": {NODE, SMALL},
        "wrong-status": {NODE},
    }
    cloud.audited("--repair", code=9)
    assert "wrong-status" not in cloud.audited()
