"""``placement aggregate ratios``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import plan_command, services
from osc_placement.v1.options import nova_hosts

if TYPE_CHECKING:
    from osc_placement.plan.plan import ObservedPlan


class SetAggregateRatios(plan_command.PlanCommand):
    """Set the allocation ratios of nova's host aggregates on their hosts

    Reads cpu_allocation_ratio, ram_allocation_ratio and disk_allocation_ratio from the metadata
    of nova's host aggregates, and sets them on the inventories of VCPU, MEMORY_MB and DISK_GB of
    the member hosts. A host in several aggregates gets the smallest value, as with nova's old
    filters.

    The command skips invalid values, classes that a provider does not have, and hosts without
    a provider, and shows the reason.
    """

    guards = (plan_guards.OVER_CAPACITY, plan_guards.RECORDED_NOVA, plan_guards.MANY)
    limits_removals = True
    limits_capacity = True
    has_default_limit = False
    limited = "the capacity of a resource class, summed over the hosts that get ratios"
    recorded_arguments = ("host", "host_aggregate", "max_percent")
    example = """\
openstack placement aggregate ratios --dry-run
openstack placement aggregate ratios --host-aggregate az1"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("which hosts")
        nova_hosts.add_hosts(group, "Only the hosts of this host aggregate")
        services.add_recording(group)
        self.add_change_options(parser)

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows import aggregate_ratios

        request = aggregate_ratios.AggregateRatioRequest(
            frozenset(parsed_args.host),
            tuple(parsed_args.host_aggregate),
            frozenset(parsed_args.allow),
        )
        return aggregate_ratios.plan_aggregate_ratios(
            run.client, run.services.nova, request, run.context
        )
