# SPDX-License-Identifier: Apache-2.0
"""``placement capacity make-room``."""

from __future__ import annotations

from osc_placement.testing.cloud import uuid_of
from tests.support.peer import fixtures
from tests.support.rows import Row, State, checked, hosts

ROOM = "placement capacity make-room"
SMALL = uuid_of("small")


def with_servers(small: str = "one", **fields: str) -> State:
    """Two hosts of 8 VCPU, with a server of 2 and one of 5."""
    made = hosts("one", "two")
    for name, vcpus in (("fits", 3), ("full", 8), ("huge", 9)):
        made.flavor(name, vcpus=vcpus, ram=16)
    made.guest("small", small, 2, **fields).guest("large", "two", 5, **fields)
    return State(made)


STATES = {
    "active": with_servers(),
    "stopped": with_servers(vm_state="stopped"),
    "rebooting": with_servers(task_state="rebooting"),
}
MOVE = {"server": SMALL, "to": "nova-two", "way": "live", "memory_mb": 0}
WRITTEN = f"{ROOM} --flavor full --max-moves 5 --plan-out room.json --script room.sh"
FOLLOWED = f"{ROOM} --continue room.json"
PLANNED = STATES["active"]._replace(before=[WRITTEN])
MOVED = with_servers("two")._replace(first=PLANNED)
GONE = State(hosts("two").guest("small", "two", 2), first=PLANNED)
STATES |= {"planned": PLANNED, "moved": MOVED, "source gone": GONE}

# fmt: off
TABLE = [
    # A recording without a release leaves an amount open: a doubt, not a no.
    Row(f"{ROOM} --flavor fits", "active", 0, {"fits": 3, "moves": [], "at_least": 0}),
    Row(f"{ROOM} --flavor full", "active", 0, {"fits": 0, "moves": [MOVE], "at_least": 1}),
    Row(f"{ROOM} --flavor full", "active", 0, "| full | 0 | 1 | 1 |"),
    Row(f"{ROOM} --flavor full --count 2", "active", 3, {"moves": None, "is_proven": False}),
    Row(f"{ROOM} --flavor huge --max-moves 2", "active", 3, {"moves": None, "at_least": 3}),
    Row(WRITTEN, "active", 0, {"moves": [MOVE]}, "The script: room.sh"),
    Row(FOLLOWED, "planned", 3, {"steps": [{"server": SMALL, "state": "waits"}]},
        ("To plan anew: openstack placement capacity make-room --max-moves=5 --flavor=full"
         " --os-nova-recording=nova.json",)),
    Row(FOLLOWED, "moved", 0, {"steps": [{"server": SMALL, "state": "done"}]}),
    Row(FOLLOWED, "source gone", 0, {"steps": [{"server": SMALL, "state": "done"}]}),
    Row(f"{ROOM} --flavor full", "stopped", 3, {"moves": None}),
    Row(f"{ROOM} --flavor full", "rebooting", 3, {"moves": None}),
]
REFUSED = [
    Row(ROOM, "active", 2, "give one --flavor"),
    Row(f"{FOLLOWED} --plan-out room.json", "planned", 2, "--plan-out: not allowed with --con"),
    Row(f"placement host drain one --plan-out other.json\n{ROOM} --continue other.json", "active",
        1, "not of 'placement capacity make-room': 'openstack placement host drain --continue'"),
    Row("placement host drain --continue room.json --verify-empty", "planned", 1, "make-room --c"),
    Row(f"{ROOM} --flavor full --flavor fits", "active", 2, "give one --flavor"),
    Row(f"{ROOM} --flavor nothing", "active", 1, "nothing"),
    Row(f"{ROOM} --flavor full --count 0", "active", 2, "--count"),
]
# fmt: on

test_make_room = checked(TABLE, STATES)

test_a_bad_input_is_named = fixtures.ON_ONE_TARGET(checked(REFUSED, STATES))
