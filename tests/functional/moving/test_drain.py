# SPDX-License-Identifier: Apache-2.0
"""``placement host drain``."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from osc_placement import testing
from osc_placement.client import transport
from osc_placement.testing.cloud import uuid_of
from osc_placement.workflows.moving import document
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, checked, hosts

DRAIN = "placement host drain"
CONTINUE = f"{DRAIN} --continue plan.json"
HOSTS = ("old", "new", "last")
NODES = "GET /v2.1/os-hypervisors/detail"
S0, S1, S2, S3 = (uuid_of(f"s{number}") for number in range(4))
DOWN = {"state": "down"}
STOPPED, REBOOTING = {"vm_state": "stopped"}, {"task_state": "rebooting"}
MIGRATING = {"task_state": "migrating"}
FAILED = {"vm_state": "error", "status": "ERROR"}
#: As nova shows it to a user without the right to see extra specs.
HIDDEN = {"flavor": dict.fromkeys(("vcpus", "ram", "disk", "ephemeral", "swap"), 0) | {"vcpus": 3}}


def cloud(*names: str, old: Mapping[str, str] = {}) -> testing.Cloud:
    return hosts(*(names or HOSTS), old=old)


def hypervisors(made: testing.Cloud | None = None, **versions: int) -> State:
    """Two servers on ``old``, of which one is stopped; QEMU of these versions on the hosts."""
    made = made or live_and_cold()
    for node in made.nova()[NODES]["hypervisors"]:
        version = versions[node["hypervisor_hostname"]]
        node |= {"hypervisor_type": "QEMU", "hypervisor_version": version}
    return State(made)


def counted(made: testing.Cloud, **servers: int) -> testing.Cloud:
    """A cloud whose nova shows the number of servers of each host."""
    for node in made.nova()[NODES]["hypervisors"]:
        node["running_vms"] = servers[node["hypervisor_hostname"]]
    return made


def live_and_cold() -> testing.Cloud:
    return cloud().guest("s0", "old", 3).guest("s1", "old", 3, **STOPPED)


def both_live(**old: str) -> testing.Cloud:
    return cloud(old=old).guest("s0", "old", 3).guest("s1", "old", 3)


def each_has_one(*vcpus: int) -> testing.Cloud:
    """A server of these VCPU on each host."""
    made = cloud()
    for name, host, amount in zip(("s0", "s1", "s2"), HOSTS, vcpus, strict=True):
        made.guest(name, host, amount)
    return made


def on_two_hosts() -> testing.Cloud:
    """A server of 1 and one of 2 VCPU on each of two hosts, an aggregate and a zone."""
    made = cloud(*HOSTS, "more").aggregate("rack", ["old", "new"])
    made.aggregate("az", ["old"], availability_zone="north")
    for number, host in enumerate(("old", "old", "new", "new")):
        made.guest(f"s{number}", host, 1 + number % 2)
    return made


PLAN = [f"{DRAIN} old --plan-out plan.json"]
PLANNED = State(live_and_cold(), before=[f"{PLAN[0]} --parallel 2"])
#: Nova.conf: at most one server on a host; no other one fits on ``new`` then.
ONE_EACH = State(
    counted(cloud().guest("s0", "old", 3).guest("s1", "new", 3), old=1, new=1, last=0),
    files={
        "nova.conf": "[filter_scheduler]\nenabled_filters = NumInstancesFilter\n"
        "max_instances_per_host = 1\n"
    },
    before=[f"{PLAN[0]} --nova-conf nova.conf"],
)
BY_SCRIPT = {"status": "disabled", "disabled_reason": "drain"}
FOLLOWED = State(cloud(old=BY_SCRIPT).guest("s0", "last", 3), first=State(both_live(), before=PLAN))


def hidden(listing: str) -> State:
    """A plan of a host without servers, and a nova that hides servers or migrations since then."""
    return State(cloud(), {f"GET /v2.1/{listing}": None}, first=State(cloud(), before=PLAN))


def step(move: str = "", **fields: Any) -> State:
    """A plan to move one server, and what became of it: ``move`` is the status of a migration."""
    made = cloud().instance("s0", "old", vcpus=3, **fields)
    made.server("s0", {"new" if move else "old": {"VCPU": 3}}, type="unknown")
    if move:
        made.server("s3", {"old": {"VCPU": 3}}, type="unknown")
        made.migration("s3", "s0", "old", "new", status=move)
    return State(made, first=State(cloud().guest("s0", "old", 3), before=PLAN))


def make_wrong_files() -> None:
    """A plan that was changed, one of another cloud, and one of a host that is gone."""
    path = pathlib.Path("plan.json")
    text, plan = path.read_text(), document.load(path)
    pathlib.Path("edited.json").write_text(text.replace("nova-old", "nova-new"))
    pathlib.Path("damaged.json").write_text("[")
    older = text.replace(f'"move_plan": {document.FORMAT_VERSION}', '"move_plan": 1')
    pathlib.Path("older.json").write_text(older)
    url = "http://other.example.org"
    other = dataclasses.replace(plan, identity=transport.Identity(url), target=url)
    document.write(pathlib.Path("other.json"), other)
    document.write(
        pathlib.Path("gone.json"), dataclasses.replace(plan, nodes=(S3,), hosts=("nova-gone",))
    )


STATES = {
    "live and cold": State(live_and_cold()),
    "planned": PLANNED,
    # A plan that was continued without one of its targets.
    "narrowed": PLANNED._replace(
        before=[*PLANNED.before, f"{CONTINUE} --avoid last --plan-out plan.json"]
    ),
    "one on a host": ONE_EACH,
    "without nova.conf": ONE_EACH._replace(change=pathlib.Path("nova.conf").unlink),
    "full": State(each_has_one(4, 4, 4)),
    "full, planned": State(each_has_one(4, 4, 4), before=[f"{PLAN[0]} --keep 1"]),
    "rebooting": State(
        cloud().guest("s0", "old", **REBOOTING).guest("s1", "old", 7)
        .guest("s2", "new").guest("s3", "last", 2)
    ),
    "one too large": State(each_has_one(4, 6, 4)),
    # One is where it was planned, a user deleted the other one.
    "followed": FOLLOWED,
    # Somebody enabled the host again.
    "enabled again": FOLLOWED._replace(cloud=cloud().guest("s0", "last", 3)),
    # After "compute service delete".
    "retired": FOLLOWED._replace(cloud=cloud(*HOSTS[1:]).guest("s0", "last", 3)),
    "still there": FOLLOWED._replace(cloud=both_live(**BY_SCRIPT)),
    "two on each": State(on_two_hosts()),
    "broken": State(both_live(status="disabled", disabled_reason="broken RAM, ticket 4711")),
    # A leftover in Placement alone is not empty.
    "leftover": FOLLOWED._replace(
        cloud=cloud(old=BY_SCRIPT).guest("s0", "last", 3).server("s3", {"old": {"VCPU": 1}})
    ),
    "newer on last": hypervisors(old=8, new=6, last=8),
    "older elsewhere": hypervisors(old=8, new=6, last=7),
    "paused, older elsewhere": hypervisors(
        cloud().guest("s0", "old", 3, vm_state="paused", status="PAUSED"), old=8, new=6, last=7
    ),
    "bad flavor": State(
        cloud(*HOSTS[:2]).guest("s0", "old", 3).flavor("whole", vcpus=8, ram=16)
        .flavor("bad", vcpus=8, ram=16, extra_specs={"hw:tpm_version": "9"})
    ),
    "no migrations": hidden("os-migrations"),
    "no servers": hidden("servers/detail"),
    "without allocations": State(
        cloud().server("s0", {"new": {"VCPU": 1}})
        .instance("s0", "old", vcpus=3).instance("s1", "old", vcpus=3)
    ),
    "odd server": State(cloud().guest("s0", "old", 3).guest("s1", "old", 3, **HIDDEN)),
    "one server": State(cloud().guest("s0", "old", 3)),
    # Somebody moved one elsewhere and filled the target of the other; a new server came.
    "changed": State(
        cloud().guest("s0", "new", 3).guest("s1", "old", 3).server("other", {"new": {"VCPU": 5}})
        .server("s2", {"old": {"VCPU": 1}}).instance("s2", "old", vcpus=3),
        first=FOLLOWED.first,
    ),
    "moving": step("running", **MIGRATING),
    "disagrees": step("completed", **MIGRATING),
    "error": step(**FAILED),
    # Of a host that the command does not ask for: a service reads the consumer for it.
    "left elsewhere": State(
        cloud().guest("s0", "old", 3).server("s3", {"new": {"VCPU": 1}}, type="unknown")
        .migration("s3", "s0", "old", "new", status="error")
    ),
    "waits": step(),
    # Who empties a host has often disabled it before.
    "wrong": State(
        hosts(*HOSTS, new=DOWN, last=DOWN | {"status": "disabled"}),
        before=PLAN,
        change=make_wrong_files,
    ),
}  # fmt: skip


def to(*hosts: str) -> list[dict[str, str]]:
    return [{"to": f"nova-{host}"} for host in hosts]


LOOK = (
    ": look for the guest on nova-new and nova-old ",
    "in nova's database",
)
OLDER = (
    "last (its hypervisor is older", "new (its hypervisor is older",
    f"; not live, but cold: openstack server migrate {S0}",
)  # fmt: skip
RESERVED = ["it has room, but what --keep reserves would be used"]
BUSY = ["nova does not migrate it while its task is rebooting"]

# fmt: off
TABLE = [
    Row(f"{DRAIN} old --parallel 2", "live and cold", 0,
        {"complete": True, "blocked": [], "moves": [
            {"way": "live", "wave": 1, "to": "nova-last"},
            {"way": "cold", "wave": 1, "to": "nova-new"}]}),
    Row(f"{DRAIN} old --avoid last", "live and cold", 0, {"moves": to("new", "new")}),
    Row(f"{DRAIN} old --only-live", "live and cold", 3, {"blocked": [{"server": S1}]}),
    Row(CONTINUE, "planned", 0,
        {"moves": [{"to": "nova-last", "wave": 1}, {"to": "nova-new", "wave": 1}]}),
    Row(f"{CONTINUE} --avoid last", "planned", 0, {"moves": to("new", "new"), "blocked": []}),
    Row(f"{CONTINUE} --cold s0", "planned", 0, {"moves": [{"way": "cold"}, {"way": "cold"}]},
        "Changed: s0: cold instead of live"),
    Row(CONTINUE, "narrowed", 0, {"moves": to("new", "new"), "blocked": []}),
    Row(f"{CONTINUE} --parallel 1", "narrowed", 0, {"moves": [{"wave": 1}, {"wave": 2}]}),
    Row(f"{CONTINUE} --only-live", "narrowed", 3, {"moves": to("new"), "blocked": [{}]}),
    Row(f"{CONTINUE} --avoid nova-new", "narrowed", 3, {"moves": [], "blocked": [{}, {}]}),
    Row(f"{CONTINUE} --avoid gone", "narrowed", 1, "gone"),
    Row(f"{CONTINUE} --keep 2", "narrowed", 1, "--keep 2: there"),
    Row(CONTINUE, "one on a host", 0, {"moves": to("last")}),
    Row(f"{CONTINUE} --avoid last", "one on a host", 3, {"blocked": [{"server": S0}]}),
    Row(CONTINUE, "without nova.conf", 1,
        "nova.conf as a nova.conf: No such file or directory: give the file with --nova-conf"),
    Row(f"{CONTINUE} --verify-empty", "without nova.conf", 3, {"left": [{}, {}]}),
    Row(f"{DRAIN} --aggregate rack --parallel 4", "two on each", 0,
        {"hosts": ["nova-old", "nova-new"],
         "moves": [{"server": S1, "wave": 1}, {"server": S3, "wave": 1},
                   {"server": S0, "wave": 1}, {"server": S2, "wave": 1}]}),
    Row(f"{DRAIN} --aggregate rack --parallel 4 --limit-per-source 1", "two on each", 0,
        {"moves": [{"server": S1, "wave": 1}, {"server": S3, "wave": 1},
                   {"server": S0, "wave": 2}, {"server": S2, "wave": 2}]}),
    Row(f"{DRAIN} --zone north", "two on each", 0, {"hosts": ["nova-old"], "moves": [{}, {}]}),
    Row(f"{DRAIN} --zone nova", "two on each", 0,
        {"hosts": ["nova-last", "nova-more", "nova-new"], "moves": [{}, {}]}),
    Row(f"{DRAIN} old --except s0", "two on each", 3,
        {"moves": [{"server": S1}],
         "blocked": [{"server": S0, "reasons": ["--except names it"], "changes": []}]}),
    Row(f"{DRAIN} old --cold s0", "two on each", 0,
        {"moves": [{"server": S1, "way": "live"}, {"server": S0, "way": "cold"}]}),
    Row(f"{DRAIN} old --only-live --cold {S1}", "live and cold", 0,
        {"moves": [{"server": S0, "way": "live"}, {"server": S1, "way": "cold"}]}),
    Row(f"{DRAIN} old", "rebooting", 3,
        {"moves": [{"server": S1}], "blocked": [{"server": S0, "reasons": BUSY}]}),
    Row(f"{DRAIN} old new", "one too large", 3,
        {"most": ["nova-old"], "most_is_proven": True, "moves": [{"server": S0}],
         "blocked": [{"server": S1,
                      "changes": ('"free 6 VCPU on last"', '"raise the ratio of VCPU on last')}]},
        ("sets back allocation_ratio of VCPU if nova.conf has cpu_allocation_ratio",)),
    Row(f"{DRAIN} old", "full", 0, {"moves": [{"server": S0}]}),
    Row(f"{DRAIN} old --keep 1", "full", 3, {"moves": [], "blocked": [{"reasons": RESERVED}]}),
    Row(CONTINUE, "full, planned", 3, {"moves": []}),
    Row(CONTINUE, "followed", 0,
        {"steps": [{"server": S0, "state": "done"}, {"server": S1, "state": "deleted"}]}),
    Row(CONTINUE, "followed", 0, "| done | s0 | on nova-last | to nova-last |"),
    Row(f"{CONTINUE} --verify-empty", "followed", 0, {"hosts": [{"empty": True}], "left": []}),
    Row(f"{DRAIN} old --verify-empty", "followed", 0, {"hosts": [{"empty": True}], "left": []}),
    Row(f"{CONTINUE} --verify-empty", "enabled again", 3,
        {"hosts": [{"empty": False}],
         "left": [{"name": "nova-compute", "command": ("service set --disable", "nova-old")}]}),
    Row(f"{CONTINUE} --verify-empty", "leftover", 3,
        {"left": [{"uuid": S3, "reason": ("neither a server nor a migration",),
                   "command": ("placement allocation audit --repair --host=nova-old",)}]}),
    Row(f"{CONTINUE} --verify-empty", "still there", 3,
        {"left": [{"uuid": S1, "name": "s1", "command": (CONTINUE.replace(" plan", "=plan"),)},
                  {"uuid": S0, "name": "s0"}]}),
    Row(f"{CONTINUE} --verify-empty", "moving", 3,
        {"left": [{"name": "nova-compute"},
                  {"uuid": S0, "reason": ("its live-migration is running",)}, {"uuid": S3}]}),
    Row(f"{CONTINUE} --verify-empty", "retired", 0,
        {"hosts": [{"gone": True, "empty": True}]}, "Nothing is left"),
    Row(f"{DRAIN} old --back", "broken", 0,
        {"disabled_before": [{"host": "nova-old", "reason": "broken RAM, ticket 4711"}],
         "back": [("No server moves back",), ("nova-old stays disabled: broken RAM",)]}),
    Row(f"{CONTINUE} --back", "followed", 0,
        {"disabled_before": [], "back": [..., ("--enable nova-old nova-compute",)]}),
    Row(f"{DRAIN} old", "newer on last", 0, {"moves": [{"server": S0, "to": "nova-last"}, {}]}),
    Row(f"{DRAIN} old", "older elsewhere", 3,
        {"moves": [{"server": S1}],
         "blocked": [{"server": S0, "reasons": [OLDER], "changes": []}]}),
    # Nova does not migrate a paused server cold: no command for that.
    Row(f"{DRAIN} old", "paused, older elsewhere", 3, {"blocked": [{"server": S0, "reasons": [
        "only hosts that take no server have room: last (its hypervisor is older than that of the"
        " source (7, 8)); new (its hypervisor is older than that of the source (6, 8))"]}]}),
    Row(f"{DRAIN} old", "bad flavor", 0, {"moves": [
        {"why": "the only host with room; it is the last place for whole"}]}),
    Row(f"{DRAIN} old", "no migrations", 1, "a plan of moves needs nova"),
    Row(f"{DRAIN} old", "no servers", 1, "a plan of moves needs nova"),
    Row(f"{CONTINUE} --verify-empty", "no migrations", 1, "a plan of moves needs nova"),
    Row(f"{CONTINUE} --verify-empty", "no servers", 1, "a plan of moves needs nova"),
    Row(f"{DRAIN} old", "without allocations", 3,
        {"blocked": [{"server": S1, "reasons": ("'openstack placement allocation heal'",)},
                     {"server": S0, "reasons": ("'openstack placement allocation audit'",)}]}),
    Row(f"{DRAIN} old", "odd server", 3,
        {"moves": [{"server": S0}],
         "blocked": [{"server": S1, "reasons": ("nova hides extra_specs", "with this right")}]}),
    Row(f"{DRAIN} old nova-old {uuid_of('old')} old", "one server", 0,
        {"hosts": ["nova-old"], "moves": [{}]}),
    Row(CONTINUE, "changed", 0,
        {"steps": [{"server": S0, "state": "elsewhere"}, {"server": S1, "state": "waits"}],
         "moves": [{"server": S1, "to": "nova-last"}, {"server": S2}]},
        ("Changed: s2: new, to", "instead of nova-new")),
    Row(CONTINUE, "moving", 3, {"steps": [{"state": "moving"}]}),
    Row(CONTINUE, "disagrees", 3,
        {"steps": [{"state": "disagrees", "advice": LOOK}], "blocked": [{"reasons": [LOOK]}]}),
    Row(CONTINUE, "error", 3, {"steps": [{"state": "error"}]}),
    Row(CONTINUE, "waits", 0, {"steps": [{"state": "waits"}]}),
    Row(f"{DRAIN} old", "left elsewhere", 3, {"moves": [], "blocked": [
        {"server": S0, "reasons": ("the guest may be on either host",)}]}),
]
REFUSED = [
    Row(DRAIN, "wrong", 2, "name a host, or give --aggregate, --zone or --continue"),
    Row(f"{DRAIN} --zone west", "wrong", 1,
        "nova has no host in an availability zone 'west'; its zones are nova"),
    Row(f"{DRAIN} --aggregate rack", "wrong", 1, "rack"),
    Row(f"{DRAIN} old --except web-1", "wrong", 1,
        "--except web-1: no server of the hosts has this name or UUID"),
    Row(f"{DRAIN} --zone nova --verify-empty", "wrong", 2,
        "--verify-empty: give --continue, or name the hosts"),
    Row(f"{DRAIN} old --script drain.sh", "wrong", 2, "argument --script: needs --plan-out"),
    Row(f"{CONTINUE} --verify-empty --plan-out new.json --script new.sh", "wrong", 2,
        "argument --plan-out: not allowed with --verify-empty: no plan is made"),
    Row(f"{DRAIN} old --plan-out new.json --script other.json", "wrong", 1,
        "other.json exists and is not a script. Nothing was written"),
    Row(f"{DRAIN} --continue older.json", "wrong", 1, "older.json has format 1, and this version"),
    Row(f"{DRAIN} --continue gone.json --verify-empty", "wrong", 0, "Nothing is left"),
    Row(f"{CONTINUE} old", "wrong", 2, "argument --continue: not allowed with hosts"),
    Row(f"{DRAIN} nohost", "wrong", 1, "nohost"),
    Row(f"{DRAIN} old new last", "wrong", 1, "none is left as a target"),
    Row(f"{DRAIN} new", "wrong", 1, "openstack server evacuate"),
    Row(f"{DRAIN} last", "wrong", 1, "openstack server evacuate"),
    Row(f"{DRAIN} --continue damaged.json", "wrong", 1, "is not a plan of moves"),
    Row(f"{DRAIN} --continue edited.json", "wrong", 1, "was changed or damaged"),
    Row(f"{DRAIN} --continue other.json", "wrong", 1,
        "the plan is for http://other.example.org, and this is"),
    Row(f"{DRAIN} --continue gone.json", "wrong", 1, S3),
    Row(f"{DRAIN} old --keep 2", "wrong", 1,
        "--keep 2: there are only 2 other hosts, and one must not fail"),
]
# fmt: on

test_host_drain = checked(TABLE, STATES)

test_a_bad_input_is_named = fixtures.ON_ONE_TARGET(checked(REFUSED, STATES))


@fixtures.ON_ONE_TARGET
def test_a_continued_plan_has_the_release_and_the_filters_of_the_plan(openstack: OpenStack) -> None:
    state = State(live_and_cold(), before=[f"{PLAN[0]} --nova-release 32 --filter image-type"])
    state.arrange(openstack)
    for options, release in (("", 32), ("--nova-release 31 --filter owner", 31)):
        state.run(openstack, f"{CONTINUE} --plan-out plan.json {options}")
        assert document.load(pathlib.Path("plan.json")).options.nova_release == release
    assert document.load(pathlib.Path("plan.json")).options.filters == ("image-type", "owner")


@fixtures.ON_ONE_TARGET
def test_at_80_columns_no_host_is_dropped_and_each_reason_stands_once(openstack: OpenStack) -> None:
    made = cloud().guest("s0", "old", 4).guest("s1", "old", 4).guest("s2", "new", 3)
    state = State(made.guest("s3", "new", 3).guest("s4", "last", 3))
    state.arrange(openstack)
    outcome = state.run(openstack, f"{DRAIN} old new --max-width 80")
    assert outcome.code == 3, outcome
    lines = outcome.stdout.splitlines()
    assert max(map(len, lines)) <= 80, outcome.stdout
    text = " ".join(outcome.stdout.replace("|", " ").split())
    for shown in ("nova-old -> nova-last", "on nova-old", "on nova-new", "free ", " VCPU on last"):
        assert shown in text, shown
    # Names stand for UUIDs. Two servers of a host stay for one reason.
    assert uuid_of("s0") not in text
    reasons = [line.split("|")[1:5] for line in lines if " on nova-" in line]
    assert [cells[1].strip() for cells in reasons] == ["on nova-new", "on nova-old"]
