"""``resource provider aggregate list | set | add | remove``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from osc_placement import errors, microversion
from osc_placement.client import lookup
from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import base, plan_command
from osc_placement.v1.options import arguments, selector
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.plan.plan import ObservedPlan


class ListAggregate(base.Lister):
    """List the aggregates that a resource provider is a member of"""

    writes = False
    required_feature = "provider aggregates"
    example = "openstack resource provider aggregate list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect()
        found = client.list_aggregates(lookup.provider_uuid(client, parsed_args.uuid))
        return ("uuid",), rows.names(found.aggregates)


class SetAggregate(base.Lister):
    """Replace the aggregates of a resource provider

    The provider becomes a member of the given aggregates and leaves all others. Without
    --aggregate it leaves all aggregates.
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
            help="The generation of the provider that the change is based on. If the provider"
            " has another generation, nothing is changed. Required from Placement API 1.19, and"
            " not supported before it.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        given = parsed_args.generation is not None
        client = self.connect([("aggregate generation", "--generation")] if given else [])
        if not given and microversion.supports(client.microversion, "aggregate generation"):
            raise errors.PlacementError("A generation must be specified.")
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        found = client.replace_aggregates(uuid, parsed_args.generation, parsed_args.aggregate)
        return ("uuid",), rows.names(found.aggregates)


class _AggregateBatch(plan_command.SelectorCommand):
    required_feature = "aggregate generation"
    recorded_arguments: ClassVar[Sequence[str]] = ("aggregate",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--aggregate",
            metavar="<aggregate>",
            action="append",
            required=True,
            help="UUID of the aggregate, or name or id of a nova host aggregate. May be repeated.",
        )
        selector.add_selector(parser)
        self.add_change_options(parser)

    def features(self, parsed_args: argparse.Namespace) -> Sequence[tuple[str, str]]:
        features = [*super().features(parsed_args)]
        if parsed_args.member_of or parsed_args.not_member_of:
            features.append(("member_of repeated", "--aggregate with --member-of"))
        return features


class AddAggregate(_AggregateBatch):
    """Add one or more resource providers to aggregates

    Other aggregates of the providers do not change. To mirror a nova host aggregate use
    "placement aggregate mirror", which also finds extra members.
    """

    example = """\
openstack resource provider aggregate add --aggregate <aggregate> \\
    --name-glob 'rack1-*'"""

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows import batch

        return batch.plan_aggregates(
            run.client, self.selected, add=parsed_args.aggregate, context=run.context
        )


class RemoveAggregate(_AggregateBatch):
    """Remove one or more resource providers from aggregates

    Other aggregates of the providers do not change.
    """

    recorded_arguments = ("aggregate", "max_percent")
    guards = (plan_guards.MANY,)
    limits_removals = True
    has_default_limit = False
    example = """\
openstack resource provider aggregate remove --aggregate <aggregate> \\
    --member-of <aggregate>"""

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows import batch

        return batch.plan_aggregates(
            run.client,
            self.selected,
            remove=parsed_args.aggregate,
            context=run.context,
            count_existing=parsed_args.max_percent is not None,
        )
