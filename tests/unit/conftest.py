from __future__ import annotations

import pathlib

import pytest

from osc_placement.client import retry


@pytest.fixture(autouse=True)
def state_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A separate state directory for each test, and short pauses."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(retry, "_FIRST", 0.0005)
    monkeypatch.setattr(retry, "_LONGEST", 0.002)
    monkeypatch.setattr(retry, "_CONFLICT_PAUSE", 0)
    return tmp_path / "state" / "osc-placement"
