# SPDX-License-Identifier: Apache-2.0
"""``trait`` and ``resource class``: ``create | delete | list | show``, and ``class set``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable

from osc_placement.client import api_errors
from osc_placement.v1.common import arguments, base
from osc_placement.v1.output import rows


class _NamedTrait(base.Command):
    required_feature = "traits"
    noun = "trait"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="<name>", help=f"Name of the {self.noun}")


class _NamedClass(_NamedTrait):
    required_feature = "resource classes"
    noun = "resource class"


def _updated(names: Iterable[str], read: Callable[[str], str | None]) -> base.Rows:
    """The names with the time of the last change; those deleted meanwhile are left out."""
    data: list[rows.Row] = []
    for name in names:
        with contextlib.suppress(api_errors.NotFound):
            data.append((name, read(name)))
    return ("name", "updated"), data


class CreateTrait(_NamedTrait):
    """Create a new custom trait

    A name is ``CUSTOM_`` and letters A to Z, digits and underscores. The command also
    succeeds if the trait exists.
    """

    example = "openstack trait create CUSTOM_GOLD"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().create_trait(parsed_args.name)


class DeleteTrait(_NamedTrait):
    """Delete a custom trait that no resource provider uses"""

    example = "openstack trait delete CUSTOM_GOLD"

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
        arguments.add_flag(
            parser, "--associated", "Only traits that at least one resource provider uses"
        )
        arguments.add_flag(
            parser, "--long", "Show the time of the last change." + arguments.since("last-modified")
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect([("last-modified", "--long")] if parsed_args.long else [])
        names = client.list_traits(parsed_args.name, True if parsed_args.associated else None)
        if parsed_args.long:
            return _updated(names, client.show_trait)
        return ("name",), rows.names(names)


class ShowTrait(_NamedTrait, base.ShowOne):
    """Show whether a trait exists"""

    writes = False
    example = "openstack trait show HW_CPU_X86_AVX2"

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        self.connect().show_trait(parsed_args.name)
        return ("name",), (parsed_args.name,)


class CreateResourceClass(_NamedClass):
    """Create a new custom resource class

    A name is ``CUSTOM_`` and letters A to Z, digits and underscores. The command fails if
    the class exists.
    """

    example = "openstack resource class create CUSTOM_BAREMETAL_GOLD"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().create_resource_class(parsed_args.name)


class SetResourceClass(_NamedClass):
    """Create a custom resource class if it does not exist

    Unlike "resource class create", the command succeeds if the class exists.
    """

    required_feature = "resource class idempotent put"
    example = "openstack resource class set CUSTOM_BAREMETAL_GOLD"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().put_resource_class(parsed_args.name)


class DeleteResourceClass(_NamedClass):
    """Delete a custom resource class that no inventory uses"""

    example = "openstack resource class delete CUSTOM_BAREMETAL_GOLD"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().delete_resource_class(parsed_args.name)


class ListResourceClass(base.Lister):
    """List all resource classes

    --long adds the time of the last change, with one request per class.
    """

    writes = False
    required_feature = "resource classes"
    example = "openstack resource class list -f value"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_flag(
            parser, "--long", "Show the time of the last change." + arguments.since("last-modified")
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect([("last-modified", "--long")] if parsed_args.long else [])
        names = client.list_resource_classes()
        if parsed_args.long:
            return _updated(names, client.resource_class_updated)
        return ("name",), rows.names(names)


class ShowResourceClass(_NamedClass, base.ShowOne):
    """Show whether a resource class exists"""

    writes = False
    example = "openstack resource class show VCPU"

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        return ("name",), (self.connect().show_resource_class(parsed_args.name),)
