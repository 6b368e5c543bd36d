# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import io
import sys
import time

import pytest

from osc_placement.v1.output import progress, streams


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The stderr of the test, 80 columns wide."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    return terminal


def written(
    monkeypatch: pytest.MonkeyPatch, seconds: float, steps: int, of: int, *parts: str
) -> list[str]:
    """The lines about parts whose steps take so many seconds, without a terminal."""
    now, lines = [0.0], list[str]()
    monkeypatch.setattr(streams, "write_message", lines.append)
    shown = progress.RunProgress(lambda: now[0])
    shown.display = progress.ProgressLines()
    for part in parts:
        shown.start(part, of)
        for _ in range(steps):
            now[0] += seconds
            shown.advance()
    return lines


def test_without_a_terminal_a_line_per_minute_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, 0.1, 200, 200, "reading providers") == []
    assert written(monkeypatch, 1.0, 180, 180, "reading providers") == [
        "reading providers: 60 of 180, 1.0/s, about 2 min left",
        "reading providers: 120 of 180, 1.0/s, about 60 s left",
    ]
    assert written(monkeypatch, 0.0625, 960, 10_000, "applying") == [
        "applying: 960 of 10000, 16/s, about 9 min left"
    ]


def test_a_line_per_minute_names_the_present_part_with_its_own_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert written(monkeypatch, 25, 3, 4, "reading", "applying") == [
        "reading: 3 of 4, 0.0/s, about 25 s left",
        "applying: 3 of 4, 0.0/s, about 25 s left",
    ]
    # Parts of one long step.
    assert written(monkeypatch, 45, 1, 1, "a", "b", "c", "d") == ["c: 0 of 1"]


def drawn_after(steps: int, of: int, terminal: Terminal) -> str:
    """What a terminal shows after some steps of a part."""
    with progress.shown(quiet=False) as shown:
        shown.start("reading providers", of)
        for _ in range(steps):
            time.sleep(0.002)
            shown.advance()
        shown.display._progress.refresh()
    return terminal.getvalue()


def test_a_terminal_shows_rate_and_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.001)
    drawn = drawn_after(1, 3, use_terminal(monkeypatch))
    assert "reading providers" in drawn
    assert "1/3" in drawn
    assert "/s " in drawn


def test_a_bar_is_updated_twice_a_second_and_at_the_last_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = drawn_after(3, 3, use_terminal(monkeypatch))
    assert "1/3" not in drawn
    assert "3/3" in drawn


def test_nothing_is_shown_with_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with progress.shown(quiet=True) as shown:
        shown.start("reading providers", 3)
        shown.advance()
    assert terminal.getvalue() == ""
