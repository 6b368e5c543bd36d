# SPDX-License-Identifier: Apache-2.0
"""``placement capacity make-room``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from osc_placement.model import command_line
from osc_placement.v1.common import arguments, base, nova_request, services
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
        arguments.add_flag(parser, "--script", "Also show the moves as a script")
        nova_request.add_options(parser, several=True, checks=False)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.cloud import cases
        from osc_placement.workflows.moving import room_plan, script

        nova_request.check(self, parsed_args)
        if len(parsed_args.flavor) != 1:
            self.usage_error("give one --flavor")
        (flavor,) = parsed_args.flavor
        client = self.connect()
        opened = nova_request.opened(self)
        nova = nova_request.reader_of(self, parsed_args, opened.nova)
        case = cases.read(opened, nova_request.server_options(parsed_args, flavor), nova.compute)
        (asked, *older) = case.requests
        request = room_plan.RoomRequest(
            case, parsed_args.count, parsed_args.max_moves, parsed_args.timeout
        )
        with self.reading() as context:
            plan = room_plan.plan(client, request, nova, context)
        not_checked = [*plan.not_checked, *asked.not_checked]
        if older:
            not_checked.append(f"the rules of other releases than {asked.title}")
        self.summary = [
            *(f"Assumed: {text}" for text in asked.assumptions),
            *(f"Not checked: {text}" for text in not_checked),
        ]
        self.exit_code = 3 if plan.moves is None else services.NOT_CHECKED if not_checked else 0
        fields = {
            "fits": plan.fits,
            "moves": None if plan.moves is None else rows.lines(_rows(plan)),
            "at_least": plan.at_least,
            "is_proven": plan.is_proven,
            "is_smallest": plan.is_smallest,
            "not_checked": rows.lines(not_checked),
        }
        self.answer = _tables(plan, flavor)
        if parsed_args.script and plan.moves is not None:
            lines = list(script.move_lines(plan.moves, _command(flavor, parsed_args.count)))
            fields["script"] = rows.Script(lines)
            self.answer += [tables.Table("Script", ("script",), [(line,) for line in lines])]
        return tuple(fields), tuple(fields.values())


def _command(flavor: str, count: int) -> str:
    """The command that looks again after a stop of the script."""
    options = (("--flavor", flavor), ("--count", str(count)))
    return command_line.line("placement capacity make-room", options=options)


def _rows(plan: room_plan.RoomPlan) -> list[dict[str, Any]]:
    return [
        {"server": move.server, "name": move.name, "from": move.source, "to": move.target}
        for move in plan.moves or ()
    ]


def _tables(plan: room_plan.RoomPlan, flavor: str) -> list[tables.Table]:
    number = "none found" if plan.moves is None else len(plan.moves)
    answer = (flavor, plan.fits, number, plan.at_least)
    shown = [tables.Table("Answer", ("flavor", "fits now", "moves", "at least"), [answer])]
    if plan.moves:
        listed = _rows(plan)
        cells = [tuple(row.values()) for row in listed]
        shown.append(tables.Table("Moves, one after the other", tuple(listed[0]), cells))
    return shown
