"""``resource provider usage show`` and ``resource usage show``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from osc_placement import microversion
from osc_placement.client import lookup
from osc_placement.v1 import base
from osc_placement.v1.options import arguments
from osc_placement.v1.output import cells, rows

if TYPE_CHECKING:
    from osc_placement.client import responses

COLUMNS = ("resource_class", "usage")


class ShowProviderUsage(base.Lister):
    """Show the used amount of each resource class of a resource provider"""

    writes = False
    example = "openstack resource provider usage show rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect()
        usages = client.list_usages(lookup.provider_uuid(client, parsed_args.uuid))
        return COLUMNS, rows.usage_rows(usages)


class ShowUsage(base.Lister):
    """Show the used amount of each resource class of a project or user

    With --long or --consumer-type the output has one row per consumer type and resource class,
    with the type and the number of its consumers. From Placement API 1.38 it has one row per
    consumer type without these options.
    """

    writes = False
    required_feature = "usages by project"
    example = """\
openstack resource usage show <project-uuid> --user-id <user-uuid>
openstack resource usage show <project-uuid> --consumer-type INSTANCE"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("project_id", metavar="<project-uuid>", help="ID of the project")
        parser.add_argument("--user-id", metavar="<user-uuid>", help="ID of the user")
        parser.add_argument(
            "--consumer-type",
            metavar="<consumer_type>",
            help="Only consumers of this type; 'unknown' selects consumers without a type, 'all'"
            " adds all types up." + arguments.since("consumer types"),
        )
        parser.add_argument(
            "--long",
            action="store_true",
            help="Show consumer types and counts also if no version is pinned."
            + arguments.since("consumer types"),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        typed = self.shows(parsed_args, "consumer_type", "consumer_count")
        options = {"--consumer-type": parsed_args.consumer_type, "--long": typed}
        client = self.connect(
            [("consumer types", option) for option, given in options.items() if given]
        )
        usages = client.show_usages(
            parsed_args.project_id, parsed_args.user_id, parsed_args.consumer_type
        )
        if any(options.values()):
            return (*COLUMNS, "consumer_type", "consumer_count"), list(_typed_rows(usages))
        if microversion.supports(client.microversion, "consumer types"):
            return COLUMNS, [(item.consumer_type, cells.PythonText(item.sent)) for item in usages]
        return COLUMNS, [row for usage in usages for row in rows.usage_rows(usage.resources)]


def _typed_rows(usages: Iterable[responses.Usage]) -> list[rows.Row]:
    return [
        (name, amount, usage.consumer_type, usage.consumer_count)
        for usage in usages
        for name, amount in usage.resources.items()
    ]
