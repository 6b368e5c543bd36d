# SPDX-License-Identifier: Apache-2.0
"""``placement host retire``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement.plan.guards import MANY, RECORDED_NOVA
from osc_placement.v1.common import plan_command

if TYPE_CHECKING:
    from osc_placement.plan.plan import ObservedPlan


class RetireHosts(plan_command.PlanCommand):
    """Remove what is left of hosts that go for good

    Refuses a host while nova has a server or an open migration there, while nova-compute runs, or
    while a consumer has allocations there that are not left over of a finished evacuation. Then
    it prints the commands that delete the compute service: nova deletes the provider with it, and
    the memberships in host aggregates. Run the command again after them: what nova left is
    deleted in one plan - the allocations of evacuated servers on the host, then inventories,
    traits, aggregates and the providers of the tree, from the bottom up. Providers of Ironic nodes
    stay. To empty a host: "placement host drain".
    """

    required_feature = "nested providers"
    exit_codes = {
        **plan_command.EXIT_CODES,
        0: "nothing of the hosts is left in Placement; notes say what is to do in nova",
        6: "some hosts were refused, or nova still has their compute service",
    }
    example = """\
openstack placement host retire cmp-0001 --dry-run"""

    uses_nova = True
    guards = (MANY, RECORDED_NOVA)
    has_default_limit = False
    table_columns: Sequence[str] = ("name", "before", "after", "status", "reason")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "hosts",
            metavar="<host>",
            nargs="+",
            help="Nova's name of the host, or the name or UUID of its provider",
        )
        self.add_change_options(parser)

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.moving import retire

        return retire.plan_retire(run.client, run.services.nova, parsed_args.hosts, run.context)
