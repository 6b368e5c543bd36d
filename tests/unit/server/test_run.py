# SPDX-License-Identifier: Apache-2.0
"""The command line: states are loaded and exported whole, and errors take one line."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.server import run

Capture = pytest.CaptureFixture[str]


def exported(capsys: Capture, *options: str) -> Any:
    assert run.main([*options, "--export", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("sample", testing.sample_cloud_names())
def test_a_sample_cloud_is_loaded_by_name_and_exported_unchanged(
    sample: str, capsys: Capture
) -> None:
    assert exported(capsys, "--load", sample) == testing.sample_cloud(sample)


def test_a_state_survives_a_database_and_a_file_unchanged(
    tmp_path: pathlib.Path, capsys: Capture
) -> None:
    first, second = str(tmp_path / "first.sqlite"), str(tmp_path / "second.sqlite")
    document = tmp_path / "state.json"
    assert run.main(["--database", first, "--load", "12-hosts", "--export", str(document)]) == 0
    text = document.read_text(encoding="utf-8")
    assert run.main(["--database", second, "--load", str(document), "--export", "-"]) == 0
    assert capsys.readouterr().out == text
    assert exported(capsys, "--database", second) == testing.sample_cloud("12-hosts")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "first.sqlite",
        "second.sqlite",
        "state.json",
    ]


def test_exit_loads_a_sample_into_a_file_without_serving(
    tmp_path: pathlib.Path, capsys: Capture
) -> None:
    file = str(tmp_path / "cloud.sqlite")
    assert run.main(["--database", file, "--load", "12-hosts", "--exit"]) == 0
    assert capsys.readouterr().out == f"{file}: 12-hosts is loaded\n"
    assert exported(capsys, "--database", file) == testing.sample_cloud("12-hosts")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--database lost --export -", "database lost does not exist, so it cannot be exported"),
        ("--load 12-hosts --database a --export ./a", "--export ./a is the database itself"),
        ("--load 12-hosts --export no/state.json", "no/state.json cannot be written: No such file"),
        ("--load 12-host", "The sample clouds are 12-hosts, 200-hosts"),
        ("--auth keystone --export -", "use noauth2 without one, or keystone with one"),
        ("--config-file x --export -", "use noauth2 without one, or keystone with one"),
        ("--auth keystone --config-file no.conf", "no.conf: "),
    ],
)
def test_what_cannot_start_is_one_line_and_makes_no_file(
    line: str, reason: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.main(line.split()) == 1
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert reason in error.removeprefix("osc-placement-server: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--load", "no json", "this is not a JSON document"),
        ("--load", "[]", "it is not a JSON object"),
        ("--load", "null", "it is not a JSON object"),
        ("--load", "{}", "'providers' is missing"),
        ("--policy-file", None, "cannot be read: No such file"),
        ("--policy-file", "just some text", "is not a policy file"),
        ("--policy-file", "- a\n- list", "is not a policy file"),
        ("--policy-file", "a: [unclosed", "is not a policy file"),
        ("--policy-file", "\x00", "is not a policy file"),
        ("--policy-file", '"a": "rule:b"\n"b": "rule:a"', "invalid rules"),
        ("--policy-file", '"placement:usages": "rule:placement:usages"', "invalid rules"),
    ],
)
def test_an_invalid_document_or_policy_file_is_refused(
    option: str, text: str | None, message: str, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    assert run.main([option, str(file), "--export", "-"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--port x", "argument --port: invalid int value: 'x'"),
        ("--max-allocation-candidates x", "argument --max-allocation-candidates: invalid int"),
        ("--load 12-hosts --exit", "--exit requires --load and --database"),
        ("--database a --exit", "--exit requires --load and --database"),
        ("--check a --database b --load 12-hosts --exit", "--check is not allowed with --database"),
        ("--check a --export -", "--check is not allowed with --database"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(line: str, reason: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(line.split())
    assert reason in capsys.readouterr().err


def test_a_document_is_not_loaded_into_a_database_with_records(
    tmp_path: pathlib.Path, capsys: Capture
) -> None:
    database = str(tmp_path / "placement.sqlite")
    assert run.main(["--database", database, "--load", "12-hosts", "--export", "-"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert run.main(["--database", database, "--load", "200-hosts", "--export", "-"]) == 1
    assert "not empty" in capsys.readouterr().err
    assert exported(capsys, "--database", database) == before


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("0.0.0.0", False), ("::", False), ("example.org", False), ("localhost", True), ("::1", True)],
)
def test_an_address_beyond_loopback_needs_an_option(
    host: str, capsys: Capture, *, is_loopback: bool
) -> None:
    words = ["--host", host, "--export", "-"]
    assert run.main(words) == (0 if is_loopback else 1)
    assert ("--allow-remote-noauth" in capsys.readouterr().err) != is_loopback
    assert run.main([*words, "--allow-remote-noauth"]) == 0
    assert ("warning: without authentication" in capsys.readouterr().err) != is_loopback


def test_the_version_is_printed(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"osc-placement-server \d+\..*\n", capsys.readouterr().out)
