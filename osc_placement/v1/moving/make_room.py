# SPDX-License-Identifier: Apache-2.0
"""``placement capacity make-room``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.moving import shown
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from osc_placement.workflows.moving import room_plan


class MakeRoom(base.ReportShowOne):
    """Show the fewest, then the smallest live moves after which a flavor fits

    Moves no server itself. Each move has room while nova holds the allocations of source and
    target. Servers move that are active or paused, in no other move, and in no server group with
    affinity; each at most once. Traits, zones, aggregates and server groups are kept. "at least"
    is a bound: fewer moves are not enough. Needs every record, as placement capacity show --keep.
    Only reads.
    """

    names_database = False
    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        0: "the flavor fits, now or after the moves",
        3: "no such moves were found",
        services.NOT_CHECKED: "unknown: a fact was not checked that can turn the answer",
    }
    example = """\
openstack placement capacity make-room --flavor m1.large
openstack placement capacity make-room --flavor m1.large --max-moves 5"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_count(
            parser, "--count", "How many servers of the flavor (default: 1)", default=1
        )
        arguments.add_count(
            parser, "--max-moves", "The most moves to look for (default: 10)", default=10
        )
        arguments.add_count(
            parser, "--timeout", "How long to search (default: 60)", "<seconds>", default=60
        )
        shown.add_plan_options(parser)
        arguments.add_file(parser, "--continue", "Only show what became of the steps of this plan")
        nova_request.add_options(parser, several=True, checks=False)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        shown.check_plan_options(self, parsed_args, "continue")
        if getattr(parsed_args, "continue") is not None:
            return shown.followed(self, parsed_args)
        nova_request.check(self, parsed_args)
        if len(parsed_args.flavor) != 1:
            self.usage_error("give one --flavor")
        return self._planned(parsed_args)

    def _planned(self, parsed_args: argparse.Namespace) -> base.Fields:
        """The plan, and its files."""
        from osc_placement.scheduling.answer import Caveats
        from osc_placement.workflows.cloud import cases
        from osc_placement.workflows.moving import planner, room_plan

        (flavor,) = parsed_args.flavor
        server = nova_request.server_options(parsed_args, flavor)
        cloud = shown.connected(self, server.scheduler)
        nova = cloud.nova
        case = cases.read(nova_request.opened(self), server, nova.compute)
        (first, *older) = case.requests
        request = room_plan.RoomRequest(
            case,
            parsed_args.count,
            parsed_args.max_moves,
            parsed_args.timeout,
            shown.anew(self, parsed_args),
        )
        with self.reading() as context:
            made = planner.plan(cloud.client, request, nova, context, base.cloud_name(self.app))
        of_others = (f"the rules of other releases than {first.title}",) if older else ()
        caveats = made.caveats + first.caveats + Caveats(of_others)
        answer = made.answer
        self.exit_code = (
            3 if answer.steps is None else services.NOT_CHECKED if caveats.doubts else 0
        )
        self.summary = [
            *services.caveat_lines(caveats),
            *shown.write_plan(made.plan, parsed_args.plan_out, parsed_args.script),
        ]
        self.answer = _tables(made, flavor)
        moves = rows.lines(map(shown.move_fields, made.plan.moves))
        fields = {
            "fits": made.fits,
            "moves": None if answer.steps is None else moves,
            "at_least": answer.at_least,
            "is_proven": answer.is_proven,
            "is_smallest": answer.is_smallest,
            "not_checked": rows.lines(caveats.doubts),
        }
        return tuple(fields), tuple(fields.values())


def _tables(made: room_plan.RoomPlan, flavor: str) -> list[tables.Table]:
    number = "none found" if made.answer.steps is None else len(made.plan.moves)
    answer = (flavor, made.fits, number, made.answer.at_least)
    return [
        tables.Table("Answer", ("flavor", "fits now", "moves", "at least"), [answer]),
        shown.table("Steps", [*map(shown.move_row, made.plan.moves)]),
    ]
