# SPDX-License-Identifier: Apache-2.0
"""``placement status show`` shows a Placement service; ``placement options show`` prints help.

The second prints the options that many commands share, and that their own help only names.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from osc_placement import microversion
from osc_placement.v1.common import arguments, base, plan_command
from osc_placement.v1.output import help_text, rows
from osc_placement.v1.resources import candidate

if TYPE_CHECKING:
    from osc_placement.workflows.repair import status


class ShowStatus(base.ReportShowOne):
    """Show the version, size and missing features of a Placement service

    --check compares the service with the requirements of nova and of this client, and counts
    consumers without project and user. The exit code reports the most severe result, as that
    of placement-status and nova-status does. The output names what the API cannot show.
    """

    exit_codes = {
        0: "success; with --check: no warning and no failure",
        1: "an error; with --check also: a warning",
        2: "the command line is wrong; with --check also: a failure",
    }
    example = "openstack placement status show --check"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_flag(
            parser,
            "--check",
            "Check what an upgrade needs; exit with 0, 1 (warning) or 2 (failure)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.repair import status

        pinned = self.client().pinned
        observed = status.observe_status(self.connect(), check=parsed_args.check)
        fields: dict[str, Any] = {
            "target": observed.target,
            "server_versions": " to ".join(map(str, observed.server)),
            "client_versions": f"{microversion.MINIMUM} to {microversion.MAXIMUM}",
            "microversion": str(observed.in_use),
            "microversion_is": "pinned" if pinned else "negotiated",
            "resource_providers": observed.providers,
            "trees": observed.trees,
            "custom_traits": observed.custom_traits,
            "custom_resource_classes": observed.custom_resource_classes,
            "lacking": rows.lines(observed.lacking),
        }
        if parsed_args.check:
            checks = list(status.checks(observed))
            fields["checks"] = rows.amounts({item.name: _verdict(item) for item in checks})
            fields["not_checked"] = rows.lines(status.NOT_CHECKED)
            self.exit_code = max(item.verdict for item in checks)
        return tuple(fields), tuple(fields.values())


def _verdict(item: status.UpgradeCheck) -> str:
    return f"{item.verdict.name.lower()}: {item.details}".removesuffix(": ")


class ShowOptions(base.Command):
    """Show the options that many commands have

    The help of a command only names them.
    """

    writes = False
    auth_required = False
    names_database = False
    example = "openstack placement options show"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        plan_options = plan_command.PlanCommand(self.app, self.app_args)
        selection, change, query = (argparse.ArgumentParser() for _ in range(3))
        arguments.add_selector(selection)
        plan_options.add_change_options(change)
        candidate.add_query(query)
        one = ShowStatus(self.app, self.app_args).get_parser("")
        *listed, shell = help_text.FORMATTERS
        groups = [
            *(help_text.groups_of(item, help_text.SHARED) for item in (selection, change, query)),
            help_text.groups_of(plan_options.get_parser(""), listed),
            help_text.groups_of(one, [shell]),
        ]
        sys.stdout.write("\n".join(groups))
