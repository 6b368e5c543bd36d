# SPDX-License-Identifier: Apache-2.0
"""``placement upgrade check``."""

from __future__ import annotations

import argparse
import collections
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows, streams

if TYPE_CHECKING:
    from osc_placement.workflows.health import upgrade

_CODES = {"success": 0, "not checked": 0, "warning": 1, "failure": 2}
_ERROR = 255

_COLUMNS: rows.Columns[upgrade.UpgradeRow] = {
    "check": lambda item: item.title,
    "code": lambda item: item.code,
    "result": lambda item: str(item.outcome.result),
    "details": lambda item: rows.lines(item.outcome.details),
    "subjects": lambda item: rows.lines(item.outcome.subjects),
}


class CheckUpgrade(base.ReportLister):
    """Check what a newer release of nova will refuse in this cloud

    Compares nova's requests of the present and of the new release: which flavors, images and
    servers lose hosts, and why. Traits that nova-compute writes only after its own upgrade count as
    there. It also checks what stops a nova-compute at its start, and what only Placement decides
    after the upgrade. A failure stops the upgrade, or flavors would have no host; a warning needs a
    look; "not checked" needs an option that is not given. Run it before the upgrade of Placement
    and nova. Only reads.
    """

    #: ``run`` logs in, so that a login that fails is an error too, and no warning.
    auth_required = False
    exit_codes = {
        0: "every check is a success, or was not checked",
        1: "a warning; with --strict: something was not checked",
        2: "a failure, or the command line is wrong",
        _ERROR: "an error",
    }
    example = """\
openstack placement upgrade check --to 2026.2
openstack placement upgrade check --from 2025.1 --to 2026.2 \\
    --nova-conf nova.conf -f json"""

    table_columns = ("check", "result", "details")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            metavar="<release>",
            required=True,
            help="The release of nova after the upgrade, such as 2026.2",
        )
        parser.add_argument(
            "--from",
            metavar="<release>",
            dest="old",
            help="The present release of nova (default: the oldest with the version of its API)",
        )
        arguments.add_file(
            parser,
            "--nova-conf",
            "A nova.conf: its request filters, PCI aliases, devices and login to Placement",
        )
        arguments.add_flag(
            parser, "--strict", "Exit with 1 instead of 0 if something was not checked"
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """As every command, but exit with 255 for an error."""
        try:
            return super().run(parsed_args)
        except Exception as error:
            if self.app_args is not None and getattr(self.app_args, "debug", False):
                raise
            streams.write_message(str(error))
            return _ERROR

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.nova import api, compute_options, pci
        from osc_placement.scheduling import nova_options
        from osc_placement.workflows.health import upgrade

        if not self.is_local:
            services.authenticate(self.app, "reads Placement and nova")
        cloud = services.NovaServices(self)
        opened = services.or_reasons(self)
        options = nova_options.SchedulerOptions()
        configuration = compute = None
        if parsed_args.nova_conf is not None:
            refused: list[str] = []
            options = nova_options.read_nova_conf(parsed_args.nova_conf, options, refused)
            configuration = pci.read_device_spec(parsed_args.nova_conf, refused)
            compute = compute_options.read(parsed_args.nova_conf, refused)
        version: str | errors.NotKnown
        try:
            version = api.maximum_version(opened.require_nova())
        except errors.NotKnown as error:
            version = error
        step = upgrade.step_of(version, parsed_args.old, parsed_args.to, options, compute)
        with self.reading() as context:
            reader = upgrade.UpgradeReader(
                opened,
                lambda: cloud.glance,
                lambda: cloud.has_service_role(parsed_args.nova_conf),
                step,
                configuration,
                context,
            )
            checked = upgrade.check_upgrade(reader, opened)
        counts = collections.Counter(str(item.outcome.result) for item in checked)
        self.exit_code = max(_CODES[result] for result in counts)
        if not self.exit_code and parsed_args.strict and counts["not checked"]:
            self.exit_code = 1
        self.summary = [
            f"On {opened.client.target}, from {step.titles}: "
            + ", ".join(f"{counts[result]} {result}" for result in _CODES if counts[result])
        ]
        return rows.listing(_COLUMNS, checked)
