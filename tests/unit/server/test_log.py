# SPDX-License-Identifier: Apache-2.0
"""The log has what a response must not say."""

from __future__ import annotations

import logging

import pytest

from osc_placement import server
from tests.support.in_process import ask


def test_an_unexpected_failure_is_logged_and_not_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = server.create_app()

    def fail() -> None:
        raise ValueError("all is lost")

    monkeypatch.setattr(app.repository, "read", fail)
    with caplog.at_level(logging.ERROR):
        answer = ask(app, "/traits/A")
    assert answer.status_int == 500
    assert "lost" not in answer.text
    assert answer.headers["x-openstack-request-id"] in caplog.text
    assert "all is lost" in caplog.text
