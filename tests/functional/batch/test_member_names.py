# SPDX-License-Identifier: Apache-2.0
"""A name of a host aggregate on the command line: nova has 6 hosts in az1, Placement has 1."""

from __future__ import annotations

from tests.support.rows import Absent, Row, checked

AZ1 = "be4a925b-4188-574d-b068-b52328ddc496"
TOLD = "az1 has 6 hosts in nova, 1 of them in Placement: 'openstack placement aggregate mirror"
UUID = f"the UUID {AZ1} means Placement's members"
NONE = "az2 has 5 hosts in nova, 0 of them in Placement"
NOVA = "--os-nova-recording 12-hosts"
LIST = f"{NOVA} resource provider list"
AMEND = f"{NOVA} resource provider inventory amend --resource VCPU:reserved=1 --dry-run"
TRAIT = f"{NOVA} resource provider trait add --create --trait CUSTOM_GOLD --dry-run"

SAMPLE = "12-hosts"
IN_NOVA = Absent("in nova")
TABLE = [
    Row(f"{AMEND} --member-of az1", SAMPLE, 1, (TOLD, UUID)),
    Row(f"{AMEND} --member-of az2", SAMPLE, 1, NONE),
    Row(f"{AMEND} --all --not-member-of az1", SAMPLE, 1, (TOLD, UUID)),
    Row(f"{TRAIT} --member-of az1,az2", SAMPLE, 1, (TOLD, NONE)),
    Row(f"{AMEND} --member-of {AZ1}", SAMPLE, 0, [{}], says=IN_NOVA),
    Row(f"{LIST} --required COMPUTE_NODE --not-member-of az1", SAMPLE, 0, [{}] * 10, says=TOLD),
    Row(f"{LIST} --not-member-of {AZ1}", SAMPLE, 0, IN_NOVA),
    Row(
        f"{NOVA} allocation candidate list --resource VCPU=1 --member-of az1",
        SAMPLE,
        0,
        [{}],
        says=TOLD,
    ),
    Row(f"{NOVA} placement host check --aggregate empty", SAMPLE, 1, "'empty' has no hosts"),
    Row(f"{LIST} --member-of nobody", SAMPLE, 1, "no nova host aggregate has"),
    Row(
        f"{NOVA} placement host check --aggregate az2",
        SAMPLE,
        4,
        {"hosts": [(f"cmp-{number:04}",) for number in (7, 8, 9, 11, 12)]},
    ),
]

test_a_name_means_the_hosts_in_nova = checked(TABLE, {})
