# SPDX-License-Identifier: Apache-2.0
"""The journal of a plan: locking and damage."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

from osc_placement.plan import apply, file as plan_file, journal, plan
from tests.support import embedded, plans
from tests.support.batch_runs import amend


def test_two_processes_cannot_apply_the_same_plan(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(2))
    path = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", dry_run=True, plan_out=path)
    stored = plan_file.read(path)
    opened = journal.Journal(journal.path_of(stored, client.target))
    with pytest.raises(plan.PlanRefused, match="another process"):
        plans.apply_file(client, stored, path, apply.Options())
    opened.close()


A, B = "trait CUSTOM_A", "trait CUSTOM_B"


def test_an_incomplete_last_line_of_a_journal_is_ignored(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal"
    opened = journal.Journal(path)
    opened.note(journal.Note(A, journal.StepState.APPLYING, {"CUSTOM_A": False}))
    opened.note(journal.Note(A, journal.StepState.APPLIED))
    opened.close()
    with path.open("a") as file:
        file.write('{"key": "b", "sta')
    again = journal.Journal(path)
    assert again.entries == {A: journal.Note(A, journal.StepState.APPLIED, {"CUSTOM_A": False})}
    again.note(journal.Note(B, journal.StepState.APPLYING))
    again.close()
    assert journal.read_entries(path)[B].state is journal.StepState.APPLYING


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "Expecting value"),
        ("[1]", "is not of type 'object'"),
        (f'{{"key": "{A}", "state": "lost"}}', "'lost' is not a valid StepState"),
        (f'{{"key": "{A}", "state": 5}}', "state: 5 is not of type 'string'"),
        ('{"key": "nothing CUSTOM_A", "state": "applied"}', "unknown kind of change 'nothing'"),
        (f'{{"key": "{A}", "state": "applied", "before": 5}}', "before: 5 is not of type"),
        (f'{{"key": "{A}", "state": "applied", "before": {{"X": 5}}}}', "before.X: 5 is not"),
    ],
)
def test_a_damaged_journal_is_refused_with_its_path(
    tmp_path: pathlib.Path, line: str, reason: str
) -> None:
    path = tmp_path / "journal"
    path.write_text(f'{{"key": "{A}", "state": "applied"}}\n{line}\n')
    expected = f"the journal {path} is damaged in line 2: .*{re.escape(reason)}"
    for read in (journal.Journal, journal.read_entries):
        with pytest.raises(plan.PlanRefused, match=expected):
            read(path)


def test_a_journal_never_follows_a_link(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.write_text("")
    path = tmp_path / "journal"
    path.symlink_to(other)
    for read in (journal.Journal, journal.read_entries):
        with pytest.raises(plan.PlanRefused, match=f"the journal {path} is a symbolic link"):
            read(path)
    path.unlink()
    os.mkfifo(path)
    for read in (journal.Journal, journal.read_entries):
        with pytest.raises(plan.PlanRefused, match=f"the journal {path} is not a regular file"):
            read(path)


def test_only_the_owner_can_enter_new_folders_and_read_the_journal(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state" / "osc-placement" / "journal" / "plan.jsonl"
    before = os.umask(0)
    try:
        journal.Journal(path).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    for folder in path.parents[:3]:
        assert folder.stat().st_mode & 0o777 == 0o700
