# SPDX-License-Identifier: Apache-2.0
"""``placement allocation heal``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement.model import name
from osc_placement.plan.guards import RECORDED_NOVA
from osc_placement.v1.common import arguments, plan_command, services

if TYPE_CHECKING:
    from osc_placement.plan.plan import ObservedPlan


class HealAllocations(plan_command.PlanCommand):
    """Create the missing allocations of servers

    For servers that run without allocations: after the caching scheduler, a failed evacuation, or
    the restore of a database. Each server gets the resources that its flavor and image request, on
    its host, with its project and user. A consumer with a wrong or placeholder owner gets the
    owner of its server. The command removes nothing: "placement allocation audit" finds and
    repairs wrong allocations.

    The command skips a server that is moving, is on no host, does not fit, or could use one
    of several devices, which only its host knows, and shows the reason. --assign or
    --strategy decide which device it uses; the result shows a guess. A server whose host nova's
    scheduler would not choose may have skipped it (OSSA-2026-022): the reason says so, and
    --only-allowed leaves it out.
    """

    required_feature = "consumer generation"
    exit_codes = {
        **plan_command.EXIT_CODES,
        3: "a dry run with --detailed-exitcode found servers to heal",
        6: "some servers without allocations were refused, or a write failed",
    }
    example = """\
openstack placement allocation heal --dry-run
openstack placement allocation heal --max-count 100
openstack placement allocation heal --host cmp-0001 --strategy spread"""

    uses_nova = True
    guards = (RECORDED_NOVA,)

    #: The reason contains what a server gets, with names; before and after contain UUIDs.
    table_columns = ("name", "status", "reason")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to heal")
        arguments.add_repeated(group, "--server", "<server>", "Only this server (name or UUID).")
        arguments.add_hosts(
            group, "Only servers on", "Only servers on hosts of this host aggregate"
        )
        group.add_argument("--instance", dest="server", action="append", help=argparse.SUPPRESS)
        arguments.add_flag(
            group,
            "--only-allowed",
            "Leave out servers whose host nova's scheduler would not choose: another zone, or a"
            " missing trait or host aggregate",
        )
        services.add_check_owners(group)
        services.add_skip_port_allocations(group)
        group = parser.add_argument_group("how to heal")
        group.add_argument(
            "--consumer-type",
            metavar="<type>",
            type=_consumer_type,
            default=None,
            help="The type of new consumers (default: INSTANCE, from Placement API 1.38)",
        )
        group.add_argument(
            "--strategy",
            choices=("pack", "spread"),
            help="If a server could use several devices, choose the fullest (pack) or the"
            " emptiest (spread)",
        )
        arguments.add_file(
            group,
            "--assign",
            'JSON file with the providers of servers: {"<server>": ["<provider>", ...]}',
        )
        self.add_change_options(parser)

    def features(self, parsed_args: argparse.Namespace) -> Sequence[tuple[str, str]]:
        return [("consumer types", "--consumer-type")] if parsed_args.consumer_type else []

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.model import allocation
        from osc_placement.workflows.repair.allocations import heal, heal_request

        assigned = heal.read(parsed_args.assign) if parsed_args.assign else {}
        nova = run.services.nova
        within = heal_request.from_options(
            nova,
            hosts=parsed_args.host,
            host_aggregates=parsed_args.host_aggregate,
            servers=parsed_args.server,
        )
        request = heal_request.HealRequest(
            within,
            parsed_args.consumer_type or allocation.INSTANCE,
            heal_request.HealOptions(parsed_args.strategy, assigned),
            check_owners=parsed_args.check_owners,
            only_allowed=parsed_args.only_allowed,
        )
        return heal.plan_healing(
            run.client, nova, request, run.context, neutron=run.services.neutron_for_ports
        )


def _consumer_type(text: str) -> str:
    """An argparse type. Without it Placement would refuse the type once per server."""
    if not name.is_symbol(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a consumer type: use A to Z, 0 to 9 and _"
        )
    return text
