# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain --for`` and who holds the room, on every Placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.testing import nova
from osc_placement.testing.cloud import uuid_of
from osc_placement.workflows.cloud import server_moves
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, checked

EXPLAIN = "allocation candidate explain"
SERVER, OTHER, DELETED, MIGRATION = (uuid_of(name) for name in ("web", "db", "deleted", "move"))
OF = f"{EXPLAIN} --server {SERVER}"
MOVE = f"{OF} --for live-migrate"


LISTED = "GET /v2.1/servers/detail"


def state(
    status: str = "completed",
    *,
    totals: Mapping[str, int] = {},
    of: str = "db",
    kind: str = "live-migration",
    source: str = "up",
    hypervisors: Mapping[str, int] = {},
    server: Mapping[str, Any] = {},
    **answers: Any,
) -> State:
    """Two hosts of 8 VCPU; on ``b`` a deleted server and a migration that is over hold 7.

    The server on ``a``, and another one on ``a`` that was on ``b``.
    """
    made = testing.Cloud("nova-{}").flavor("small", vcpus=2, ram=16).flavor("big", vcpus=6, ram=16)
    for name in ("a", "b"):
        version = hypervisors.get(name, 0) * 1000000
        node = {"hypervisor_type": "QEMU", "hypervisor_version": version} if hypervisors else {}
        made.host(name, VCPU=totals.get(name, 8), MEMORY_MB=64)
        made.node(name, service={"state": source} if name == "a" else {}, **node)
    places = {"web": ("a", 2), "db": ("a", 2), "deleted": ("b", 5), "move": ("b", 2)}
    for name, (host, amount) in places.items():
        made.server(name, {host: {"VCPU": amount, "MEMORY_MB": 16}}, type="unknown")
    for name, fields in (("web", server), ("db", {})):
        made.instance(name, "a", vcpus=2, ram=16, flavor="small", **fields)
    gone = {"name": "ed", "status": "DELETED", "updated": "2026-01-01T00:00:00Z"}
    made.instance("deleted", vcpus=3, **gone)
    made.migration("move", of, "b", "a", migration_type=kind, status=status)
    own, other = made.nova()[LISTED]["servers"]
    more = {
        f"{LISTED}?host=nova-a": [own, other],
        f"{LISTED}?uuid={SERVER}": [own],
        f"{LISTED}?uuid={OTHER}": [other],
    }
    return State(made, {path: {"servers": listed} for path, listed in more.items()} | answers)


def two_nodes() -> State:
    made = state()
    made.cloud.node("b2", "nova-b")
    return made


def no_provider() -> State:
    """Nova has a host ``c``, whose provider nova-compute has not made."""
    made = state()
    made.cloud.node("c")
    return made


OFFLOADED = {"vm_state": "shelved_offloaded", "host": None}
AUDIT = f"placement allocation audit --repair --consumer={DELETED} --consumer={MIGRATION}"
ROOM = {"b": 16}
NO_MIGRATIONS: dict[str, Any] = {"GET /v2.1/os-migrations": None}
AWAY = nova.server(DELETED, name="away", host="nova-a", node="a", vcpus=2, ram=16)
STATES = {
    "no room": state(),
    "repaired": state()._replace(before=[f"{AUDIT} --allow=recorded-nova"]),
    "in doubt": state("error", **{f"{LISTED}?uuid={DELETED}": {"servers": [AWAY]}}),
    "live migration failed": state("error", of="web"),
    "room on a": state(totals={"a": 10})._replace(
        files={"nova.conf": "[DEFAULT]\nallow_resize_to_same_host = true\n"}
    ),
    "room": state(totals=ROOM),
    "was moved before": state(of="web", totals=ROOM),
    "room, source down": state(totals=ROOM, source="down"),
    "offloaded": state(totals=ROOM, server=OFFLOADED),
    "older": state(totals=ROOM, hypervisors={"a": 8, "b": 6}),
    "equal": state(totals=ROOM, hypervisors={"a": 8, "b": 8}),
    "newer": state(totals=ROOM, hypervisors={"a": 6, "b": 8}),
    "no migrations": state(**NO_MIGRATIONS),
    "room, no migrations": state(totals=ROOM, **NO_MIGRATIONS),
    "source down": state(source="down"),
    "shelved": state(server={"vm_state": "shelved"}),
    "rebooting": state(server={"task_state": "rebooting"}),
    "no server": state(**{f"{LISTED}?uuid={SERVER}": {"servers": []}}),
    "no provider": no_provider(),
    "two nodes": two_nodes(),
    "no services": state(**{"GET /v2.1/os-services": None}),
}

ON_B = {"candidate": [{"host": "b"}]}
IGNORED = [{"reason": "ignore_hosts", "text": "the server is there: a"}]
OLDER = {"reason": "ignore_hosts: hypervisor", "text": ("its hypervisor is older",)}
LEAKED = {"is_leaked": True}
HELD = [
    {"consumer": DELETED, "source": None, "text": "16 MEMORY_MB, 5 VCPU",
     "reason": "unknown to nova", "details": LEAKED, "commands": [f"openstack {AUDIT}"]},
    {"consumer": MIGRATION, "source": "db", "text": "16 MEMORY_MB, 2 VCPU",
     "reason": "live-migration completed", "details": LEAKED, "commands": [f"openstack {AUDIT}"]},
]  # fmt: skip
OF_VOLUME = "the properties of its volume's image: nova does not show them"
UNREAD = ("whether an earlier move of the server is over: ", "/os-migrations")

# fmt: off
TABLE = [
    # A target names who holds its room, and the audit frees it.
    Row(f"{MOVE} --to-host nova-b", "no room", 3,
        {"candidate": None, "holder": HELD,
         "constraint": [..., {"text": f"in_tree={uuid_of('b')}",
                              "source": "requested destination: nova-b"}]}),
    Row(f"{MOVE} --to-host nova-b", "repaired", 0, ON_B),
    # Without a move, the nearest hosts show what nova does not have.
    Row(f"{EXPLAIN} --resource VCPU=6", "no room", 3,
        {"holder": [{"consumer": DELETED}, {"consumer": MIGRATION}]}),
    Row(f"{EXPLAIN} --resource VCPU=6 --host a", "no room", 3,
        {"holder": [{"source": "web", "text": "2 VCPU", "reason": "active on nova-a"},
                    {"source": "db", "text": "2 VCPU", "reason": "active on nova-a"}]}),
    Row(f"{EXPLAIN} --resource VCPU=6 --host a --no-nova", "no room", 3, {"holder": None}),
    Row(f"{MOVE} --to-host b", "in doubt", 3,
        {"holder": [..., {"consumer": MIGRATION, "reason": ("live-migration",),
                          "details": {"is_leaked": False}},
                    {"consumer": DELETED, "reason": "active on nova-a", "details": LEAKED}]}),
    # A resize asks for the new flavor, and may stay.
    Row(f"{OF} --for resize --to-flavor big", "no room", 3,
        {"constraint": [..., {"text": "resources=VCPU:6"}],
         "assumption": [..., {"text": ("allow_resize_to_same_host is off",)}]}),
    Row(f"{OF} --for resize --to-flavor big", "room on a", 3, {"candidate": None}),
    Row(f"{OF} --for resize --to-flavor big --nova-conf nova.conf", "room on a", 0,
        {"candidate": [{"host": "a"}]}),
    # A move leaves the source out.
    Row(MOVE, "room", 0, {**ON_B, "nova-filter": [..., *IGNORED]}),
    Row(f"{OF} --for migrate", "room", 0, {**ON_B, "nova-filter": [..., *IGNORED]}),
    Row(MOVE, "was moved before", 0, {"candidate": [{"host": "b"}], "not-checked": None},
        Absent("the server: ")),
    Row(f"{OF} --for evacuate", "room, source down", 0,
        {**ON_B, "nova-filter": [..., *IGNORED]}),
    # No host says what the image of its volume needs.
    Row(f"{OF} --for unshelve", "offloaded", 4, {
        "candidate": [{"host": "a"}, {"host": "b"}],
        "not-checked": [{"text": f"ImagePropertiesFilter: {OF_VOLUME}"}]}),
    # A live migration leaves hosts with an older hypervisor out.
    Row(MOVE, "older", 3, {"candidate": None, "nova-filter": [..., OLDER]}),
    Row(f"{MOVE} --to-host nova-b", "older", 3, {"nova-filter": [..., OLDER]}),
    Row(f"{OF} --for migrate", "older", 4,
        {**ON_B, "not-checked": [{"text": f"ImagePropertiesFilter: {OF_VOLUME}"}]}),
    Row(MOVE, "equal", 0, {**ON_B, "nova-filter": [..., *IGNORED]}),
    Row(f"{MOVE} --to-host nova-b", "equal", 0, ON_B),
    Row(MOVE, "newer", 0, ON_B),
    Row(f"{MOVE} --to-host nova-b", "newer", 0, ON_B),
    # The operator has looked for the guest.
    Row(f"placement allocation audit --consumer={SERVER} --consumer={MIGRATION}",
        "live migration failed", 0, [{"code": "unknown", "action": "find-guest"}]),
    Row(f"placement allocation audit --repair --allow=recorded-nova --allow=claimed-host"
        f" --consumer={SERVER} --consumer={MIGRATION}", "live migration failed", 9,
        [{"code": "leaked-move", "uuid": MIGRATION, "status": "applied"}]),
    # Migrations that nova does not list make a yes unknown.
    Row(MOVE, "no migrations", 3),
    Row(MOVE, "room, no migrations", 4, {**ON_B, "not-checked": [{"text": UNREAD}]}),
]
#: ``(what follows --for, state, message)``
REFUSED = [
    ("live-migrate --to-host x", "no room", "nova has no compute host 'x'"),
    ("migrate --to-host nova-a", "no room", "nova-a is the source"),
    ("migrate --to-host a", "no room", "nova-a is the source"),
    ("resize --to-flavor x", "no room", "no flavor with the name or ID 'x'"),
    ("resize --to-flavor small", "no room", "has the flavor small already"),
    ("unshelve", "no room", "unshelve needs a server that is shelved or shelved_offloaded"),
    ("unshelve", "shelved", "nova starts it on nova-a, without"),
    ("migrate", "rebooting", "while its task is rebooting"),
    ("migrate", "source down", "nova-compute on nova-a is not up"),
    ("live-migrate", "source down", "if the host is off: evacuate it"),
    ("evacuate", "no room", "compute service set --down nova-a nova-compute"),
    ("migrate", "no server", f"nova has no server with the name or UUID '{SERVER}'"),
    ("migrate --to-host nova-b", "two nodes", "nova-b has several compute nodes: nova moves no"),
    ("migrate", "no services", "--for needs nova's hosts: compute services: "),
    ("migrate --to-host nova-c", "no provider",
     "nova-compute on nova-c creates one when it starts"),
]
USAGE = [
    (f"{OF} --for resize", "resize needs --to-flavor"),
    (f"{OF} --for migrate --to-flavor big", "--to-flavor: needs --for resize"),
    (f"{OF} --for resize --to-flavor big --to-host b", "nova chooses the host"),
    (f"{OF} --for migrate --no-nova", "not allowed with argument --no-nova"),
    (f"{OF} --for migrate --to-host b --host b", "not allowed with argument --host"),
    (f"{EXPLAIN} --resource VCPU=1 --to-host b", "argument --to-host: needs --for"),
    (f"{EXPLAIN} --flavor big --for migrate", "argument --for: needs --server"),
    (f"{EXPLAIN} --flavor big --for resize", "the new flavor of a resize is --to-flavor"),
    (f"{OF} --flavor big --for resize", "the new flavor of a resize is --to-flavor"),
]
# fmt: on

test_explain_moves = checked(TABLE, STATES)


test_a_move_that_nova_refuses_is_an_error = fixtures.ON_ONE_TARGET(
    checked(
        [
            *(Row(f"{OF} --for {move}", state, 1, text) for move, state, text in REFUSED),
            *(Row(line, "no room", 2, text) for line, text in USAGE),
        ],
        STATES,
    )
)


@pytest.mark.parametrize("kind", server_moves.TABLE)
def test_an_open_migration_of_a_server_without_a_task_makes_a_yes_unknown(
    kind: str, openstack: OpenStack
) -> None:
    """Nova's host of the server is a claim then, and a move from there may find no guest.

    Not while a resize waits to be confirmed: its guest is certainly there.
    """
    for status, own in server_moves.TABLE[kind].items():
        is_claim = own.phase is not server_moves.Phase.WAITING
        moving = state(status, totals=ROOM, of="web", kind=kind)
        section = "not-checked" if is_claim else "note"
        row = Row(MOVE, status, 4 if is_claim else 0, {section: [{"text": ("the server: its ",)}]})
        row.check(openstack, {status: moving})
