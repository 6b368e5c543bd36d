# SPDX-License-Identifier: Apache-2.0
"""``placement plan list`` and ``plan prune``."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from osc_placement.plan import journal
from tests.functional.batch.test_batch import AMEND, HOSTS
from tests.support.peer import fixtures, shell, target as targets

LIST = "placement plan list"
PRUNE = "placement plan prune"


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    yield from fixtures.embedded("embedded", tmp_path)


@pytest.fixture
def cloud(openstack: shell.OpenStack, target: targets.Target) -> shell.OpenStack:
    """The sample cloud with an unfinished relative plan and an applied one."""
    target.load("12-hosts")
    openstack.run(AMEND, *HOSTS, "--resource", "VCPU:reserved+=2", "--max-count", "1")
    openstack.do(AMEND, *HOSTS, "--resource", "DISK_GB:reserved=3")
    return openstack


def local(command: str, *arguments: str) -> shell.Outcome:
    """The outcome of a command without a cloud."""
    return shell.run([*command.split(), *arguments])


def test_the_list_names_the_commands_that_continue_and_undo(cloud: shell.OpenStack) -> None:
    applied, unfinished = cloud(LIST)
    assert (applied["status"], applied["changes"], applied["to_continue"]) == ("applied", 2, "")
    assert (unfinished["status"], unfinished["applied"]) == ("unfinished", 1)
    assert unfinished["command"].startswith("resource provider inventory amend")
    assert unfinished["target"].endswith("placement.sqlite")
    table = local(LIST)
    assert table.stderr.splitlines()[:3] == [
        f"To continue: {unfinished['to_continue']}",
        f"To undo the newest: openstack placement plan undo {applied['id']}",
        "Other columns: changes, applied, undone, to_continue, to_undo (-c <column> or -f json)",
    ]
    cloud.do(unfinished["to_continue"].removeprefix("openstack "))
    cloud.do(unfinished["to_undo"].removeprefix("openstack "))
    assert [row["status"] for row in cloud(LIST)] == ["applied", "undone"]
    assert [row["undoable"] for row in cloud(LIST)] == [True, False]
    assert len(cloud(LIST, "--status", "undone")) == 1


def test_the_printed_line_undoes_the_newest_run(cloud: shell.OpenStack) -> None:
    (line,) = (item for item in local(LIST).stderr.splitlines() if "To undo the newest" in item)
    cloud.do(line.partition("openstack ")[2])
    assert [row["status"] for row in cloud(LIST)] == ["undone", "unfinished"]


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("ffffffff", "no file, and no plan of this user on this machine has this id"),
        ("placement.sqlite", "is not a plan file"),
    ],
)
def test_what_is_no_plan_is_not_undone(
    cloud: shell.OpenStack, target: targets.Target, argument: str, reason: str
) -> None:
    target.load("12-hosts")
    path = pathlib.Path(cloud(LIST)[0]["target"]).with_name(argument)
    outcome = cloud.run("placement plan undo", str(path) if "." in argument else argument)
    assert outcome.code == 1
    assert reason in outcome.stderr


def test_an_undone_plan_is_refused(cloud: shell.OpenStack) -> None:
    applied = cloud(LIST)[0]
    cloud.do("placement plan undo", applied["id"])
    assert "nothing to undo" in cloud.run("placement plan undo", applied["id"]).stderr


def test_an_empty_list_says_whose_and_where(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    outcome = local(LIST)
    assert outcome.stderr.startswith(f"No plan of this user on this machine ({tmp_path}")
    assert "with the status undone" in local(LIST, "--status", "undone").stderr


def test_a_limited_run_names_the_command_that_continues(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    target.load("12-hosts")
    limit = ("--max-count", "1")
    outcome = openstack.run(AMEND, *HOSTS, "--resource", "DISK_GB:reserved=3", *limit)
    command = to_continue(outcome)
    assert " --max-count=1 " in command
    assert openstack.run(command).code == 0
    (file,) = (line.split()[-1] for line in outcome.stderr.splitlines() if "To undo" in line)
    again = openstack.run("placement plan undo", file, "--dry-run")
    assert again.code == 0, again


def test_a_limited_undo_continues_with_undo(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    target.load("12-hosts")
    plan = ("--plan-out", "plan.json")
    openstack.do(AMEND, *HOSTS, "--resource", "DISK_GB:reserved=3", *plan)
    outcome = openstack.run("placement plan undo plan.json --max-count 1")
    assert to_continue(outcome) == "placement plan undo --max-count=1 plan.json"
    assert openstack.run(to_continue(outcome)).code == 0
    assert openstack(LIST)[0]["status"] == "undone"


def to_continue(outcome: shell.Outcome) -> str:
    """The command that the output names, without "openstack"."""
    (line,) = (line for line in outcome.stderr.splitlines() if "To continue: " in line)
    return line.partition("To continue: openstack ")[2]


def test_prune_shows_first_and_keeps_unfinished_plans(cloud: shell.OpenStack) -> None:
    old = ("--older-than", "0")
    assert cloud(PRUNE) == []
    shown = cloud(PRUNE, *old)
    assert [row["result"] for row in shown] == ["would be deleted", "kept"]
    assert "Nothing was deleted" in local(PRUNE, *old).stderr
    assert all(pathlib.Path(path).exists() for row in shown for path in row["files"])
    done = cloud(PRUNE, *old, "--delete")
    assert [row["result"] for row in done] == ["deleted", "kept"]
    assert not any(pathlib.Path(path).exists() for path in done[0]["files"])
    assert [row["status"] for row in cloud(LIST)] == ["unfinished"]
    (row,) = cloud(PRUNE, *old, "--delete", "--unfinished")
    assert (row["status"], row["result"]) == ("unfinished", "deleted")
    assert cloud(LIST) == []
    assert local(LIST).code == 0


def test_prune_fails_for_a_file_that_cannot_be_deleted(
    cloud: shell.OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(item: journal.Record) -> None:
        raise PermissionError(13, "Permission denied", str(item.journal))

    monkeypatch.setattr(journal, "delete", refuse)
    outcome = local(PRUNE, "--older-than", "0", "--delete", "-f", "json")
    assert outcome.code == 1
    assert [row["result"] for row in json.loads(outcome.stdout)] == ["failed", "kept"]
    assert "Permission denied" in outcome.stderr
