# SPDX-License-Identifier: Apache-2.0
"""``placement capacity balance``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.moving import shown
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.workflows.moving import balance_plan, document


class Balance(base.ReportShowOne):
    """Plan the fewest, then the smallest moves after which hosts are evenly used

    Moves no server itself. The spread is the highest share of use of a host less the lowest, by
    the scarcest resource class, among hosts that take each other's servers. The plan brings it
    within a limit. Each step has room while nova holds the allocations of source and target, and
    is proven with nova's own request; zones, aggregates, traits, devices and server groups are
    kept. Servers move that nova moves live, or that are stopped; each at most once. A host gets no
    server if it has what few hosts have and the server does not request, or if it is the last
    place for a flavor.

    "at least" is a bound: fewer moves are not enough. If the limit is not reached, the answer says
    why, and the plan leads to the smallest spread that was found. Needs every record, as placement
    capacity show --keep. Only reads.
    """

    names_database = False
    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        0: "the hosts are even, now or after the steps",
        3: "the limit is not reached; with --detailed-exitcode: or the plan has steps",
        services.NOT_CHECKED: "unknown: a fact that can refuse a step was not checked",
    }
    example = """\
openstack placement capacity balance --zone az1 --within 10%
openstack placement capacity balance --class MEMORY_MB --max-moves 20 \\
    --plan-out even.json --script even.sh"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        shown.add_aggregate(parser, or_zone=True)
        arguments.add_flag(parser, "--all", "All hosts (default)")
        parser.add_argument(
            "--class",
            metavar="<class>",
            default="",
            help="The resource class (default: the one of which most is used)",
        )
        add_within(parser)
        arguments.add_count(parser, "--max-moves", "The most moves (default: no limit)")
        shown.add_move_options(parser)
        arguments.add_flag(
            parser, "--detailed-exitcode", "End with exit code 3 if the plan has steps"
        )
        shown.add_plan_options(parser)
        arguments.add_file(parser, "--picture", "Write bars of the hosts as SVG to this file")
        arguments.add_file(parser, "--continue", "Only show what became of the steps of this plan")
        shown.add_search_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        shown.check_plan_options(self, parsed_args, "continue")
        if sum(map(bool, (parsed_args.aggregate, parsed_args.zone, parsed_args.all))) > 1:
            self.usage_error("give only one of --aggregate, --zone and --all")
        if getattr(parsed_args, "continue") is not None:
            return shown.followed(self, parsed_args)
        planned = self._planned(parsed_args)
        plan = planned.plan
        self.exit_code = services.NOT_CHECKED if planned.caveats.doubts else 0
        if not planned.is_reached or (parsed_args.detailed_exitcode and plan.moves):
            self.exit_code = 3
        if parsed_args.picture is not None:
            from osc_placement.v1.moving import bars

            bars.write(parsed_args.picture, planned)
        self.summary = [
            *services.caveat_lines(planned.caveats),
            *(f"Not counted: {text}" for text in planned.not_counted),
            *shown.write_plan(plan, parsed_args.plan_out, parsed_args.script),
        ]
        self.answer = [
            shown.table("Answer", [*map(_part_row, planned.parts)]),
            shown.table("Steps", [*map(shown.move_row, plan.moves)]),
            shown.table("Servers that stay", _stay(planned)),
        ]
        fields = _fields(planned)
        return tuple(fields), tuple(fields.values())

    def _planned(self, parsed_args: argparse.Namespace) -> balance_plan.BalancePlan:
        from osc_placement.workflows.moving import balance_plan, evenness, flavor_queries, planner

        options = shown.move_options(parsed_args)
        cloud = shown.connected(self, nova_request.scheduler(options))
        hosts, aggregates = shown.hosts_of(self, parsed_args.aggregate, parsed_args.zone, cloud)
        request = balance_plan.BalanceRequest(
            hosts,
            aggregates,
            getattr(parsed_args, "class"),
            parsed_args.within,
            parsed_args.max_moves or evenness.NEVER,
            options,
            flavor_queries.read(cloud.client, cloud.opened, cloud.scheduler),
            parsed_args.timeout,
            shown.anew(self, parsed_args),
        )
        with self.reading() as context:
            name = base.cloud_name(self.app)
            return planner.plan(cloud.client, request, cloud.nova, context, name)


def add_within(parser: argparse._ActionsContainer) -> None:
    """Add ``--within``."""
    parser.add_argument(
        "--within",
        metavar="<percent>",
        type=arguments.share,
        default=0.1,
        help="The largest spread, in percent of what a host may have used (default: 10%%)",
    )


def _hosts(part: balance_plan.PartBalance) -> Iterable[Mapping[str, Any]]:
    for name, before in part.before.items():
        after = part.after[name]
        yield {
            "host": name,
            "capacity": before.capacity,
            "used": before.used,
            "used_after": after.used,
            "percent": rows.percent(before.share),
            "percent_after": rows.percent(after.share),
        }


def _spreads(part: balance_plan.PartBalance) -> tuple[float, float]:
    from osc_placement.workflows.moving import evenness

    return (
        rows.percent(evenness.spread(part.before.values())),
        rows.percent(evenness.spread(part.after.values())),
    )


def _part_fields(part: balance_plan.PartBalance) -> dict[str, Any]:
    before, after = _spreads(part)
    answer = part.answer
    return {
        "class": part.name,
        "hosts": list(_hosts(part)),
        "spread": before,
        "spread_after": after,
        "least_spread": rows.percent(answer.least_spread),
        "reached": answer.is_reached,
        "moves": len(answer.steps),
        "at_least": answer.at_least,
        "is_smallest": answer.is_smallest,
        "why": part.why,
    }


def _part_row(part: balance_plan.PartBalance) -> dict[str, Any]:
    before, after = _spreads(part)
    answer = part.answer
    least = rows.percent(answer.least_spread)
    return {
        "hosts": len(part.before),
        "class": part.name,
        "spread": f"{before:g}%",
        "after": f"{after:g}%",
        "moves": len(answer.steps),
        "at least": "" if answer.at_least is None else answer.at_least,
        "why not": f"{part.why} (at least {least:g}%)" if part.why else "",
    }


def _stay(planned: balance_plan.BalancePlan) -> list[dict[str, Any]]:
    return [{"servers": number, "why": why} for why, number in sorted(planned.stay.items())]


def _fields(planned: balance_plan.BalancePlan) -> dict[str, Any]:
    plan: document.MovePlan = planned.plan
    return {
        "even": planned.is_reached,
        "parts": rows.lines(map(_part_fields, planned.parts)),
        "moves": rows.lines(map(shown.move_fields, plan.moves)),
        "stay": rows.lines(_stay(planned)),
        "not_counted": rows.lines(planned.not_counted),
        "not_checked": rows.lines(planned.caveats.doubts),
    }
