# SPDX-License-Identifier: Apache-2.0
"""A hook of cliff for the commands of osc-placement 4: on a file, nobody else may run them.

OpenStackClient may have commands of these names in its own tree one day. They know no file.
"""

from __future__ import annotations

import argparse

from cliff import hooks

from osc_placement import plugin
from osc_placement.v1.common import base


class LocalTarget(hooks.CommandHook):
    """Refuses the client's own command of this name while Placement is a file.

    The command would use the cloud: what is a rehearsal today would be a change on that day.
    """

    def before(self, parsed_args: argparse.Namespace) -> argparse.Namespace:
        """Errors: CommandRefused for a command of another package with a local target."""
        settings = base.settings_of(self.cmd.app)
        file = plugin.embedded_database(settings) or plugin.offline_configuration(settings)
        if file and not isinstance(self.cmd, base.PlacementCommand):
            raise base.CommandRefused(
                f"{self.cmd.cmd_name!r} is a command of this OpenStackClient itself, which would"
                f" use the cloud and not {file}; nothing was changed. Unset OSC_PLACEMENT_DATABASE"
                " and OSC_PLACEMENT_CONFIG for the cloud, or serve the file with"
                " osc-placement-server"
            )
        return parsed_args

    def get_parser(self, parser: argparse.ArgumentParser) -> None:
        """Change nothing."""

    def get_epilog(self) -> None:
        """Add nothing."""

    def after(self, parsed_args: argparse.Namespace, return_code: int) -> int:
        """Change nothing."""
        return return_code
