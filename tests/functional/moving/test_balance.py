# SPDX-License-Identifier: Apache-2.0
"""``placement capacity balance``."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import api, values
from osc_placement.testing import nova
from osc_placement.testing.cloud import uuid_of
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, checked, hosts

BALANCE = "placement capacity balance"
SERVERS = {"a": 3, "b": 2, "c": 1, "half": 3, "large": 6}
LOPSIDED = dict.fromkeys(("a", "b", "c"), "one")


def cloud(
    names: Sequence[str] = ("one", "two"),
    on: Mapping[str, str] = LOPSIDED,
    services: Mapping[str, Mapping[str, str]] = {},
    **fields: str,
) -> State:
    """Hosts of 8 VCPU; on one of them servers of 3, 2 and 1."""
    made = hosts(*names, **services)
    for name, host in on.items():
        made.guest(name, host, SERVERS[name], **fields)
    return State(made)


#: Only the host without servers has room for the large server of the third.
WITH_AN_EMPTY_HOST = {"a": "one", "half": "one", "large": "three"}
STATES = {
    "lopsided": cloud(),
    "single": cloud(("one",)),
    "down": cloud(services={"two": {"state": "down"}}),
    "disabled": cloud(("one", "two", "three"), services={"two": {"status": "disabled"}}),
    "stopped": cloud(**{"OS-EXT-STS:vm_state": "stopped", "status": "SHUTOFF"}),
    "moving": cloud(**{"OS-EXT-STS:task_state": "migrating"}),
    "empty host": cloud(("one", "two", "three"), WITH_AN_EMPTY_HOST),
}
STATES["last place"] = State(hosts("one", "two").flavor("whole", vcpus=8, ram=16))
for name in LOPSIDED:
    STATES["last place"].cloud.guest(name, "one", SERVERS[name])
EVEN = f"{BALANCE} --within 0%"
WRITTEN = f"{BALANCE} --within 12.5% --only-live --plan-out even.json --script even.sh"
STEP = {"server": uuid_of("a"), "from": "nova-one", "to": "nova-two", "way": "live"}
MOVED = cloud(on=LOPSIDED | {"a": "two"})._replace(
    first=STATES["lopsided"]._replace(before=[WRITTEN])
)
TOGETHER = {
    "id": "g", "name": "web", "policy": "affinity", "members": [uuid_of("a"), uuid_of("b")],
}  # fmt: skip
T = {"extra_specs": {"trait:CUSTOM_T": "required"}}
STATES |= {
    # Servers of two kinds of hosts, with one move each.
    "two parts": State(
        hosts("one", "two", "three").compute("four", "five", traits=["CUSTOM_T"], VCPU=8)
        .guest("a", "one", 3).guest("b", "one", 3).guest("c", "four", 3, **T)
        .guest("d", "four", 3, **T).flavor("t", **T)
    ),
    "affinity": STATES["lopsided"]._replace(nova=nova.answers(server_groups=[TOGETHER])),
    "other file": STATES["lopsided"]._replace(files={"even.svg": "x"}),
}  # fmt: skip
STATES |= {"planned": STATES["lopsided"]._replace(before=[WRITTEN]), "moved": MOVED}


def part(**fields: Any) -> dict[str, Any]:
    return {"even": fields.get("reached", True), "parts": [fields]}


# fmt: off
TABLE = [
    Row(EVEN, "lopsided", 0, part(spread=75, spread_after=0, moves=1, at_least=1, is_smallest=True)
        | {"moves": [STEP]}),
    Row(f"{BALANCE} --within 60%", "lopsided", 0, {"moves": [{"name": "c"}]}),
    Row(f"{BALANCE} --within 75%", "lopsided", 0, part(moves=0, at_least=0) | {"moves": []}),
    Row(f"{EVEN} --detailed-exitcode", "lopsided", 3, {"even": True}),
    Row(f"{BALANCE} --within 75% --detailed-exitcode", "lopsided", 0, {"moves": []}),
    Row(f"{EVEN} --except a", "lopsided", 0, {"moves": [{"name": "b"}, {"name": "c"}], "stay": [
        {"servers": 1, "why": "--except names it"}]}),
    Row(f"{EVEN} --except a --max-moves 1", "lopsided", 3, part(
        reached=False, spread_after=25, at_least=2, why="--max-moves 1: more moves are needed")),
    Row(f"{EVEN} --except b --except c --except a", "lopsided", 3, part(
        reached=False, at_least=None, least_spread=75,
        why="the sizes of the servers, and those that stay, allow no smaller spread")),
    Row(f"{BALANCE} --within 40%", "empty host", 0, part(spread=75, spread_after=37.5, moves=1)),
    Row(f"{BALANCE} --within 40% --max-moves 1", "two parts", 3, {"moves": [{}], "parts": [
        {"reached": True}, {"at_least": 1, "why": "--max-moves 1: more moves are needed"}]}),
    Row(f"{BALANCE} --within 40% --keep 1", "empty host", 3, part(
        reached=False, spread_after=75, why=("what --keep 1 reserves,",))
        | {"moves": []}),
    Row(f"{EVEN} --keep 1", "lopsided", 0, {"moves": [STEP]}),
    Row(f"{EVEN} --class MEMORY_MB", "lopsided", 0, part(**{"class": "MEMORY_MB"}) | {"moves": []}),
    Row(f"{EVEN} --cold a", "lopsided", 0, {"moves": [{"name": "a", "way": "cold"}]}),
    Row(EVEN, "stopped", 0, {"moves": [{"name": "a", "way": "cold"}]}),
    Row(f"{EVEN} --only-live", "stopped", 3, {"moves": [], "stay": [{"servers": 3}]}),
    Row(EVEN, "moving", 3, {"moves": []}),
    Row(EVEN, "last place", 3, {"moves": []}),
    Row(EVEN, "disabled", 0, {"moves": [{"to": "nova-three"}],
        "not_counted": ["nova-two (nova-compute disabled)"]}),
    Row(WRITTEN, "lopsided", 0, {"moves": [STEP]}, "The script: even.sh"),
    Row(f"{BALANCE} --continue even.json", "planned", 3, {"steps": [{"state": "waits"}]},
        ("To plan anew: openstack placement capacity balance --within=12.5% --only-live"
         " --os-nova-recording=nova.json",)),
    Row(f"{BALANCE} --continue even.json", "moved", 0, {"steps": [{"state": "done"}]}),
    Row(EVEN, "moved", 0, {"moves": []}),
    Row(EVEN, "affinity", 3, part(reached=False, spread_after=50) | {"moves": [{"name": "c"}],
        "stay": [{"servers": 2, "why": "its server group has affinity"}]}),
]
REFUSED = [
    Row(EVEN, "single", 1, "an even cloud needs two hosts that take the same servers"),
    Row(EVEN, "down", 1, "nova-two (nova-compute down)"),
    Row(f"{EVEN} --avoid nova-two", "lopsided", 1, "nova-two (--avoid names it)"),
    Row(f"{EVEN} --class CUSTOM_X", "lopsided", 1, "nova-one (it has no CUSTOM_X)"),
    Row(f"{BALANCE} --within much", "lopsided", 2, "'much' is not a percentage"),
    Row(f"{BALANCE} --zone nova --all", "lopsided", 2, "only one of"),
    Row(f"{EVEN} --picture even.svg", "other file", 1,
        "even.svg exists and is not a picture. Nothing was written."),
    Row(f"{BALANCE} --continue even.json --plan-out even.json", "planned", 2, "--plan-out: not"),
    Row(f"{BALANCE} --except nothing", "lopsided", 1, "--except nothing: no server"),
    Row(f"placement host drain one --plan-out other.json\n{BALANCE} --continue other.json",
        "lopsided", 1, "not of 'placement capacity balance': 'openstack placement host drain"),
]
# fmt: on

test_balance = checked(TABLE, STATES)

test_a_bad_input_is_named = fixtures.ON_ONE_TARGET(checked(REFUSED, STATES))


@fixtures.ON_ONE_TARGET
def test_the_picture_has_a_bar_before_and_after_for_each_host(openstack: OpenStack) -> None:
    Row(f"{EVEN} --picture even.svg", "lopsided", 0, {"even": True}).check(openstack, STATES)
    picture = pathlib.Path("even.svg").read_text()
    drawn = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    widths = {
        kind: [
            float(it.get("width", ""))
            for it in drawn.iter(f"{space}rect")
            if it.get("class") == kind
        ]
        for kind in ("before", "after")
    }
    assert widths == {"before": [127.5, 0.0], "after": [63.8, 63.8]}
    assert "prefers-color-scheme: dark" in picture


@fixtures.ON_ONE_TARGET
def test_server_groups_that_were_not_read_at_first_are_a_doubt_about_the_steps(
    openstack: OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = values.ServerGroup("g", "web", "affinity", (uuid_of("a"), uuid_of("b")))
    answers = iter((errors.PlacementError("nova restarts"), [group]))

    def server_groups(_: api.Nova) -> list[values.ServerGroup]:
        answer = next(answers)
        if isinstance(answer, errors.PlacementError):
            raise answer
        return answer

    monkeypatch.setattr(api, "server_groups", server_groups)
    doubt = "Not checked: server group web: it was not read when the steps were chosen"
    Row(EVEN, "lopsided", 4, {"moves": [STEP]}, doubt).check(openstack, STATES)
