"""``trait create | delete | list | show``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement.v1 import base
from osc_placement.v1.options import arguments
from osc_placement.v1.output import rows


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="<name>", help="Name of the trait")


class CreateTrait(base.Command):
    """Create a new custom trait

    A name is ``CUSTOM_`` and letters A to Z, digits and underscores. The command also
    succeeds if the trait exists.
    """

    required_feature = "traits"
    example = "openstack trait create CUSTOM_GOLD"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().create_trait(parsed_args.name)


class DeleteTrait(base.Command):
    """Delete a custom trait that no resource provider uses"""

    required_feature = "traits"
    example = "openstack trait delete CUSTOM_GOLD"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().delete_trait(parsed_args.name)


class ListTrait(base.Lister):
    """List traits

    --long adds the time of the last change, with one request per trait.
    """

    writes = False
    required_feature = "traits"
    example = """\
openstack trait list --name startswith:CUSTOM_
openstack trait list --associated"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--name",
            metavar="<name>",
            help="Only traits with this prefix, as in ``startswith:CUSTOM_``, or from this"
            " list, as in ``in:HW_CPU_X86_AVX,HW_CPU_X86_SSE``",
        )
        parser.add_argument(
            "--associated",
            action="store_true",
            help="Only traits that at least one resource provider uses",
        )
        parser.add_argument(
            "--long",
            action="store_true",
            help="Show the time of the last change." + arguments.since("last-modified"),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect([("last-modified", "--long")] if parsed_args.long else [])
        found = client.list_traits(parsed_args.name, True if parsed_args.associated else None)
        if parsed_args.long:
            return ("name", "updated"), rows.updated(found, client.show_trait)
        return ("name",), rows.names(found)


class ShowTrait(base.ShowOne):
    """Show whether a trait exists"""

    writes = False
    required_feature = "traits"
    example = "openstack trait show HW_CPU_X86_AVX2"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        self.connect().show_trait(parsed_args.name)
        return ("name",), (parsed_args.name,)
