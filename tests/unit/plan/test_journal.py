"""The journal of a plan: locking and damage."""

from __future__ import annotations

import pathlib

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


def test_an_incomplete_last_line_of_a_journal_is_ignored(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal"
    opened = journal.Journal(path)
    opened.note(journal.Note("a", journal.State.APPLYING, {"VCPU:total": 1}))
    opened.note(journal.Note("a", journal.State.APPLIED))
    opened.close()
    with path.open("a") as file:
        file.write('{"key": "b", "sta')
    again = journal.Journal(path)
    assert again.entries == {"a": journal.Entry(journal.State.APPLIED, {"VCPU:total": 1})}
    again.note(journal.Note("b", journal.State.APPLYING))
    again.close()
    assert journal.read_entries(path)["b"].state is journal.State.APPLYING


def test_a_damaged_journal_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"key": "a", "state": "applied"}\nnonsense\n')
    with pytest.raises(plan.PlanRefused, match="line 2"):
        journal.Journal(path)
