# SPDX-License-Identifier: Apache-2.0
"""The module that gunicorn and uWSGI load: options from the environment, errors in one line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = """\
import webob
from osc_placement.server.wsgi import application
request = webob.Request.blank("/resource_providers", headers={"x-auth-token": "admin"})
print(len(request.get_response(application).json["resource_providers"]))
"""


def run(options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | {"OSC_PLACEMENT_SERVER_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_application_has_the_options_of_the_environment() -> None:
    ended = run("--load 12-hosts --debug")
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 12
    assert "DEBUG osc_placement.server.options: option load = 12-hosts" in ended.stderr
    assert "GET /resource_providers?: 200" in ended.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('--database "cloud.sqlite', "OSC_PLACEMENT_SERVER_OPTIONS: No closing quotation"),
        ("--load nowhere.json", "OSC_PLACEMENT_SERVER_OPTIONS: nowhere.json cannot be read"),
        ("--check cloud.sqlite", "these options of osc-placement-server start no server"),
        ("--port many", "error: argument --port: invalid int value: 'many'"),
        (
            "--allocation-candidates-generation-strategy random",
            "invalid choice: 'random' (choose from 'depth-first', 'breadth-first')",
        ),
    ],
)
def test_gunicorn_does_not_restart_after_invalid_options(text: str, reason: str) -> None:
    ended = run(text)
    assert ended.returncode == 3
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "OSC_PLACEMENT_SERVER_OPTIONS: " in ended.stderr.splitlines()[-1]
