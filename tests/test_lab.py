"""The lab ends what it has started and nothing else, and remembers its ports."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.lab import database, place, process


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that the lab has not started."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield started
    started.communicate(b"\n")


def test_a_process_that_has_got_an_old_number_is_not_ended(
    tmp_path: pathlib.Path, stranger: subprocess.Popen[bytes]
) -> None:
    lab = place.Place(tmp_path, 1)
    lab.write("run/keystone.pid", f"{stranger.pid} 1")
    assert process.pid(lab, "keystone") is None
    process.stop(lab, ["keystone"])
    assert stranger.poll() is None


def test_a_service_comes_after_what_it_needs() -> None:
    assert place.needed(["placement"]) == ("keystone", "placement")
    assert place.needed(["nova"]) == place.needed()
    assert place.needed()[0] == "keystone"


def test_a_lab_keeps_the_ports_that_it_was_made_with(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(place.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(place.PORT_VARIABLE, "25000")
    assert place.find().port("placement") == 25001
    (tmp_path / "port").write_text("26000")
    assert place.find().port("placement") == 26001


def test_a_state_that_was_never_saved_is_told_with_those_that_were(tmp_path: pathlib.Path) -> None:
    lab = place.Place(tmp_path, 1)
    lab.path("saved", "seeded").mkdir(parents=True)
    with pytest.raises(place.LabError, match="there are: seeded"):
        database.reset(lab, "other")
