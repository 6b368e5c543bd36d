# SPDX-License-Identifier: Apache-2.0
"""The lab stops only its own processes, and keeps its ports."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lab import database, place, process


@pytest.fixture
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that the lab did not start."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield started
    started.communicate(b"\n")


def test_a_process_with_a_reused_id_is_not_stopped(
    tmp_path: pathlib.Path, other_process: subprocess.Popen[bytes]
) -> None:
    lab = place.Place(tmp_path, 1)
    lab.write("run/keystone.pid", f"{other_process.pid} 1")
    assert process.pid(lab, "keystone") is None
    process.stop(lab, ["keystone"])
    assert other_process.poll() is None


def test_a_service_starts_after_its_dependencies() -> None:
    assert place.needed(["placement"]) == ("keystone", "placement")
    assert place.needed(["nova"]) == place.needed()
    assert place.needed()[0] == "keystone"


def test_a_lab_keeps_its_ports(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(place.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(place.PORT_VARIABLE, "25000")
    assert place.find().port("placement") == 25001
    (tmp_path / "port").write_text("26000")
    assert place.find().port("placement") == 26001


def test_the_error_for_an_unknown_state_lists_the_saved_states(tmp_path: pathlib.Path) -> None:
    lab = place.Place(tmp_path, 1)
    lab.path("saved", "seeded").mkdir(parents=True)
    with pytest.raises(place.LabError, match="saved states: seeded"):
        database.reset(lab, "other")
