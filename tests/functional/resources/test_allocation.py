# SPDX-License-Identifier: Apache-2.0
"""``resource provider allocation …`` and ``resource provider consumer list``."""

from __future__ import annotations

from osc_placement.testing import Cloud, uuid_of
from tests.support.peer import fixtures, shell
from tests.support.rows import Absent, Row, checked

NODE, ONE = uuid_of("node"), uuid_of("one")
SERVER, OTHER, UNUSED = uuid_of("server"), uuid_of("other server"), uuid_of("nobody")
UNTYPED = {"type": "unknown", "project": "project", "user": "user"}
BOTH = {"one": {"VCPU": 1}, "two": {"VCPU": 2}}

STATES = {
    "a node": Cloud().host("node", VCPU=8, MEMORY_MB=64).host("other", VCPU=8),
    "a server on a node": Cloud()
    .host("node", VCPU=8, MEMORY_MB=64)
    .host("other", VCPU=8)
    .server("server", {"node": {"VCPU": 2, "MEMORY_MB": 5}}, **UNTYPED),
    "a migration": Cloud()
    .host("node", VCPU=8, MEMORY_MB=64)
    .server("server", {"node": {"VCPU": 1, "MEMORY_MB": 1}}, type="MIGRATION"),
    "two servers on two nodes": Cloud()
    .host("one", VCPU=8)
    .host("two", VCPU=8)
    .server("server", BOTH)
    .server("other server", BOTH),
}

PLAIN_SET, SHOW, UNSET, AMEND, DELETE, CONSUMERS = (
    *(f"resource provider allocation {verb}" for verb in ("set", "show", "unset", "amend")),
    "resource provider allocation delete",
    "resource provider consumer list",
)
OWNER = "--project-id project --user-id user"
SET = f"{PLAIN_SET} {SERVER} --allocation rp={NODE},VCPU=2 --allocation rp=node,MEMORY_MB=5"
TYPED = "--consumer-type INSTANCE"
AT = "--os-placement-api-version"
BARE = '"resource_provider","generation","resources"'
OWNED = f'{BARE},"project_id","user_id"'
HELD = {"resource_provider": NODE, "resources": {"VCPU": 2, "MEMORY_MB": 5}}
WARNED, SILENT = "less than", Absent("less than")
#: One UUID in the forms that a command accepts.
FORMS = ("ABCDEF12-3456-4789-8ABC-DEF012345678", "abcdef12345647898abcdef012345678")
LOWER = FORMS[0].lower()

TABLE = [
    # The columns are those of the version; an option that it lacks warns.
    Row(f"{AT} 1.0 {SET}", "a node", 0, [HELD], says=SILENT),
    Row(f"{AT} 1.0 {SET} {OWNER}", "a node", 0, [HELD], says=WARNED),
    Row(f"{AT} 1.8 {SET} {OWNER}", "a node", 0, [HELD], says=SILENT),
    Row(f"{SET} {OWNER} {TYPED}", "a node", 0, [HELD], says=WARNED),
    Row(f"{AT} 1.38 {SET} {OWNER} {TYPED}", "a node", 0, [HELD], says=SILENT),
    Row(f"{AT} 1.0 {SHOW} {SERVER} -f csv", "a server on a node", 0, f'{BARE} "{NODE}"'),
    Row(f"{AT} 1.8 {SHOW} {SERVER} -f csv", "a server on a node", 0, f'{BARE} "{NODE}"'),
    Row(f"{AT} 1.12 {SHOW} {SERVER} -f csv", "a server on a node", 0, f'{OWNED} "{NODE}"'),
    Row(f"{AT} 1.37 {SHOW} {SERVER} -f csv", "a server on a node", 0, f'{OWNED} "{NODE}"'),
    Row(f"{SHOW} {SERVER} -f csv", "a server on a node", 0, f'{OWNED} "{NODE}"'),
    Row(f"{AT} 1.12 {SHOW} {SERVER} --long -f csv", "a server on a node", 0,
        f'{OWNED},"provider_name" "{NODE}"'),
    Row(f"{AT} 1.28 {SHOW} {SERVER} --long -f csv", "a server on a node", 0,
        f'{OWNED},"provider_name","consumer_generation" "{NODE}"'),
    Row(f"{AT} 1.38 {SHOW} {SERVER} -f csv", "a server on a node", 0,
        f'{OWNED},"consumer_type" "{NODE}"'),
    Row(f"{SHOW} {SERVER} -c provider_name", "a server on a node", 0, [{"provider_name": "node"}]),
    Row(f"{SHOW} {SERVER} --long", "a server on a node", 0, [{**HELD, "provider_name": "node"}]),
    # Several consumers are set in one request: all of them or none.
    Row(f"{PLAIN_SET} {SERVER} {UNUSED} {OWNER} --allocation rp=node,VCPU=1"
        f" --allocation consumer={UNUSED},rp=node,MEMORY_MB=4", "a node", 0,
        [{"consumer": SERVER, "resources": {"VCPU": 1}},
         {"consumer": UNUSED, "resources": {"VCPU": 1, "MEMORY_MB": 4}}]),
    Row(f"{PLAIN_SET} {SERVER} {UNUSED} {OWNER} --allocation consumer={SERVER},rp=node,VCPU=1"
        f" --allocation consumer={UNUSED},rp=node,VCPU=1000", "a server on a node", 1,
        "HTTP 409", unchanged=True),
    # Without its last allocation, a consumer has no row.
    *(Row(f"{AT} {version} {UNSET} {SERVER}", "a server on a node", 0, [])
      for version in ("1.12", "1.27", "1.28", "1.37", "1.38", "latest")),
    Row(f"{UNSET} {SERVER}", "a server on a node", 0, []),
    Row(f"{AT} 1.39 {UNSET} {SERVER} --resource-class VCPU", "a server on a node", 0,
        [{"consumer_type": "unknown"}]),
    Row(f"""{UNSET} {SERVER} --resource-class VCPU
            {AT} 1.38 {SHOW} {SERVER}""", "a migration", 0,
        [{"consumer_type": "MIGRATION"}]),
    Row(f"{UNSET} {SERVER} {OTHER} --provider one", "two servers on two nodes", 0,
        [{"consumer": SERVER, "resources": {"VCPU": 2}},
         {"consumer": OTHER, "resources": {"VCPU": 2}}]),
    # Single allocations are changed, and the others stay.
    Row(f"{AMEND} {SERVER} --allocation rp=node,VCPU=4 --allocation rp=other,VCPU=1",
        "a server on a node", 0,
        # PostgreSQL returns the providers of a consumer in any order.
        [...,
         {"resources": {"VCPU": 4, "MEMORY_MB": 5}, "project_id": "project", "user_id": "user"},
         {"resources": {"VCPU": 1}}]),
    Row(f"""{AMEND} {SERVER} --allocation rp=other,VCPU=1
            {AMEND} {SERVER} --allocation rp=node,VCPU=0,MEMORY_MB=0""", "a server on a node", 0,
        [{"resources": {"VCPU": 1}}]),
    Row(f"""{AMEND} {SERVER} --allocation rp=node,VCPU=2
            resource provider show node""", "a server on a node", 0, {"generation": 0}),
    Row(f"{AT} 1.27 {AMEND} {UNUSED} --allocation rp=node,VCPU=1", "a node", 1,
        "requires at least version 1.28"),
    # Every form of a UUID is the same consumer.
    *(Row("\n".join((
        f"{PLAIN_SET} {form} {OWNER} --allocation consumer={form},rp=node,VCPU=1",
        f"{PLAIN_SET} {form} {OWNER} --allocation rp=node,VCPU=2",
        f"{AMEND} {form} --allocation rp=node,MEMORY_MB=2",
        f"{UNSET} {form} --resource-class MEMORY_MB",
        f"{SHOW} {shown}",
       )), "a node", 0, [{"resources": {"VCPU": 2}}])
      for form in FORMS for shown in (form, LOWER)),
    *(Row(f"""{PLAIN_SET} {LOWER} {OWNER} --allocation rp=node,VCPU=2
           {DELETE} {form}
           {SHOW} {LOWER}""", "a node", 0, []) for form in FORMS),
    # The consumers of a provider.
    Row(f"{CONSUMERS} one", "two servers on two nodes", 0,
        [{"consumer": OTHER, "resources": {"VCPU": 1}, "project_id": "project",
          "user_id": "user", "consumer_type": "INSTANCE", "server_name": None},
         {"consumer": SERVER}]),
    Row(f"{AT} 1.37 {CONSUMERS} one -f json", "two servers on two nodes", 0,
        (SERVER, OTHER, Absent("consumer_type"))),
    Row(f"{CONSUMERS} {ONE}", "two servers on two nodes", 0,
        ("VCPU=1", "Without the names of servers: ")),
    Row(f"{CONSUMERS} node", "a node", 0, [], says=Absent("Without")),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


@fixtures.ON_ONE_TARGET
def test_servers_have_their_names_from_nova(openstack: shell.OpenStack, sample: object) -> None:
    listed = openstack(f"{CONSUMERS} cmp-0002.lab.example.org --os-nova-recording 12-hosts")
    names = [row["server_name"] for row in listed]
    assert (names[:2], names[-2:]) == (["al-double", "al-offloaded"], [None, None])
