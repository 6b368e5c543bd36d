# SPDX-License-Identifier: Apache-2.0
"""OpenStackClient imports every command of every plugin: ours import nothing heavy."""

from __future__ import annotations

import subprocess
import sys

#: What is imported when a command runs that needs it, and what is deprecated.
HEAVY = (
    "osc_placement.http",
    "osc_placement.resources",
    "osc_placement.version",
    "osc_placement.server",
    "osc_placement.testing",
    "osc_placement.workflows.batch",
    "osc_placement.plan.apply",
    "osc_placement.plan.executor",
    "os_traits",
    "rich.progress",
    "jsonschema",
    "orjson",
    "webob",
    "yaml",
)

LOAD = """\
import importlib.metadata, sys
from openstackclient import shell
before = set(sys.modules)
import osc_placement.plugin
for entry in importlib.metadata.entry_points(group="openstack.placement.v1"):
    entry.load()
print(*sorted(set(sys.modules) - before))
"""


def test_loading_all_commands_imports_no_workflow_and_no_server() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOAD], check=True, capture_output=True, text=True, timeout=60
    )
    loaded = set(run.stdout.split())
    assert "osc_placement.v1.plan_command" in loaded
    assert sorted(loaded & set(HEAVY)) == []
