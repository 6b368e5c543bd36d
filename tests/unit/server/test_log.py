# SPDX-License-Identifier: Apache-2.0
"""The log: one line per entry, without control characters, for any content of a request."""

from __future__ import annotations

import logging
import sys

import pytest
import webob

from osc_placement import server
from osc_placement.server import log

FORGED = "\r\n2026-11-20 10:00:00 ERROR placement: all is lost\x1b[2J\u2028\x85"


def entry(message: str, error: BaseException | None = None) -> str:
    info = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, message, (), info)
    return log.LogFormatter().format(record)


def test_a_message_cannot_forge_an_entry() -> None:
    (line,) = entry(f"no such path: {FORGED}").splitlines()
    assert line.isprintable()
    assert line.endswith("\\x1b[2J\\u2028\\x85")


def test_a_traceback_cannot_forge_an_entry() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        first, *others = entry("failed", error).splitlines()
    assert first.endswith("ERROR x: failed")
    assert others
    for line in others:
        assert line.startswith("    ")
        assert line.isprintable()


def test_an_unexpected_failure_is_logged_and_not_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log.LogFormatter())
    monkeypatch.setattr(logging.getLogger("osc_placement"), "handlers", [handler])
    app = server.create_app()

    def fail() -> None:
        raise ValueError(FORGED)

    monkeypatch.setattr(app.repository, "read", fail)
    request = webob.Request.blank("/traits/%0AERROR", headers={"x-auth-token": "admin"})
    request.headers["openstack-api-version"] = "placement 1.39"
    answer = request.get_response(app)
    assert answer.status_int == 500
    assert "lost" not in answer.text
    logged = capsys.readouterr().err
    assert answer.headers["x-openstack-request-id"] in logged
    assert "ERROR osc_placement" in logged
    assert not any(line.startswith("2026-11-20 10:00:00") for line in logged.splitlines())
