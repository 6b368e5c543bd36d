# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import pathlib

import pytest

from osc_placement.client import retry

_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def state_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """A separate state directory for each test, which is not created here, and short pauses."""
    home = tmp_path_factory.getbasetemp() / f"state-{next(_NUMBERS)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    monkeypatch.setattr(retry, "_FIRST", 0.0005)
    monkeypatch.setattr(retry, "_LONGEST", 0.002)
    monkeypatch.setattr(retry, "_CONFLICT_PAUSE", 0)
    return home / "osc-placement"
