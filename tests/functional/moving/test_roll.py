# SPDX-License-Identifier: Apache-2.0
"""``placement host roll``."""

from __future__ import annotations

import fcntl
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import testing
from tests.support.peer import fixtures
from tests.support.rows import Row, State, checked, hosts

ROLL = "placement host roll"
PLAN = f"{ROLL} --all --plan-out roll.json --script legs"
CONTINUE = f"{ROLL} --continue roll.json"
HOSTS = ("one", "two", "three", "four")
ON = {"a": "one", "b": "two", "c": "three"}


def cloud(
    on: Mapping[str, str] = ON,
    size: int = 4,
    zones: Mapping[str, Sequence[str]] = {},
    names: Sequence[str] = HOSTS,
    services: Mapping[str, Mapping[str, str]] = {},
    **fields: str,
) -> State:
    """Hosts of 8 VCPU, with one server each on some of them."""
    made = hosts(*names, **services)
    for name, host in on.items():
        made.guest(name, host, size, **fields)
    for name, members in zones.items():
        made.aggregate(name, members, availability_zone=name)
    return State(made)


PLANNED = cloud()._replace(before=[PLAN])
#: The first leg was carried out: it has the host without servers.
DONE = {"roll.json.done": "rebooted nova-four\nback nova-four\n"}
REBOOTED = {"roll.json.done": "rebooted nova-four\n"}
BY_SCRIPT = {"status": "disabled", "disabled_reason": "drain"}
BROKEN = {"status": "disabled", "disabled_reason": "broken RAM"}


def run_a_script() -> None:
    """Hold the lock of a script until the test process ends."""
    lock = os.open("roll.json.done", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)


def later(files: Mapping[str, str], **fields: Any) -> State:
    """What became of the plan."""
    return cloud(**fields)._replace(first=PLANNED, files=files)


def leaked() -> testing.Cloud:
    """A failed migration still has its allocations."""
    made = hosts(*HOSTS).server("old", {"four": {"VCPU": 2}})
    for name, host in ON.items():
        made.guest(name, host, 4)
    return made.migration("old", "a", "one", "four", status="error")


STATES = {
    "cloud": cloud(),
    "large": cloud({"a": "one", "b": "two", "c": "three", "d": "four"}, size=5),
    "tight": cloud(size=5),
    "down": cloud(services={"two": {"state": "down"}}),
    "zones": cloud(zones={"east": ["one", "two"], "west": ["three", "four"]}),
    "zone down": cloud(
        zones={"east": ["one", "two"], "west": ["three", "four"]},
        services={"one": {"state": "down"}, "two": {"state": "down"}},
    ),
    "moving": cloud({"a": "one"}, **{"OS-EXT-STS:task_state": "migrating"}),
    "planned": PLANNED,
    "done": later(DONE),
    "all done": later({"roll.json.done": "".join(f"back nova-{host}\n" for host in HOSTS)}),
    # In the second leg, the server has moved and the script was killed.
    "killed": later(DONE, on=ON | {"a": "four"}, services={"one": BY_SCRIPT}),
    "running": later(DONE)._replace(change=run_a_script),
    "without nova.conf": cloud()._replace(
        before=[f"{PLAN} --nova-conf nova.conf"],
        files={"nova.conf": "[DEFAULT]\n"},
        change=pathlib.Path("nova.conf").unlink,
    ),
    "not back": later(REBOOTED, services={"four": {"state": "down"}}),
    "went on without": cloud(services={"four": {"state": "down"}})._replace(
        before=[f"{CONTINUE} --skip nova-four --plan-out roll.json"], first=later(REBOOTED)
    ),
    "went on without another": cloud()._replace(before=[f"{PLAN} --skip nova-one"], files=DONE),
    "disabled": later(REBOOTED, services={"four": BY_SCRIPT}),
    # The plan that was continued has the host, and its script rebooted it.
    "repaired": cloud(services={"two": BROKEN})._replace(
        before=[f"{CONTINUE} --plan-out roll.json"],
        first=cloud(services={"two": BROKEN | {"state": "down"}})._replace(before=[PLAN]),
        change=lambda: pathlib.Path("roll.json.done").write_text("back nova-two\n"),
    ),
    "leaked": later(DONE)._replace(cloud=leaked()),
    "gone": later(DONE, names=HOSTS[:3]),
    "another gone": later(DONE, on={"b": "two", "c": "three"}, names=HOSTS[1:]),
    "provider gone": later(REBOOTED, names=HOSTS[:3])._replace(
        cloud=hosts(*HOSTS[:3]).node("four").guest("a", "one", 4)
    ),
    "other files": cloud()._replace(files={"legs": "", "other.json": "x", "empty.json": "{}"}),
    "joined": later(DONE, names=(*HOSTS, "five")),
    "zone grown": cloud(zones={"east": ["two", "three"]})._replace(
        first=cloud(zones={"east": ["one", "two"]})._replace(
            before=[PLAN.replace("--all", "--zone east")]
        )
    ),
    "gone and avoided": later(DONE, names=HOSTS[:3])._replace(
        first=cloud()._replace(before=[f"{PLAN} --avoid nova-four"])
    ),
    "stopped": cloud({"a": "one"}, **{"OS-EXT-STS:vm_state": "stopped", "status": "SHUTOFF"}),
}


def leg(number: int, *hosts: str, **fields: Any) -> dict[str, Any]:
    return {"leg": number, "hosts": [f"nova-{host}" for host in hosts], **fields}


# fmt: off
TABLE = [
    Row(f"{ROLL} --all", "cloud", 0, {
        "complete": True, "at_least": 4, "is_proven": True, "moves": 3, "servers": 3,
        "moves_per_server": 1.0, "most_moves_of_a_server": 1, "left": [],
        "legs": [leg(1, "four", moves=[]), leg(2, "one", moves=[{"name": "a", "to": "nova-four"}]),
                 leg(3, "three"), leg(4, "two")]}),
    Row(f"{ROLL} --all --at-once 2", "cloud", 0, {"at_least": 2, "is_proven": True}),
    Row(f"{ROLL} --all --per-zone 1", "zones", 0, {"at_least": 2}),
    Row(f"{PLAN}\n{CONTINUE} --per-zone 1", "zones", 0, {"at_least": 2}),
    Row(f"{ROLL} --all --at-once 2 --keep 1", "cloud", 0, {"is_proven": True}),
    Row(f"{ROLL} --zone east", "zones", 0, {"legs": [leg(1, "one"), leg(2, "two")]}),
    Row(f"{ROLL} --zone east", "zone down", 3, {"legs": [], "left": [
        {"host": "nova-one", "reasons": [("host nova-one: nova-compute is down",)]},
        {"host": "nova-two", "reasons": [("host nova-two: nova-compute is down",)]}]}),
    Row(f"{ROLL} --all --skip nova-one", "cloud", 0, {
        "legs": [leg(1, "four"), leg(2, "three"), leg(3, "two")]}),
    *(Row(f"{ROLL} --all --keep {failures}", state, 3, {"left": [
          {"host": f"nova-{host}", "reasons": [("what --keep reserves would be used",)]}
          for host in ("four", "one", "three", "two")]})
      for state, failures in (("cloud", 2), ("tight", 1))),
    Row(f"{ROLL} --all", "large", 3, {"complete": False, "legs": [], "left": [
        {"host": "nova-four"}, {"host": "nova-one"}, {"host": "nova-three"}, {"host": "nova-two"}],
        "enough_to_add": ["nova-one"]}),
    Row(f"{ROLL} --all", "down", 3, {"left": [{"host": "nova-two"}]}),
    Row(f"{ROLL} --all", "moving", 3, {"left": [{"host": "nova-one"}]}),
    Row(f"{ROLL} --all --only-live", "stopped", 3, {"left": [{"host": "nova-one"}]}),
    Row(f"{CONTINUE} --verify-back", "planned", 0, {"open": True, "not_back": []}),
    Row(f"{CONTINUE} --verify-back", "done", 0, {"open": True}),
    Row(f"{CONTINUE} --verify-back", "not back", 3, {"open": False, "not_back": [
        {"host": "nova-four", "reason": ...}]}),
    Row(f"{CONTINUE} --verify-back --skip nova-four", "not back", 0, {"open": True}),
    Row(f"{CONTINUE} --verify-back", "went on without", 0, {"open": True}),
    Row(f"{CONTINUE} --verify-back", "disabled", 3, {"not_back": [{
        "reason": "nova-compute is disabled: drain",
        "command": "openstack compute service set --enable nova-four nova-compute"}]}),
    Row(f"{CONTINUE} --verify-back", "repaired", 0, {"open": True}),
    Row(f"{CONTINUE} --verify-back", "leaked", 3, {"not_back": [{
        "command": "openstack placement allocation audit --repair --host=nova-four"}]}),
    Row(f"{CONTINUE} --verify-back", "gone", 3, {"not_back": [{
        "reason": ("nova lists no compute node of it: repair it", "--skip")}]}),
    Row(f"{CONTINUE} --verify-back", "provider gone", 3, {"not_back": [{
        "host": "nova-four", "reason": "Placement has no resource provider of it"}]}),
    Row(CONTINUE, "another gone", 3, {"legs": [leg(2, "three"), leg(3, "two")], "left": [
        {"host": "nova-one", "reasons": ["neither nova nor Placement has it any more"]}]}),
    # The record of reboots goes with the plan.
    Row(f"""{CONTINUE} --next --plan-out next.json --script legs
            {ROLL} --continue next.json""", "done", 0,
        {"legs": [leg(2, "one"), leg(3, "three"), leg(4, "two")]}),
    Row(CONTINUE, "planned", 0, {"legs": [
        leg(1, "four"), leg(2, "one"), leg(3, "three"), leg(4, "two")]}),
    Row(CONTINUE, "done", 0, {"complete": True, "legs": [
        leg(2, "one"), leg(3, "three"), leg(4, "two")]}),
    Row(CONTINUE, "joined", 0, {"complete": True, "legs": [
        leg(2, "five"), leg(3, "one"), leg(4, "three"), leg(5, "two")]}),
    Row(f"{CONTINUE} --skip nova-five", "joined", 0, {"legs": [
        leg(2, "one"), leg(3, "three"), leg(4, "two")]}),
    Row(CONTINUE, "zone grown", 0, {"legs": [leg(1, "one"), leg(2, "three"), leg(3, "two")]}),
    Row(f"{CONTINUE} --skip nova-four", "gone", 0, {"legs": [
        leg(2, "one"), leg(3, "three"), leg(4, "two")]}),
    Row(f"{CONTINUE} --skip nova-four", "gone and avoided", 0, {"complete": True}),
    Row(f"{CONTINUE} --verify-back", "went on without another", 0, {"open": True}),
    Row(CONTINUE, "all done", 0, {"complete": True, "legs": []}),
    Row(CONTINUE, "killed", 0, {"legs": [leg(2, "one", moves=[]), leg(3, "three"), leg(4, "two")]}),
    Row(CONTINUE, "not back", 3, {"open": False}),
    Row(f"{CONTINUE} --skip nova-four", "not back", 0, {"moves": 4, "legs": [
        leg(2, "one", moves=[{"name": "a", "to": "nova-two"}]), leg(3, "three"), leg(4, "two")]}),
    Row(f"{CONTINUE} --next --plan-out roll.json --script legs", "done", 0, {
        "scripts": ["legs/leg-002.sh"]}),
    Row(PLAN, "cloud", 0, {"complete": True}, "The script of the next leg: legs/leg-001.sh"),
    # A plan of the operator beside the legs stays.
    Row(f"{PLAN}\nplacement host drain one --plan-out legs/leg-one.json\n{PLAN}"
        "\nplacement host drain --continue legs/leg-one.json", "cloud", 0, {"complete": True}),
]
REFUSED = [
    Row(ROLL, "cloud", 2, "give one of --aggregate, --zone, --all and --continue"),
    Row(f"{ROLL} --all --zone east", "zones", 2, "give one of"),
    Row(f"{ROLL} --all --continue roll.json", "cloud", 2, "the plan has them"),
    Row(f"{ROLL} --all --next", "cloud", 2, "--next: needs --continue"),
    Row(f"{ROLL} --all --verify-back", "cloud", 2, "--verify-back: needs --continue"),
    Row(f"{ROLL} --all --script legs", "cloud", 2, "--script: needs --plan-out"),
    Row(f"{CONTINUE} --next", "cloud", 2, "--next: needs --script"),
    Row(f"{CONTINUE} --verify-back --plan-out new.json", "cloud", 2, "not allowed with --verify-b"),
    Row(PLAN, "other files", 1, "legs: File exists"),
    Row(f"{ROLL} --all --plan-out other.json", "other files", 1,
        "other.json exists and is not a plan of moves. Nothing was written."),
    Row(f"{ROLL} --continue empty.json", "other files", 1, "empty.json is not a plan of moves"),
    Row(f"{ROLL} --zone north", "zones", 1, "no host in an availability zone 'north'"),
    Row(f"{ROLL} --all --skip nothing", "cloud", 1, "nothing"),
    Row(CONTINUE, "running", 1, "a script of roll.json runs, or a reboot that it began: wait"),
    Row(PLAN, "running", 1, "a script of roll.json runs"),
    Row(CONTINUE, "without nova.conf", 1, "give the file with --nova-conf"),
    Row(f"{ROLL} --continue nothing.json", "cloud", 1, "nothing.json cannot be read"),
    Row(f"placement host drain one --plan-out other.json\n{ROLL} --continue other.json", "cloud",
        1, "the plan is not of 'placement host roll': 'openstack placement host drain --continue'"),
    Row("placement host drain --continue roll.json", "planned", 1, "placement host roll --c"),
]
# fmt: on

test_roll = checked(TABLE, STATES)

test_a_bad_input_is_named = fixtures.ON_ONE_TARGET(checked(REFUSED, STATES))
