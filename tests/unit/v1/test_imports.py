# SPDX-License-Identifier: Apache-2.0
"""OpenStackClient imports every command of every plugin: ours import nothing heavy."""

from __future__ import annotations

import subprocess
import sys

#: What is imported when a command runs that needs it, and what is deprecated.
HEAVY = (
    "osc_placement.http",
    "osc_placement.version",
    "osc_placement.server",
    "osc_placement.testing",
    "osc_placement.workflows.batch.batch",
    "osc_placement.client.transport",
    "osc_placement.client.api",
    "osc_placement.model.candidate",
    "osc_placement.plan.plan",
    "osc_placement.plan.kinds",
    "osc_placement.plan.progress",
    "osc_placement.plan.apply",
    "osc_placement.plan.executor",
    "os_traits",
    "osc_placement.v1.moving.bars",
    "rich.progress",
    "xml.sax",
    "jsonschema",
    "orjson",
    "webob",
    "yaml",
)

#: First the commands that upstream's plugin has too.
LOAD = """\
import importlib.metadata, sys
import cliff._argparse, cliff.columns, openstackclient.shell, osc_lib.command.command
before = set(sys.modules)
for group in ("openstack.placement.v1", "openstack.osc_placement.v1"):
    for point in importlib.metadata.entry_points(group="openstack.cli.extension"):
        if point.module.startswith("osc_placement."):
            point.load()
    for point in importlib.metadata.entry_points(group=group):
        point.load()
    print(*sorted(set(sys.modules) - before))
"""


def test_the_commands_import_no_workflow_and_no_server_and_the_plain_ones_nothing_else() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOAD], check=True, capture_output=True, text=True, timeout=60
    )
    plain, loaded = (set(line.split()) for line in run.stdout.splitlines())
    assert "osc_placement.v1.common.plan_command" in loaded
    assert sorted(loaded & set(HEAVY)) == []
    # Modules that are part of the interpreter take no time.
    new = plain - set(sys.builtin_module_names)
    assert "osc_placement.v1.resources.provider" in new
    heavy = ("osc_placement.engine", "osc_placement.server", "osc_placement.workflows")
    assert not [name for name in new if name.startswith(heavy)]
    assert "osc_placement.client.transport" not in new
    assert not [name for name in new if not name.startswith("osc_placement")]
