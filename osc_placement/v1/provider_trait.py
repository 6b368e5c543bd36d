"""``resource provider trait list | set | delete``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.client import lookup, retry
from osc_placement.v1 import aggregate_members, arguments, base, rows

if TYPE_CHECKING:
    from osc_placement.client import api, responses


class ListResourceProviderTrait(base.Lister):
    """List the traits of a resource provider"""

    required_feature = "traits"
    example = "openstack resource provider trait list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect()
        found = client.list_provider_traits(lookup.provider_uuid(client, parsed_args.uuid))
        return ("name",), rows.names(found.traits)


class SetResourceProviderTrait(base.Lister):
    """Give a resource provider exactly these traits

    Every trait that is not named is taken away. To change one trait and leave the others,
    use "resource provider trait add" and "remove".
    """

    required_feature = "traits"
    example = """\
openstack resource provider trait set rack1-node7 \\
    --trait HW_CPU_X86_AVX2 --trait CUSTOM_GOLD"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "uuid",
            metavar="<provider>",
            help="Name or UUID of the resource provider; with --aggregate, UUID of an aggregate",
        )
        parser.add_argument(
            "--trait",
            metavar="<trait>",
            action="append",
            default=[],
            help="Name of the trait. May be repeated.",
        )
        parser.add_argument(
            "--aggregate",
            action="store_true",
            help="Give these traits to every provider that is a member of the aggregate.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect()
        traits = list(dict.fromkeys(parsed_args.trait))
        if not parsed_args.aggregate:
            uuid = lookup.provider_uuid(client, parsed_args.uuid)
            return ("name",), _set(client, uuid, traits)
        from osc_placement.workflows.batch import plan

        about = aggregate_members.members(client, parsed_args.uuid)
        planned = plan.plan_set_traits(client, about, traits)
        data = aggregate_members.settle(client, about, "set traits", planned, rows.names)
        return ("resource_provider", "name"), data


class DeleteResourceProviderTrait(base.Command):
    """Take all traits from a resource provider

    Nothing guards this against others who change traits of the same provider.
    """

    required_feature = "traits"
    example = "openstack resource provider trait delete rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.connect()
        client.delete_provider_traits(lookup.provider_uuid(client, parsed_args.uuid))


def _set(client: api.Client, uuid: str, traits: Sequence[str]) -> list[rows.Row]:
    def attempt() -> responses.ProviderTraits:
        generation = client.list_provider_traits(uuid).generation
        return client.replace_provider_traits(uuid, generation, traits)

    return rows.names(retry.on_conflict(attempt).traits)
