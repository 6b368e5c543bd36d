# SPDX-License-Identifier: Apache-2.0
"""``placement aggregate mirror`` copies nova's host aggregates to Placement.

It copies which hosts are members; with ``--ratios`` it copies the allocation ratios instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement.plan.guards import MANY, OVER_CAPACITY, RECORDED_NOVA
from osc_placement.v1.common import arguments, base, plan_command

if TYPE_CHECKING:
    from osc_placement.plan import result
    from osc_placement.plan.plan import ObservedPlan


class MirrorAggregates(plan_command.PlanCommand):
    """Make Placement's aggregates equal to nova's host aggregates

    Nova's scheduler filters hosts by Placement aggregates, for availability zones and tenant
    isolation. So each compute node must be a member of the Placement aggregates that mirror
    the host aggregates of its host. Nova updates them when it changes a host aggregate, but
    only logs a failure.

    The command adds missing memberships. It reports memberships that nova does not know, and
    removes them with --prune. It does not change providers that are not compute nodes, unless
    --provider names them, or aggregates that are not nova's. It skips hosts without a compute
    node, compute nodes without a provider, and cells that are down, and shows the reason.

    With --ratios, the command changes no membership: it sets the ratios in the metadata of nova's
    host aggregates (cpu_allocation_ratio and others) on the inventories of their hosts, the
    smallest one for a host in several. It skips invalid values. --max-percent then limits the
    capacity of each resource class.
    """

    required_feature = "aggregate generation"
    exit_codes = {
        **plan_command.EXIT_CODES,
        3: "a dry run with --detailed-exitcode found differences, and refused no change",
    }
    example = """\
openstack placement aggregate mirror --dry-run
openstack placement aggregate mirror --prune
openstack placement aggregate mirror --host-aggregate az1 --host cmp-0001 \\
    --host cmp-0002
openstack placement aggregate mirror --ratios --dry-run"""

    uses_nova = True
    guards = (MANY, OVER_CAPACITY, RECORDED_NOVA)
    limits_capacity = True

    #: Without the columns before and after: they have UUIDs, the reason the names of aggregates.
    table_columns: Sequence[str] = ("name", "status", "reason")

    #: Whether a run without --prune left memberships that nova does not know.
    _has_extra_members = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to mirror")
        arguments.add_hosts(group, "Only the compute nodes of", "Only this host aggregate")
        arguments.add_flag(
            group,
            "--prune",
            "Remove compute nodes from aggregates that their host is not a member of",
        )
        arguments.add_repeated(
            group,
            "--provider",
            "<provider>",
            "With --prune or --forget: remove this provider (name or UUID) too, although it"
            " is not a compute node, for example a neutron network segment.",
        )
        arguments.add_repeated(
            group,
            "--forget",
            "<uuid>",
            "Remove compute nodes from this aggregate, which mirrored a host aggregate that"
            " nova has deleted.",
        )
        arguments.add_flag(
            group,
            "--ratios",
            "Set the allocation ratios of the host aggregates, instead of the memberships",
        )
        self.add_change_options(parser)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.ratios:
            self.table_columns = plan_command.PlanCommand.table_columns
        for name in ("prune", "provider", "forget"):
            if parsed_args.ratios and getattr(parsed_args, name):
                self.usage_error(f"argument --ratios: not allowed with argument --{name}")

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.batch import aggregate_ratios, mirror

        if parsed_args.ratios:
            ratios = aggregate_ratios.AggregateRatioRequest(
                frozenset(parsed_args.host),
                tuple(parsed_args.host_aggregate),
                frozenset(parsed_args.allow),
            )
            return aggregate_ratios.plan_aggregate_ratios(
                run.client, run.services.nova, ratios, run.context
            )

        request = mirror.MirrorRequest(
            hosts=tuple(parsed_args.host),
            host_aggregates=tuple(parsed_args.host_aggregate),
            prune=parsed_args.prune,
            providers=tuple(parsed_args.provider),
            forget=tuple(parsed_args.forget),
            is_limited=parsed_args.max_percent is not None,
        )
        planned = mirror.plan_mirror(run.client, run.services.nova, request, run.context)
        self._has_extra_members = any(map(mirror.is_stale, planned.plan.skipped))
        return planned

    def finish(self, report: result.RunReport, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.plan import result

        answer = super().finish(report, parsed_args)
        detailed = parsed_args.dry_run and parsed_args.detailed_exitcode
        if self._has_extra_members and detailed and not self.exit_code:
            self.exit_code = result.Exit.CHANGES
        return answer
