# SPDX-License-Identifier: Apache-2.0
"""The journal of a plan: locking, damage, and the record of the plans that were applied."""

from __future__ import annotations

import pathlib
import re
import types
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement.plan import apply, executor, file as plan_file, journal, plan, result
from tests.support import embedded, plans
from tests.support.batch_runs import amend, ratios


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
    opened.note(journal.Note(A, journal.StepState.APPLYING))
    opened.note(journal.Note(A, journal.StepState.APPLIED))
    opened.close()
    with path.open("a") as file:
        file.write('{"key": "b", "sta')
    again = journal.Journal(path)
    assert again.entries == {A: journal.StepState.APPLIED}
    again.note(journal.Note(B, journal.StepState.APPLYING))
    again.close()
    assert journal.read(path).entries[B] is journal.StepState.APPLYING


def test_a_line_that_was_changed_moved_or_removed_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal.jsonl"
    opened = journal.Journal(path)
    for key in (A, B):
        opened.note(journal.Note(key, journal.StepState.APPLYING))
        opened.note(journal.Note(key, journal.StepState.APPLIED))
    opened.close()
    lines = path.read_text().splitlines(keepends=True)
    forged = {
        1: [lines[0].replace("applying", "applied"), *lines[1:]],
        2: [lines[0], lines[1].replace(A, B), *lines[2:]],
        3: [*lines[:2], lines[3]],
        4: [*lines[:3], lines[3].replace("applied", "undone")],
    }
    for number, texts in forged.items():
        path.write_text("".join(texts))
        with pytest.raises(plan.PlanRefused, match=f"damaged in line {number}: its check value"):
            journal.read(path)
    moved = tmp_path / "other-plan.jsonl"
    moved.write_text("".join(lines))
    with pytest.raises(plan.PlanRefused, match="damaged in line 1: its check value"):
        journal.read(moved)
    path.write_text("".join(lines))
    again = journal.Journal(path)
    again.note(journal.Note(A, journal.StepState.UNDONE))
    again.close()
    assert journal.read(path).entries[A] is journal.StepState.UNDONE


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "Expecting value"),
        ("[1]", "is not of type 'object'"),
        (f'{{"key": "{A}", "state": "lost"}}', "its check value does not match"),
        (f'{{"key": "{A}", "state": 5}}', "state: 5 is not of type 'string'"),
        (f'{{"key": "{A}", "state": "applied", "before": {{}}}}', "'before' was unexpected"),
    ],
)
def test_a_damaged_journal_is_refused_with_its_path(
    tmp_path: pathlib.Path, line: str, reason: str
) -> None:
    path = tmp_path / "journal"
    opened = journal.Journal(path)
    opened.note(journal.Note(A, journal.StepState.APPLIED))
    opened.close()
    with path.open("a") as file:
        file.write(f"{line}\n")
    expected = f"the journal {path} is damaged in line 2: .*{re.escape(reason)}"
    for read in (journal.Journal, journal.read):
        with pytest.raises(plan.PlanRefused, match=expected):
            read(path)


RATIO = "VCPU:allocation_ratio=20"


def test_undo_restores_what_the_plan_has_whatever_a_forged_journal_says(
    tmp_path: pathlib.Path,
) -> None:
    """Whoever can write a journal can compute its check values."""
    client = embedded.Client(embedded.hosts(2))
    path = tmp_path / "plan.json"
    amend(client, RATIO, plan_out=path)
    stored = plan_file.read(path)
    written = journal.path_of(stored, client.target)
    original = written.read_bytes()
    for state in journal.StepState:
        written.unlink()
        forged = journal.Journal(written)
        forged.note(*(journal.Note(item.key, state) for item in stored.changes))
        forged.close()
        assert set(journal.read(written).entries.values()) == {state}
        report = plans.undo_file(client, stored, path)
        is_undone = state is not journal.StepState.PENDING
        assert ratios(client) == {16.0 if is_undone else 20.0}
        assert {item.status for item in report.results} == {
            result.Status.APPLIED if is_undone else result.Status.SKIPPED
        }
        written.write_bytes(original)
        plans.apply_file(client, stored, path, apply.Options())
        assert ratios(client) == {20.0}


def test_undo_says_that_the_end_of_a_journal_is_lost(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(2))
    path = tmp_path / "plan.json"
    amend(client, RATIO, plan_out=path, workers=1)
    stored = plan_file.read(path)
    written = journal.path_of(stored, client.target)
    lines = written.read_text().splitlines(keepends=True)
    undone, notes = [], []
    for count in range(len(lines) + 1):
        written.write_text("".join(lines[:count]))
        report = plans.undo_file(client, stored, path)
        undone.append(report.count(result.Status.APPLIED))
        notes.append(any("end of the file is lost" in note for note in report.notes))
        amend(client, RATIO)
    # The lines: the run; one host begun, and done; the other one; the end of the run.
    assert undone == [0, 0, 1, 1, 2, 2, 2]
    assert notes == [False, True, True, True, False, False, False]


def only() -> journal.Record:
    (record,) = journal.read_all().found
    return record


def test_a_finished_plan_is_applied_and_can_be_undone(state_home: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(3))
    report = amend(client, RATIO)
    record = only()
    assert (record.status, record.changes, record.applied) == (journal.PlanStatus.APPLIED, 3, 3)
    assert (record.command, record.target) == ("a test", client.target)
    assert record.undo_file == report.undo_path
    assert record.plan is None


def test_a_limited_plan_is_unfinished_until_it_is_continued(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(3))
    path = tmp_path / "plan.json"
    amend(client, RATIO, max_count=2, plan_out=path)
    record = only()
    assert (record.status, record.applied, record.plan) == (journal.PlanStatus.UNFINISHED, 2, path)
    plans.apply_file(client, plan_file.read(path), path, apply.Options())
    assert (only().status, only().applied) == (journal.PlanStatus.APPLIED, 3)
    plans.undo_file(client, plan_file.read(path), path)
    record = only()
    assert (record.status, record.undone, record.undo_file) == (journal.PlanStatus.UNDONE, 3, None)
    assert record.command == "a test"


def test_a_killed_run_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(self: journal.Journal, fields: Mapping[str, Any]) -> None:
        describe(self, fields)
        if not fields["unfinished"]:
            raise KeyboardInterrupt

    describe = journal.Journal.describe
    monkeypatch.setattr(journal.Journal, "describe", kill)
    client = embedded.Client(embedded.hosts(2))
    amend(client, RATIO, max_count=1)
    assert only().status is journal.PlanStatus.UNFINISHED
    opened = journal.Journal(only().journal)
    assert only().status is journal.PlanStatus.RUNNING
    opened.close()


def test_a_stale_plan_has_the_status_nothing_applied(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(1))
    path = tmp_path / "plan.json"
    amend(client, RATIO, dry_run=True, plan_out=path)
    assert journal.read_all() == journal.Records([], [])
    amend(client, "VCPU:allocation_ratio=30")
    plans.apply_file(client, plan_file.read(path), path, apply.Options())
    records = {item.status: item for item in journal.read_all().found}
    assert records.keys() == {journal.PlanStatus.APPLIED, journal.PlanStatus.NOTHING}
    assert records[journal.PlanStatus.NOTHING].undo_file is None


def test_a_rehearsal_is_listed_for_its_file_and_keeps_the_undo_file_of_the_real_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = embedded.Client(embedded.hosts(3), "the cloud")
    snapshot = embedded.Client(embedded.hosts(3), "a snapshot")
    monkeypatch.setattr(type(snapshot), "origin", property(lambda self: _origin(self.target)))
    path = tmp_path / "plan.json"
    amend(cloud, RATIO, dry_run=True, plan_out=path)
    stored = plan_file.read(path)
    real = plans.apply_file(
        cloud, stored, path, apply.Options(limits=executor.RunLimits(max_count=2))
    )
    assert real.undo_path
    before = real.undo_path.read_text()
    rehearsed = plans.apply_file(snapshot, stored, path, apply.Options())
    assert rehearsed.undo_path not in (None, real.undo_path)
    assert real.undo_path.read_text() == before
    records = {item.target: item for item in journal.read_all().found}
    assert records.keys() == {"the cloud", "a snapshot"}
    assert [records[name].applied for name in ("the cloud", "a snapshot")] == [2, 3]
    assert records["a snapshot"].undo_file == rehearsed.undo_path
    ((plan_id,), digest) = ({item.id for item in records.values()}, stored.digest)
    assert digest.startswith(f"sha256:{plan_id}")
    assert journal.undo_file_of(plan_id, "the cloud") == real.undo_path
    assert journal.undo_file_of(plan_id, "a snapshot") == rehearsed.undo_path
    assert plan_file.read(rehearsed.undo_path).target == "a snapshot"
    undone = plans.undo_file(snapshot, plan_file.read(rehearsed.undo_path), rehearsed.undo_path)
    assert undone.count(result.Status.APPLIED) == 3


def _origin(target: str) -> str:
    return "the cloud" if target == "a snapshot" else ""


def test_a_damaged_journal_is_reported_and_the_others_are_listed() -> None:
    amend(embedded.Client(embedded.hosts(1)), RATIO)
    (journal.directory() / "damaged.jsonl").write_text("nonsense\n")
    records = journal.read_all()
    assert [item.status for item in records.found] == [journal.PlanStatus.APPLIED]
    (error,) = records.errors
    assert "damaged.jsonl is damaged in line 1" in error


def test_the_name_of_a_default_file_begins_with_a_readable_time() -> None:
    made = plan.Plan((), created="2026-01-01T09:05:07.123456+00:00")
    path = plan_file.default_path(made, "undo")
    assert path.name.startswith("2026-01-01T09-05-07Z-")
    assert path.name.endswith(".undo.json")


def test_an_id_of_two_plans_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        types.SimpleNamespace(journal=pathlib.Path(f"ab{number}.jsonl"), target=target)
        for number, target in enumerate(("the cloud", "another", "another"))
    ]
    monkeypatch.setattr(journal, "read_all", lambda: types.SimpleNamespace(found=found))
    for target, count in (("a snapshot", 3), ("another", 2)):
        with pytest.raises(plan.PlanRefused, match=f"{count} plans have an id that begins so"):
            journal.undo_file_of("ab", target)
