# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate list``."""

from __future__ import annotations

from osc_placement.testing import Cloud, uuid_of
from tests.support.rows import Row, checked

BIG, NIC, SMALL = uuid_of("big"), uuid_of("nic"), uuid_of("small")
#: Aggregates: ``RACK`` of all hosts, ``ROW`` of the small one.
RACK, ROW = uuid_of("rack"), uuid_of("row")
AVX, SRIOV = "HW_CPU_X86_AVX", "HW_NIC_SRIOV"

STATES = {
    "nodes": Cloud()
    .host("big", VCPU=8, MEMORY_MB=64, traits=[AVX], aggregates=["rack"])
    .child("big", "nic", SRIOV_NET_VF=4, traits=[SRIOV])
    .host("small", VCPU=2, MEMORY_MB=64, aggregates=["rack", "row"])
}

LIST = "allocation candidate list"
ONE = f"{LIST} --resource VCPU=1"
FOUND = "-f value -c 'resource provider'"
AT = "--os-placement-api-version"
QUERY = (
    "'GET /placement/allocation_candidates?limit=1000&resources=VCPU%3A1"
    f"&root_required=%21{AVX}&member_of=in%3A{RACK}%2C{ROW} HTTP/1.1'"
)
SUBTREE = (
    f"{LIST} --group _CPU --resource VCPU=1 --group _NET --resource SRIOV_NET_VF=1 --in-tree big"
    f" --group _HOST --required {AVX} --same-subtree _CPU,_NET,_HOST --long"
)
MAPPINGS = {"_CPU": [BIG], "_NET": [NIC], "_HOST": [BIG]}
TWO = f"{LIST} --group 1 --resource VCPU=1 --group 2 --resource MEMORY_MB=1"
DEPRECATED = "The --aggregate-uuid option is deprecated, please use --member-of instead."


def candidates(row: str, *providers: str) -> Row:
    """A row whose candidates use these providers."""
    return Row(f"{row} {FOUND}", "nodes", 0, set(providers))


TABLE = [
    # Each option filters.
    candidates(ONE, BIG, SMALL),
    Row(f"{ONE} --limit 1", "nodes", 0, [{"#": 1}]),
    candidates(f"{ONE} --required {AVX}", BIG),
    candidates(f"{ONE} --forbidden {AVX}", SMALL),
    candidates(f"{ONE} --required {AVX},HW_CPU_X86_SSE", BIG),
    candidates(f"{ONE} --member-of {ROW}", SMALL),
    candidates(f"{ONE} --member-of {RACK},{ROW}", BIG, SMALL),
    candidates(f"{ONE} --member-of {RACK} --member-of {ROW}", SMALL),
    candidates(f"{ONE} --not-member-of {ROW}", BIG),
    candidates(f"{ONE} --in-tree small", SMALL),
    candidates(f"{ONE} --root-required {AVX}", BIG),
    candidates(f"{ONE} --root-required '!{AVX}'", SMALL),
    # A glob selects roots, and the limit counts what matches.
    candidates(f"{ONE} --name-glob 'sm*'", SMALL),
    candidates(f"{ONE} --name-glob 'SM*'"),
    candidates(f"{ONE} --name-glob 's*' --name-glob big", BIG, SMALL),
    candidates(f"{ONE} --name-glob small --limit 1", SMALL),
    candidates(f"{AT} 1.29 {LIST} --resource SRIOV_NET_VF=1 --name-glob big", NIC),
    *(candidates(f"{LIST} --query 'resources=VCPU:1{limit}' --name-glob {name}", found)
      for limit in ("", "&limit=1") for name, found in (("small", SMALL), ("big", BIG))),
    candidates(f"{LIST} --query 'resources=VCPU:1&limit=1' --name-glob small --name-glob big", BIG),
    # Options after --group belong to the group; groups have names and subtrees.
    Row(f"{AT} 1.29 {ONE} --group 1 --resource SRIOV_NET_VF=1 --required {SRIOV}"
        f" -c '#' -c allocation {FOUND}", "nodes", 0,
        {f"1 VCPU=1 {BIG}", f"1 SRIOV_NET_VF=1 {NIC}"}),
    Row(TWO, "nodes", 0, [{"#": 1}, {"#": 2}]),
    Row(f"{TWO} --group-policy isolate", "nodes", 0, []),
    Row(SUBTREE, "nodes", 0, [{"mappings": MAPPINGS}] * 2),
    Row(f"{SUBTREE} -c allocation {FOUND} -c parent_provider_uuid", "nodes", 0,
        {f"VCPU=1 {BIG} None", f"SRIOV_NET_VF=1 {NIC} {BIG}"}),
    Row(f"{AT} 1.32 {SUBTREE}", "nodes", 1,
        ("requires at least version 1.33", "requires at least version 1.36")),
    # A query is sent unchanged.
    candidates(f"{LIST} --query {QUERY}", SMALL),
    candidates(f"{LIST} --query 'resources=VCPU:1,MEMORY_MB:1&limit=5'", BIG, SMALL),
    Row(f"{AT} 1.34 {LIST} --query {QUERY}", "nodes", 1, "requires at least version 1.35"),
    # Columns that are not shown by default.
    Row(f"{AT} 1.39 {LIST} --resource VCPU=4 -f csv", "nodes", 0,
        '"#","allocation","resource provider","inventory used/capacity","traits" 1,'),
    Row(f"{AT} 1.39 {LIST} --resource VCPU=4 -c mappings", "nodes", 0, [{"mappings": {"": [BIG]}}]),
    Row(f"{LIST} --resource VCPU=4 --long", "nodes", 0, [{"provider_name": "big"}]),
    Row(f"{LIST} --resource VCPU=4 -f value -c provider_name", "nodes", 0, {"big"}),
    # The former name of --member-of.
    *(Row(f"{command} --aggregate-uuid {ROW} -f value -c '{column}'", "nodes", 0,
       {SMALL}, says=DEPRECATED)
      for command, column in ((ONE, "resource provider"),
                              ("resource provider list --name small", "uuid"))),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)
