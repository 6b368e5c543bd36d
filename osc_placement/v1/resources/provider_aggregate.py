# SPDX-License-Identifier: Apache-2.0
"""``resource provider aggregate list | set | add | remove``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import lookup
from osc_placement.plan.guards import MANY
from osc_placement.v1.common import arguments, base, plan_command
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider
    from osc_placement.plan.plan import ObservedPlan


class ListAggregate(base.Lister):
    """List the aggregates that a resource provider is a member of"""

    writes = False
    required_feature = "provider aggregates"
    example = "openstack resource provider aggregate list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect()
        memberships = client.list_aggregates(lookup.provider_uuid(client, parsed_args.uuid))
        return ("uuid",), rows.names(memberships.aggregates)


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
        arguments.add_repeated(parser, "--aggregate", "<aggregate_uuid>", "UUID of an aggregate.")
        parser.add_argument(
            "--generation",
            metavar="<resource_provider_generation>",
            type=int,
            help="The generation of the provider that the change is based on. If the provider"
            " has another generation, nothing is changed. Required from Placement API 1.19, and"
            " not supported before it.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        has_generation = parsed_args.generation is not None
        client = self.connect([("aggregate generation", "--generation")] if has_generation else [])
        if not has_generation and microversion.supports(
            client.microversion, "aggregate generation"
        ):
            raise errors.PlacementError("A generation must be specified.")
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        memberships = client.replace_aggregates(uuid, parsed_args.generation, parsed_args.aggregate)
        return ("uuid",), rows.names(memberships.aggregates)


class _AggregateBatch(plan_command.SelectorCommand):
    required_feature = "aggregate generation"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--aggregate",
            "<aggregate>",
            "UUID of the aggregate, or name or id of a nova host aggregate.",
            required=True,
        )
        arguments.add_selector(parser)
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

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.batch import batch

        return batch.plan_aggregates(
            run.client, self.selected, add=parsed_args.aggregate, context=run.context
        )


class RemoveAggregate(_AggregateBatch):
    """Remove one or more resource providers from aggregates

    Other aggregates of the providers do not change.
    """

    guards = (MANY,)
    has_default_limit = False
    example = """\
openstack resource provider aggregate remove --aggregate <aggregate> \\
    --member-of <aggregate>"""

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.batch import batch

        return batch.plan_aggregates(
            run.client,
            self.selected,
            remove=parsed_args.aggregate,
            context=run.context,
            count_existing=parsed_args.max_percent is not None,
        )


def members(client: api.Client, aggregate_uuid: str) -> list[provider.Provider]:
    """The members of an aggregate, in the server's order. Raises PlacementError if empty."""
    providers = client.list_providers(member_of=[aggregate_uuid])
    if not providers:
        raise errors.PlacementError(
            f"No resource providers found in aggregate with uuid {aggregate_uuid}."
        )
    return providers


def apply_each(
    client: api.Client,
    providers: Sequence[provider.Provider],
    action: str,
    planned: ObservedPlan,
    rows_of: Callable[[Any], list[rows.Row]],
) -> list[rows.Row]:
    """Apply a plan; the rows of every provider after it, with its UUID as the first column.

    A failure does not stop the changes of other providers. Raises InvalidInput with one line
    per failure and their number.
    """
    from osc_placement.plan import apply, change, journal

    options = apply.Options(journal=journal.MemoryJournal())
    report = apply.apply_plan(client, planned, options)
    results = {item.subject.uuid: item for item in report.results}
    ordered = [results[item.uuid] for item in providers]
    failed = [item for item in ordered if not item.succeeded]
    _check(
        [_failure(action, item.subject.uuid, item.reason) for item in failed], action, len(ordered)
    )
    data: list[rows.Row] = []
    for item in ordered:
        state = item.found
        if state is None:
            state = planned.known[change.key(item.kind, item.subject)].state
        data += [(item.subject.uuid, *row) for row in rows_of(state)]
    return data


def limited(
    client: api.Client, planned: ObservedPlan, parsed_args: argparse.Namespace
) -> ObservedPlan:
    """The plan with the limit of ``--max-percent``. Errors: PlacementError above the limit."""
    from osc_placement.plan import removal_limit

    if parsed_args.max_percent is not None:
        planned = dataclasses.replace(planned, plan=removal_limit.with_capacity(planned.plan))
    planned = planned.stamped(client, allow=parsed_args.allow, max_percent=parsed_args.max_percent)
    refused = removal_limit.refusal(planned.plan)
    if refused:
        raise errors.PlacementError(f"Nothing was changed: {refused.text}")
    return planned


def preview_each(
    providers: Iterable[provider.Provider], action: str, preview: Callable[[str], list[rows.Row]]
) -> list[rows.Row]:
    """The rows of ``preview(uuid)`` for every provider; errors as in ``apply_each``."""
    from osc_placement.plan import workers

    def preview_one(item: provider.Provider) -> list[rows.Row] | str:
        try:
            return [(item.uuid, *row) for row in preview(item.uuid)]
        except errors.PlacementError as error:
            return _failure(action, item.uuid, str(error))

    previews = list(workers.each(preview_one, providers))
    _check([item for item in previews if isinstance(item, str)], action, len(previews))
    return [row for item in previews if isinstance(item, list) for row in item]


def _failure(action: str, uuid: str, reason: str) -> str:
    return f"Failed to {action} for resource provider {uuid}: {reason}."


def _check(failures: Sequence[str], action: str, total: int) -> None:
    if failures:
        summary = f"Failed to {action} for {len(failures)} of {total} resource providers."
        raise errors.InvalidInput([*failures, summary])
