# SPDX-License-Identifier: Apache-2.0
"""A name of a host aggregate on the command line: nova has 6 hosts in az1, Placement has 1."""

from __future__ import annotations

import json

import pytest

from tests.support.peer import shell

pytestmark = pytest.mark.usefixtures("sample")

AZ1 = "be4a925b-4188-574d-b068-b52328ddc496"
TOLD = "az1 has 6 hosts in nova, 1 of them in Placement: 'openstack placement aggregate mirror"
UUID = f"the UUID {AZ1} means Placement's members"
NONE = "az2 has 5 hosts in nova, 0 of them in Placement"
AMEND = "resource provider inventory amend --resource VCPU:reserved=1 --dry-run"
TRAIT = "resource provider trait add --create --trait CUSTOM_GOLD --dry-run"

#: ``(command line, exit code, what stderr says, number of rows; None for an error)``
ROWS = [
    (f"{AMEND} --member-of az1", 1, [TOLD, UUID], None),
    (f"{AMEND} --member-of az2", 1, [NONE], None),
    (f"{AMEND} --all --not-member-of az1", 1, [TOLD, UUID], None),
    (f"{TRAIT} --member-of az1,az2", 1, [TOLD, NONE], None),
    (f"{AMEND} --member-of {AZ1}", 0, [], 1),
    ("resource provider list --required COMPUTE_NODE --not-member-of az1", 0, [TOLD], 10),
    (f"resource provider list --not-member-of {AZ1}", 0, [], None),
    ("allocation candidate list --resource VCPU=1 --member-of az1", 0, [TOLD], 1),
    ("placement host check --aggregate empty", 1, ["'empty' has no hosts"], None),
    ("resource provider list --member-of nobody", 1, ["no nova host aggregate has"], None),
]


@pytest.mark.parametrize(("command", "code", "texts", "count"), ROWS, ids=[row[0] for row in ROWS])
def test_a_name_means_the_hosts_in_nova(
    openstack: shell.OpenStack, command: str, code: int, texts: list[str], count: int | None
) -> None:
    outcome = openstack.run(command, "--os-nova-recording", "12-hosts", "-f", "json")
    assert outcome.code == code, outcome
    said = " ".join(outcome.stderr.split())
    assert all(text in said for text in texts), outcome
    assert texts or "in nova" not in said
    if count is not None:
        assert len(json.loads(outcome.stdout)) == count


def test_host_check_asks_about_the_hosts_in_nova(openstack: shell.OpenStack) -> None:
    outcome = openstack.run(
        "placement host check --aggregate az2 --os-nova-recording 12-hosts -f json"
    )
    names = [name.partition(".")[0] for name in json.loads(outcome.stdout)["hosts"]]
    assert names == ["cmp-0007", "cmp-0008", "cmp-0009", "cmp-0011", "cmp-0012"]
