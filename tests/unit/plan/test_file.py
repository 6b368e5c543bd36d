# SPDX-License-Identifier: Apache-2.0
"""Files on disk: permissions, what is no regular file, and a full disk."""

from __future__ import annotations

import ast
import errno
import os
import pathlib
import stat
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.plan import apply, file as plan_file, plan as plan_module, result
from tests.support import embedded, plans
from tests.support.batch_runs import amend


def applied(client: embedded.Client, **options: Any) -> result.RunReport:
    return amend(client, "VCPU:allocation_ratio+=1", workers=1, **options)


def ratios(client: embedded.Client) -> list[float]:
    return [item.inventories["VCPU"].allocation_ratio for item in client.all_stored()]


def fill_disk(monkeypatch: pytest.MonkeyPatch, after: int, part: int) -> None:
    """After ``after`` lines about changes the disk has room for ``part`` bytes.

    The first line describes the run.
    """
    written = 0
    write = os.write

    def filled(descriptor: int, data: bytes) -> int:
        nonlocal written
        written += 1
        if written <= after + 1:
            return write(descriptor, data)
        if part:
            return write(descriptor, data[:part])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", filled)


def test_only_the_owner_can_read_the_files() -> None:
    before = os.umask(0)
    try:
        report = applied(embedded.Client(embedded.hosts(3)))
    finally:
        os.umask(before)
    assert {report.plan_path, report.undo_path} != {None}
    paths = list(plan_file.state_directory().rglob("*"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()}
    assert sorted(path.suffix for path in paths if path.is_file()) == [".json", ".json", ".jsonl"]
    assert (modes, folders) == ({0o600}, {0o700})


@pytest.mark.parametrize("part", [0, 9])
@pytest.mark.parametrize("after", [-1, 0, 1, 2, 3])
def test_a_full_disk_ends_the_run_and_the_plan_file_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, after: int, part: int
) -> None:
    client = embedded.Client(embedded.hosts(3))
    path = tmp_path / "plan.json"
    with monkeypatch.context() as patch:
        fill_disk(patch, after, part)
        report = applied(client, plan_out=path)
    assert "No space left" in report.halted
    assert report.exit_code() == 6
    done = report.count(result.Status.APPLIED)
    assert done == client.writes == (after + 1) // 2
    rest = plans.apply_file(client, plan_file.read(path), path, apply.Options())
    assert rest.count(result.Status.APPLIED) == 3
    assert ratios(client) == [17.0] * 3
    assert client.writes == 3


def test_an_undo_file_that_cannot_be_narrowed_stays_complete_and_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = embedded.Client(embedded.hosts(3))
    write, calls = plan_file.write, []

    def once(path: pathlib.Path, plan: Any) -> None:
        calls.append(path)
        if len(calls) == 3:
            raise errors.PlacementError("no space")
        write(path, plan)

    monkeypatch.setattr(plan_file, "write", once)
    report = amend(client, "VCPU:allocation_ratio+=1", max_count=2)
    assert report.undo_path is not None
    options = apply.Options()
    stored = plan_file.read(report.undo_path)
    assert len(stored.changes) == 3
    back = plans.undo_file(client, stored, report.undo_path, options)
    assert back.count(result.Status.APPLIED) == 2
    assert back.exit_code() == 0
    assert ratios(client) == [16.0] * 3


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "long" * 100])
def test_a_plan_is_written_to_a_regular_file_only(tmp_path: pathlib.Path, kind: str) -> None:
    path = pathlib.Path(os.devnull) if kind == "device" else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    client = embedded.Client(embedded.hosts(1))
    for option in ("plan_out", "undo_out"):
        with pytest.raises(errors.PlacementError, match=r"Nothing was changed\. Give another"):
            applied(client, **{option: path})
    assert client.writes == 0
    assert not any(item.is_file() for item in (*tmp_path.iterdir(), pathlib.Path(os.devnull)))


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: pathlib.Path) -> None:
    link, file = tmp_path / "link", tmp_path / "folder" / "file"
    file.parent.mkdir()
    link.symlink_to(file)
    applied(embedded.Client(embedded.hosts(1)), plan_out=link)
    assert link.is_symlink()
    assert plan_file.read(file).relative


@pytest.mark.parametrize(
    "content",
    [
        b"SQLite format 3\x00 and more",
        # JSON with a format, but no plan.
        b'{\n "format_version": 1,\n "origin": "https://cloud"\n}\n',
    ],
)
def test_a_file_of_another_kind_is_not_replaced(tmp_path: pathlib.Path, content: bytes) -> None:
    client = embedded.Client(embedded.hosts(3))
    file = tmp_path / "other"
    file.write_bytes(content)
    for option in ("plan_out", "undo_out"):
        with pytest.raises(errors.PlacementError, match=r"is not a plan file\. Nothing was"):
            applied(client, **{option: file})
    assert file.read_bytes() == content
    assert client.writes == 0


def test_an_empty_file_and_a_plan_file_are_replaced(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "plan.json"
    file.touch()
    for count in (1, 2):
        applied(embedded.Client(embedded.hosts(count)), plan_out=file)
        assert len(plan_file.read(file).changes) == count


def test_a_partly_applied_plan_is_not_replaced(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(3))
    path = tmp_path / "my plan.json"
    applied(client, plan_out=path, max_count=1)
    content = path.read_text()
    with pytest.raises(plan_module.PlanRefused, match=r"placement plan apply '.*my plan[.]json'"):
        applied(client, plan_out=path)
    assert path.read_text() == content
    kept = plan_file.read(path)
    apply.apply_plan(client, plan_module.ObservedPlan(kept), apply.Options(), path=path)
    applied(client, plan_out=path)
    assert path.read_text() != content


def test_no_module_creates_a_file_that_others_can_read() -> None:
    """A file is created by os.open with a mode, by tempfile, or by open with an opener."""
    package = pathlib.Path(plan_file.__file__).parents[1]
    creating = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and _creates(node)
    ]
    assert creating == []


def _creates(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    modes = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
    writes = any(isinstance(mode, str) and mode.strip("bt+") in {"w", "a", "x"} for mode in modes)
    is_private = any(keyword.arg == "opener" for keyword in call.keywords)
    opens = name == "open" and writes and not is_private
    return opens or name in {"write_text", "write_bytes", "touch"}
