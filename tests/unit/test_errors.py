# SPDX-License-Identifier: Apache-2.0
"""The length of an error, whatever it quotes."""

from __future__ import annotations

import importlib.util
import logging
import pathlib
import sys

import pytest

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.model import json_text, yaml_lines
from osc_placement.plan import plan
from osc_placement.v1.output import streams

MIB = 1 << 20

#: No error is longer, in characters.
LONGEST = errors.MAX_LINES * (errors.MAX_LINE + 1) + 100


def test_a_usual_text_stays_as_it_is() -> None:
    for text in ("", "a b", "x" * errors.MAX_WORD, "\n".join(["line"] * errors.MAX_LINES)):
        assert errors.shortened(text) == text


def test_names_lists_and_lines_lose_their_middle() -> None:
    name = errors.shortened(f"the provider {'n' * MIB} is gone: run this")
    assert name.startswith("the provider nnn")
    assert "(1048576 characters)" in name
    assert name.endswith("nnn is gone: run this")
    assert len(name) < errors.MAX_WORD + 50
    hosts = errors.shortened(f"no such hosts: {', '.join(['host'] * MIB)}: check them")
    assert len(hosts) == errors.MAX_LINE
    assert hosts.endswith("host: check them")
    rows = errors.shortened("\n".join(["a row"] * 1000))
    assert rows.endswith("a row\n... and 900 more lines")


@pytest.mark.parametrize(
    "text", ["n" * MIB, "n " * MIB, "n\n" * MIB, "http://a:b@" * MIB, "http://a:b" * MIB]
)
def test_no_error_is_long(text: str, caplog: pytest.LogCaptureFixture) -> None:
    for error in (
        errors.PlacementError(f"the provider {text} is gone"),
        errors.InvalidInput([f"the provider {text} is gone"] * 3),
        errors.InvalidInput([f"line {number}: wrong" for number in range(MIB)]),
        api_errors.NotFound(404, text),
        api_errors.Forbidden(403, text),
        api_errors.InventoryInUse(409, text),
        plan.PlanRefused(text),
        json_text.NotJson(text),
    ):
        assert 0 < len(str(error)) <= LONGEST
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "%s", (text,), None)
    assert len(streams._Formatter(logging.StreamHandler()).format(record)) <= 4 * LONGEST


def test_the_error_of_a_document_with_many_faults_is_short() -> None:
    with pytest.raises(errors.InvalidInput, match=r"^moves\.yaml:2: ") as caught:
        yaml_lines.load("host: 1\n" * 2_000, "moves.yaml")
    assert len(str(caught.value)) <= LONGEST


def test_wrong_input_comes_before_a_failure_that_follows_it() -> None:
    collected = errors.InputErrors(["no host x"])
    with pytest.raises(errors.InvalidInput, match="no host x"), collected.collected():
        raise errors.PlacementError("nova does not answer")
    alone = errors.InputErrors()
    with pytest.raises(errors.PlacementError, match="nova does not"), alone.collected():
        raise errors.PlacementError("nova does not answer")


@pytest.mark.parametrize(
    ("by", "command"),
    [
        ("pip", "'/a b/python' -m pip install 'osc-placement[serve]'"),
        ("pipx", "pipx runpip {name} install 'osc-placement[serve]'"),
        ("uv", "uv pip install --python '/a b/python' 'osc-placement[serve]'"),
    ],
)
def test_a_missing_package_is_installed_as_the_client_was(
    by: str, command: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/a b/python")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None if by == "uv" else object())
    if by == "pipx":
        (tmp_path / "pipx_metadata.json").touch()
    with pytest.raises(errors.PlacementError) as caught, errors.needs_extra("serve", "a server"):
        raise ModuleNotFoundError("no module", name="waitress")
    assert f"run {command.format(name=tmp_path.name)}" in str(caught.value)
