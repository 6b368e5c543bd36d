"""``resource class create | delete | list | set | show``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement.v1 import arguments, base, rows


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="<name>", help="Name of the resource class")


class CreateResourceClass(base.Command):
    """Create a new custom resource class

    Its name begins with ``CUSTOM_`` and goes on with the letters A to Z, the digits and
    underscores. When it exists already that is an error.
    """

    required_feature = "resource classes"
    example = "openstack resource class create CUSTOM_BAREMETAL_GOLD"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().create_resource_class(parsed_args.name)


class SetResourceClass(base.Command):
    """Create a custom resource class, or make sure that there is one

    Unlike "resource class create" this succeeds when the class exists already.
    """

    required_feature = "resource class idempotent put"
    example = "openstack resource class set CUSTOM_BAREMETAL_GOLD"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().put_resource_class(parsed_args.name)


class DeleteResourceClass(base.Command):
    """Delete a custom resource class that no inventory is of"""

    required_feature = "resource classes"
    example = "openstack resource class delete CUSTOM_BAREMETAL_GOLD"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().delete_resource_class(parsed_args.name)


class ListResourceClass(base.Lister):
    """List all resource classes

    --long adds when each was last changed, with a request per class.
    """

    required_feature = "resource classes"
    example = "openstack resource class list -f value"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--long",
            action="store_true",
            help="Show when each was last changed." + arguments.since("last-modified"),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect([("last-modified", "--long")] if parsed_args.long else [])
        found = client.list_resource_classes()
        if parsed_args.long:
            return ("name", "updated"), rows.updated(found, client.resource_class_updated)
        return ("name",), rows.names(found)


class ShowResourceClass(base.ShowOne):
    """Show whether there is a resource class of this name"""

    required_feature = "resource classes"
    example = "openstack resource class show VCPU"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return ("name",), (self.connect().show_resource_class(parsed_args.name),)
