# SPDX-License-Identifier: Apache-2.0
"""``resource provider create | delete | list | set | show | unset``, traits, tree; the catalogs."""

from __future__ import annotations

from osc_placement.testing import Cloud, uuid_of
from tests.support.rows import Absent, Row, State, checked

RACK, UNUSED, SERVER = uuid_of("rack"), uuid_of("nobody"), uuid_of("server")
ONE, TWO, CHILD, ROOT, NUMA = map(uuid_of, ("one", "two", "child", "root", "numa0"))
AVX, SSD, GOLD = "HW_CPU_X86_AVX", "STORAGE_DISK_SSD", "CUSTOM_GOLD"

STATES = {
    "two trees": Cloud().host("one").child("one", "child").host("two"),
    "a tree": Cloud()
    .host("root", VCPU=8)
    .child("root", "numa0", MEMORY_MB=512)
    .child("numa0", "gpu", traits=["HW_NUMA_ROOT"])
    .child("root", "numa1")
    .server("server", {"root": {"VCPU": 3}}),
    "one in use": Cloud().host("used", VCPU=4).host("free").server("server", {"used": {"VCPU": 2}}),
    "racks": State(
        Cloud().host("rack1-1", VCPU=8).host("rack1-2", VCPU=8).host("rack2-1", VCPU=8),
        files={"hosts": "rack2-1\n"},
    ),
    "a node": Cloud().host("node", VCPU=8, traits=[SSD], aggregates=["rack"]),
    "two nodes": Cloud()
    .host("one", traits=["HW_NUMA_ROOT", GOLD])
    .host("two", traits=["HW_NUMA_ROOT"]),
    "traits": Cloud().host("node", traits=[AVX, SSD, GOLD]),
    "a rack": Cloud().host("one", aggregates=["rack"]).host("two", aggregates=["rack"]),
    "a rack with traits": Cloud()
    .host("one", traits=[SSD], aggregates=["rack"])
    .host("two", traits=[SSD], aggregates=["rack"]),
}

AT = "--os-placement-api-version"
COMPARE = "resource provider trait compare"
DELETE, LIST, SET, SHOW, UNSET, TRAIT, TREE = (
    *(f"resource provider {verb}" for verb in ("delete", "list", "set", "show", "unset")),
    "resource provider trait set",
    "resource provider tree show",
)
NAMES = "-f value -c name"
IN_USE = "used is in use: 'openstack resource provider consumer list used' shows its consumers"

TABLE = [
    # A parent changes from 1.37 on.
    Row(f"{SET} two --parent-provider one", "two trees", 0, {"parent_provider_uuid": ONE}),
    Row(f"{SET} child --parent-provider two", "two trees", 1, "re-parenting", unchanged=True),
    Row(f"{AT} 1.37 {SET} child --parent-provider two", "two trees", 0,
        {"parent_provider_uuid": TWO}),
    Row(f"{UNSET} --parent-provider child", "two trees", 0,
        {"parent_provider_uuid": None, "root_provider_uuid": CHILD}),
    Row(f"""{UNSET} --parent-provider child
            {UNSET} --parent-provider child""", "two trees", 0,
        {"parent_provider_uuid": None, "root_provider_uuid": CHILD}),
    # A tree is deleted only with --tree; a failure does not stop the others.
    Row(f"{DELETE} numa0", "a tree", 1,
        ("HTTP 409", "numa0 has children: --tree deletes them too"), unchanged=True),
    Row(f"""{DELETE} --tree numa0
            {LIST} {NAMES}""", "a tree", 0, {"root", "numa1"}),
    Row(f"""resource provider allocation delete {SERVER}
            {DELETE} --tree root
            {LIST}""", "a tree", 0, []),
    Row(f"""{DELETE} two {TWO}
            {LIST} {NAMES}""", "two nodes", 0, {"one"}),
    Row(f"{DELETE} used", "one in use", 1, IN_USE, unchanged=True),
    Row(f"{DELETE} used free", "one in use", 1,
        ("has allocations", IN_USE, "Failed to delete 1 of 2 resource providers.")),
    Row(f"{AT} 1.27 {SHOW} used --allocations", "one in use", 0,
        {"allocations": {SERVER: {"resources": {"VCPU": 2}}}}),
    Row(f"{SHOW} used --allocations", "one in use", 0,
        {"allocations": {SERVER: {"resources": {"VCPU": 2}, "consumer_generation": 1}}}),
    Row(f"{SHOW} used", "one in use", 0, ("used", Absent("allocations"))),
    # The selectors of batch operations.
    Row(f"{LIST} --name-glob 'rack1-*' {NAMES}", "racks", 0, {"rack1-1", "rack1-2"}),
    Row(f"{LIST} rack1-2 --name-glob 'rack*'", "racks", 0, [{"name": "rack1-2"}]),
    Row(f"{LIST} rack1-2 --resource VCPU=9", "racks", 0, []),
    Row(f"{LIST} rack1-2 rack2-1 --providers-from hosts --name-glob 'rack2*'", "racks", 0,
        [{"name": "rack2-1"}]),
    Row(f"{LIST} --all {NAMES}", "racks", 0, {"rack1-1", "rack1-2", "rack2-1"}),
    # A long list shows traits, aggregates and inventories, as far as the version has them.
    Row(f"{LIST} --long", "a node", 0,
        [{"traits": [SSD], "aggregates": [RACK], "inventories": {"VCPU": {"total": 8}},
          "updated": ("GMT",)}]),
    Row(f"{AT} 1.0 {LIST} --long -f csv", "a node", 0, '"uuid","name","generation","inventories" '),
    Row(f"{LIST} --name nobody", "a node", 0, "No resource provider found on "),
    Row(f"{LIST} --name nobody", "a node", 0, [], says=Absent("found")),
    # Setting traits warns which standard traits it removes.
    Row(f"{TRAIT} node --trait {AVX} --trait {SSD} --trait {GOLD}", "a node", 1, GOLD),
    Row(f"{TRAIT} node --trait {AVX} --trait {SSD} -f value", "a node", 0, {AVX, SSD},
        says=Absent("Warning")),
    Row(f"{TRAIT} node --trait {SSD}", "traits", 0, [{"name": SSD}],
        says=(f"Warning: the standard trait {AVX} was removed", "'resource provider trait add'")),
    Row(f"{TRAIT} node", "traits", 0, [],
        says=f"the standard traits {AVX}, {SSD} were removed"),
    Row(f"{TRAIT} {RACK} --aggregate --trait {SSD}", "a rack", 0, [{"name": SSD}] * 2),
    Row(f"{TRAIT} {RACK} --aggregate", "a rack with traits", 0, [],
        says=f"Warning: the standard trait {SSD} was removed"),
    Row(f"{TRAIT} {UNUSED} --aggregate", "a rack", 1,
        f"No resource providers found in aggregate with uuid {UNUSED}."),
    # A tree is listed root first.
    Row(f"{TREE} numa1 --long -f value -c depth -c name -c parent -c kind", "a tree", 0,
        {"root None 0 provider", f"numa0 {ROOT} 1 provider", f"gpu {NUMA} 2 provider",
         f"numa1 {ROOT} 1 provider"}),
    Row(f"{TREE} numa1 --long -f value", "a tree", 0,
        ('{"VCPU": {"used": 3, "capacity": 8}}', '["HW_NUMA_ROOT"]', '"total": 512')),
    Row(f"{TREE} gpu -f value -c name", "a tree", 0, ("root numa", "numa0 gpu")),
    Row(f"{TREE} {NUMA}", "a tree", 0, ("├─ numa", "VCPU=3/8")),
    Row(f"{TREE} {UNUSED}", "a tree", 1, "found"),
    # The catalogs of traits and resource classes.
    Row("trait list --name startswith:CUSTOM_ --long", "traits", 0,
        [{"name": GOLD, "updated": ("GMT",)}]),
    Row("""resource class create CUSTOM_GOLD
            resource class list --long -f value""", "a node", 0, ("CUSTOM_GOLD", "GMT")),
    Row(f"{AT} 1.14 trait list --long", "traits", 1, "requires at least version 1.15"),
    Row(f"{COMPARE} --all --trait CUSTOM_G", "a node", 0,
        "None of the selected providers has a trait that matches CUSTOM_G "),
    Row(f"{COMPARE} --all", "two nodes", 0, [
        {"name": "one", GOLD: True, "HW_NUMA_ROOT": True},
        {"name": "two", GOLD: False, "HW_NUMA_ROOT": True}]),
    Row(f"{COMPARE} --all --differing", "two nodes", 0, (GOLD, Absent("HW_NUMA_ROOT"))),
    Row(f"{COMPARE} --all --differing", "two nodes", 0, [{"name": "one", GOLD: True}, {}]),
    Row("resource provider show one -f shell", "two nodes", 0, ('name="one"', 'generation="')),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)
