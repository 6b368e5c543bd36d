# SPDX-License-Identifier: Apache-2.0
"""Imports what most commands import; the process from which tests fork commands loads this module.

The fork server ignores a module that it cannot import.
"""

from __future__ import annotations

from osc_placement.v1.common import plan_command
from osc_placement.v1.plan import plan
from tests.support.peer import shell

MODULES = (plan_command, plan)

# The missing file ends this command after the plugins of openstack are imported.
shell.run(["--os-placement-database", "/nonexistent", "trait", "list"])
