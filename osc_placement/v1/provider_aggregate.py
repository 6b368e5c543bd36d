"""``resource provider aggregate list | set``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement import errors, microversion
from osc_placement.client import lookup
from osc_placement.v1 import arguments, base, rows


class ListAggregate(base.Lister):
    """List the aggregates that a resource provider is a member of"""

    required_feature = "provider aggregates"
    example = "openstack resource provider aggregate list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect()
        found = client.list_aggregates(lookup.provider_uuid(client, parsed_args.uuid))
        return ("uuid",), rows.names(found.aggregates)


class SetAggregate(base.Lister):
    """Make a resource provider a member of exactly these aggregates

    It leaves every aggregate that is not named; with none named it leaves all of them.
    """

    required_feature = "provider aggregates"
    example = """\
openstack resource provider aggregate set rack1-node7 \\
    --aggregate <aggregate_uuid> --generation 4"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument(
            "--aggregate",
            metavar="<aggregate_uuid>",
            action="append",
            default=[],
            help="UUID of an aggregate. May be repeated.",
        )
        parser.add_argument(
            "--generation",
            metavar="<resource_provider_generation>",
            type=int,
            help="The generation of the provider that the change was decided on; when it is"
            " another one meanwhile, nothing is changed. Required, and known, from Placement"
            " API 1.19.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        given = parsed_args.generation is not None
        client = self.connect([("aggregate generation", "--generation")] if given else [])
        if not given and microversion.supports(client.microversion, "aggregate generation"):
            raise errors.PlacementError("A generation must be specified.")
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        found = client.replace_aggregates(uuid, parsed_args.generation, parsed_args.aggregate)
        return ("uuid",), rows.names(found.aggregates)
