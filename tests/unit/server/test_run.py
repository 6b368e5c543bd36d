"""The command line: states go out and in whole, and what is wrong is said in one line."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.server import run

Capture = pytest.CaptureFixture[str]


def exported(capsys: Capture, *options: str) -> Any:
    assert run.main([*options, "--export", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("sample", testing.sample_cloud_names())
def test_a_sample_cloud_goes_in_by_name_and_out_unchanged(sample: str, capsys: Capture) -> None:
    assert exported(capsys, "--load", sample) == testing.sample_cloud(sample)


def test_a_state_goes_through_a_database_and_a_file_unchanged(
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


def test_an_export_makes_no_database(tmp_path: pathlib.Path, capsys: Capture) -> None:
    file = tmp_path / "mistyped.sqlite"
    assert run.main(["--database", str(file), "--export", "-"]) == 1
    out, complaint = capsys.readouterr()
    assert out == ""
    assert complaint == f"osc-placement-server: there is no database {file} to export\n"
    assert not file.exists()


def test_an_export_that_cannot_be_written_says_so(tmp_path: pathlib.Path, capsys: Capture) -> None:
    goal = tmp_path / "nowhere" / "state.json"
    assert run.main(["--load", "12-hosts", "--export", str(goal)]) == 1
    assert "state.json cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no json", "is no JSON document"),
        ("[]", "it is no JSON object"),
        ("{}", "'providers' is missing"),
    ],
)
def test_a_document_that_is_none_is_refused(
    text: str, complaint: str, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    document = tmp_path / "state.json"
    document.write_text(text)
    assert run.main(["--load", str(document), "--export", "-"]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "cannot be read: No such file"),
        ("just some text", "is no policy file"),
        ("- a\n- list", "is no policy file"),
        ("a: [unclosed", "is no policy file"),
        ("\x00", "is no policy file"),
    ],
)
def test_a_policy_file_that_is_none_does_not_mean_the_defaults(
    text: str | None, complaint: str, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    file = tmp_path / "policy.yaml"
    if text is not None:
        file.write_text(text)
    assert run.main(["--policy-file", str(file), "--export", "-"]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--port", "--first-generation"])
def test_what_is_no_number_is_called_that(option: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main([option, "x"])
    assert f"argument {option}: invalid int value: 'x'" in capsys.readouterr().err


def test_a_state_is_not_loaded_over_another(tmp_path: pathlib.Path, capsys: Capture) -> None:
    database = str(tmp_path / "placement.sqlite")
    assert run.main(["--database", database, "--load", "12-hosts", "--export", "-"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert run.main(["--database", database, "--load", "200-hosts", "--export", "-"]) == 1
    assert "not empty" in capsys.readouterr().err
    assert exported(capsys, "--database", database) == before


def test_an_address_beyond_this_machine_needs_to_be_wanted(capsys: Capture) -> None:
    assert run.main(["--host", "0.0.0.0", "--port", "0"]) == 1
    assert "--allow-remote-noauth" in capsys.readouterr().err
