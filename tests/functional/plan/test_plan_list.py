# SPDX-License-Identifier: Apache-2.0
"""``placement plan list``."""

from __future__ import annotations

import pytest

from osc_placement.plan import journal
from tests.support.peer import fixtures, shell
from tests.support.rows import Absent, Row, State, checked

pytestmark = fixtures.ON_ONE_TARGET

LIST = "placement plan list"
HOSTS = "cmp-0001.lab.example.org cmp-0002.lab.example.org"
AMEND = f"resource provider inventory amend {HOSTS} --resource"
UNDO = "placement plan undo"

#: An unfinished relative plan and an applied one.
PLANS = State(
    "12-hosts",
    before=[f"{AMEND} VCPU:reserved+=2 --max-count 1", f"{AMEND} DISK_GB:reserved=3"],
)
MANY = " ".join(f"cmp-000{number}.lab.example.org" for number in range(1, 9))
OF_MANY = f"resource provider inventory amend --resource=DISK_GB:reserved=3 {MANY}"


def damage() -> None:
    """Leave a journal with a damaged line."""
    (journal.directory() / "other.jsonl").write_text("{}\n")


STATES = {
    "two plans": PLANS,
    "damaged": PLANS._replace(change=damage),
    "many hosts": State(
        "12-hosts",
        files={"hosts": MANY.replace(" ", "\n")},
        before=[
            "resource provider inventory amend --providers-from hosts"
            " --resource DISK_GB:reserved=3 --plan-out plan.json"
        ],
    ),
    "none": State("12-hosts"),
}
APPLIED = {
    "created": ("T", "+00:00"),
    "status": "applied",
    "changes": 2,
    "to_continue": "",
    "undoable": True,
}
UNFINISHED = {
    "status": "unfinished",
    "applied": 1,
    "command": ("resource provider inventory amend",),
    "target": ("placement.sqlite",),
}
NO_PLAN = "no file, and no plan of this user on this machine has this id"

# fmt: off
TABLE = [
    Row(LIST, "two plans", 0, [APPLIED, UNFINISHED]),
    Row(LIST, "damaged", 0, [APPLIED, UNFINISHED],
        ("other.jsonl is damaged in line 1", "Restore it from a backup, or remove it",
         Absent("cannot be read"))),
    Row(LIST, "many hosts", 0, [{"command": OF_MANY}]),
    Row(f"{LIST} -f value -c command", "many hosts", 0, {OF_MANY}),
    Row(f"{LIST} -c command", "many hosts", 0,
        ("cmp-0003.lab.example.org ... (8 names)", Absent("cmp-0004"))),
    Row("placement plan show plan.json -c status", "many hosts", 0,
        ("cmp-0003.lab.example.org ... (8 names)", Absent("cmp-0004"))),
    Row(f"{LIST} --status undone", "two plans", 0, []),
    Row(LIST, "none", 0, "No plan of this user on this machine ("),
    Row(f"{LIST} --status undone", "none", 0, "with the status undone"),
    Row(f"{UNDO} ffffffff", "two plans", 1, NO_PLAN),
    Row(f"{UNDO} placement.sqlite", "two plans", 1, "is not a plan file"),
]
# fmt: on

test_plan_list = checked(TABLE, STATES)


@pytest.fixture
def cloud(openstack: shell.OpenStack) -> shell.OpenStack:
    """The sample cloud with the two plans."""
    PLANS.arrange(openstack)
    return openstack


def after(outcome: shell.Outcome, words: str) -> str:
    """The command that follows these words in the output, without "openstack"."""
    (line,) = (line for line in outcome.stderr.splitlines() if words in line)
    return line.partition(f"{words}: openstack ")[2]


def test_the_list_names_the_commands_that_continue_and_undo(cloud: shell.OpenStack) -> None:
    applied, unfinished = cloud(LIST)
    for row in (applied, unfinished):
        assert f"-{row['id']}.undo.json" in row["to_undo"]
    # The list needs no cloud.
    table = shell.run(LIST.split())
    assert table.stderr.splitlines()[:3] == [
        f"To continue: {unfinished['to_continue']}",
        f"To undo the newest: openstack placement plan undo {applied['id']}",
        "Other columns: changes, applied, undone, to_continue, to_undo (-c <column> or -f json)",
    ]
    cloud.do(unfinished["to_continue"].removeprefix("openstack "))
    cloud.do(unfinished["to_undo"].removeprefix("openstack "))
    assert [(row["status"], row["undoable"]) for row in cloud(LIST)] == [
        ("applied", True), ("undone", False)
    ]  # fmt: skip
    assert len(cloud(LIST, "--status", "undone")) == 1
    cloud.do(after(table, "To undo the newest"))
    assert [row["status"] for row in cloud(LIST)] == ["undone", "undone"]
    assert "nothing to undo" in cloud.run(UNDO, applied["id"]).stderr


def test_a_limited_run_names_the_command_that_continues(cloud: shell.OpenStack) -> None:
    outcome = cloud.run(f"{AMEND} DISK_GB:reserved=4 --max-count 1")
    command = after(outcome, "To continue")
    assert " --max-count=1 " in command
    assert cloud.run(command).code == 0
    assert [row["status"] for row in cloud(LIST)[:2]] == ["applied", "continued"]
    assert len(cloud(LIST, "--status", "continued")) == 1
    (file,) = (line.split()[-1] for line in outcome.stderr.splitlines() if "To undo" in line)
    again = cloud.run(UNDO, file, "--dry-run")
    assert again.code == 0, again
    cloud.do(UNDO, cloud(LIST)[0]["id"])
    assert [row["status"] for row in cloud(LIST)[:2]] == ["undone", "unfinished"]


def test_one_command_that_continues_two_runs_is_named_once(cloud: shell.OpenStack) -> None:
    for _ in range(2):
        cloud.run("resource provider trait add --trait CUSTOM_A --create --all --max-count 1")
    assert [row["status"] for row in cloud(LIST)[:2]] == ["unfinished", "unfinished"]
    lines = shell.run(LIST.split()).stderr.splitlines()
    assert len([line for line in lines if "To continue: " in line and "CUSTOM_A" in line]) == 1


def test_a_limited_undo_continues_with_undo(cloud: shell.OpenStack) -> None:
    cloud.do(f"{AMEND} DISK_GB:reserved=4 --plan-out plan.json")
    outcome = cloud.run(f"{UNDO} plan.json --max-count 1")
    command = after(outcome, "To continue")
    assert command == f"{UNDO} --max-count=1 plan.json"
    assert cloud.run(command).code == 0
    assert cloud(LIST)[0]["status"] == "undone"
