# SPDX-License-Identifier: Apache-2.0
"""The streams and the log of a command."""

from __future__ import annotations

import io
import logging
import sys
import types

import pytest

from osc_placement.v1.output import streams

LOG = logging.getLogger("keystoneauth.session")


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_records_that_no_handler_writes_are_not_built(
    monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    root = logging.getLogger()
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(level)
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setattr(root, "level", logging.DEBUG)
    # Forgets which levels are enabled.
    root.setLevel(logging.DEBUG)
    with streams.checked(types.SimpleNamespace(stdout=None)):
        assert LOG.isEnabledFor(logging.DEBUG) == (level == logging.DEBUG)
        assert LOG.isEnabledFor(logging.WARNING)
    assert root.level == logging.DEBUG


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_of_the_log_only_errors_are_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    handler = logging.StreamHandler(Terminal())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    with streams.checked(types.SimpleNamespace(stdout=None)):
        LOG.error("refused")
        LOG.warning("retried")
    assert handler.stream.getvalue() == "\x1b[31mrefused\x1b[0m\nretried\n"
