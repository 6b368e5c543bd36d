# SPDX-License-Identifier: Apache-2.0
"""``placement host roll``."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from osc_placement.model import command_line
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.moving import shown
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from osc_placement.workflows.moving import document, roll_gate, roll_plan

#: Reasons that a table has for one host.
_MOST_REASONS = 3


class RollHosts(base.ReportShowOne):
    """Plan how to empty every host once, in legs, for an update that needs a reboot

    Moves no server itself. The hosts of a leg are emptied together, rebooted by a command of the
    operator, and filled again by the next leg, so that mostly only the servers of the first leg
    move twice. Each step is proven on the state after the former ones, as by placement host drain;
    server groups, zones, traits and --keep hold at each moment. Hosts that cannot be emptied have
    no leg; the reason is shown. "at least" is a bound: fewer legs are not enough for the hosts of
    the plan. Needs every record, as placement capacity show --keep.

    --script writes a script for each leg: it moves the servers, runs $REBOOT HOST for each host,
    waits for nova-compute, lets servers come again, and looks at the gate. The gate is open if
    each host that was rebooted is back: its nova-compute is up and enabled, Placement has its
    provider, and no move left allocations there. --continue looks at the gate, then plans the rest
    anew, by what is so now; --next writes only the script of the next leg. Changes nothing in the
    cloud.
    """

    names_database = False
    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        0: "the legs empty all hosts; with --verify-back: the gate is open",
        3: "some hosts have no leg, or the gate is closed",
        services.NOT_CHECKED: "unknown: a fact that can refuse a step was not checked",
    }
    example = """\
openstack placement host roll --all --per-zone 1 --keep 1 \\
    --plan-out roll.json --script legs
openstack placement host roll --continue roll.json --next \\
    --plan-out roll.json --script legs"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        shown.add_aggregate(parser, or_zone=True)
        arguments.add_flag(parser, "--all", "All hosts")
        arguments.add_repeated(parser, "--skip", "<host>", "A host that is not emptied.")
        arguments.add_count(
            parser,
            "--at-once",
            "The most hosts of a leg (default: 1, with --per-zone no limit)",
        )
        arguments.add_count(parser, "--per-zone", "The most hosts of a zone in a leg")
        shown.add_move_options(parser)
        arguments.add_file(parser, "--plan-out", "Write the plan to this file")
        arguments.add_file(
            parser,
            "--script",
            "Write a script for each leg to this directory; needs --plan-out",
            "<directory>",
        )
        arguments.add_file(
            parser, "--continue", "Look at the gate of this plan, and plan the rest anew"
        )
        arguments.add_flag(parser, "--next", "Write only the script of the next leg")
        arguments.add_flag(parser, "--verify-back", "Only look at the gate")
        shown.add_search_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.moving import document, roll_gate

        path: pathlib.Path | None = getattr(parsed_args, "continue")
        self._check_usage(parsed_args, path)
        former = None if path is None else document.load(path)
        record = roll_gate.RebootRecord() if path is None else roll_gate.read(path)
        options = shown.move_options(parsed_args, None if parsed_args.verify_back else former)
        cloud = shown.connected(self, nova_request.scheduler(options), former)
        if parsed_args.verify_back and former is not None:
            skipped = [*former.legs.skipped, *parsed_args.skip]
            with self.reading() as context:
                gate = roll_gate.verify(cloud.client, former, record, skipped, cloud.nova, context)
            fields = self._gate(gate)
        else:
            for used in filter(None, (path, parsed_args.plan_out)):
                roll_gate.check_rest(used)
            fields = self._planned(parsed_args, options, former, record, cloud)
        return tuple(fields), tuple(fields.values())

    def _check_usage(self, parsed_args: argparse.Namespace, path: pathlib.Path | None) -> None:
        selections = sum(map(bool, (parsed_args.aggregate, parsed_args.zone, parsed_args.all)))
        if path is not None and selections:
            self.usage_error("argument --continue: not allowed with hosts; the plan has them")
        if path is None and selections != 1:
            self.usage_error("give one of --aggregate, --zone, --all and --continue")
        for option in ("next", "verify_back"):
            if getattr(parsed_args, option) and path is None:
                self.usage_error(f"argument --{option.replace('_', '-')}: needs --continue")
        shown.check_plan_options(self, parsed_args, "verify_back")
        if parsed_args.next and parsed_args.script is None:
            self.usage_error("argument --next: needs --script")

    def _gate(self, gate: Sequence[roll_gate.ClosedGate]) -> dict[str, Any]:
        """Whether the hosts that were rebooted are back."""
        self.exit_code = 3 if gate else 0
        self.answer = [
            shown.table("Gate", [{"gate": "closed" if gate else "open"}]),
            shown.table("Not back", [closed._asdict() for closed in gate]),
        ]
        return {"open": not gate, "not_back": rows.lines(closed._asdict() for closed in gate)}

    def _planned(
        self,
        parsed_args: argparse.Namespace,
        options: document.DrainOptions,
        former: document.MovePlan | None,
        record: roll_gate.RebootRecord,
        cloud: shown.MoveServices,
    ) -> dict[str, Any]:
        """The plan and its files; or why the next leg must wait."""
        from osc_placement.nova.api import host_aggregates
        from osc_placement.workflows.cloud import named_aggregates
        from osc_placement.workflows.moving import flavor_queries, planner, roll_plan

        selection = _asked(parsed_args, former)
        hosts, aggregates = shown.hosts_of(self, selection.aggregates, selection.zone, cloud)
        listed = host_aggregates(cloud.opened)
        zones = named_aggregates.zones_of_hosts(listed, cloud.nova.compute)
        request = roll_plan.RollRequest(
            hosts,
            aggregates,
            selection,
            options,
            zones,
            flavor_queries.read(cloud.client, cloud.opened, cloud.scheduler),
            former,
            record,
            parsed_args.timeout,
        )
        with self.reading() as context:
            name = base.cloud_name(self.app)
            roll = planner.plan(cloud.client, request, cloud.nova, context, name)
        if roll.gate:
            return self._gate(roll.gate)
        self.exit_code = services.NOT_CHECKED if roll.caveats.doubts else 0
        if roll.plan.legs.left:
            self.exit_code = 3
        scripts = [str(path) for path in _written(parsed_args, roll.plan)]
        self.summary = [
            *services.caveat_lines(roll.caveats),
            *(f"Enough: one more empty host like {host}, in its aggregates" for host in roll.added),
            *(f"The script of the next leg: {command_line.quote(path)}" for path in scripts[:1]),
        ]
        self.answer = list(_tables(roll))
        return _fields(roll) | {"scripts": rows.lines(scripts)}


def _asked(parsed_args: argparse.Namespace, former: document.MovePlan | None) -> document.LegPlan:
    """The options of the legs: those of the plan, and those that are given now."""
    from osc_placement.workflows.moving import document

    before = (
        former.legs
        if former
        else document.LegPlan(aggregates=tuple(parsed_args.aggregate), zone=parsed_args.zone or "")
    )
    return dataclasses.replace(
        before,
        at_once=parsed_args.at_once or before.at_once,
        per_zone=parsed_args.per_zone or before.per_zone,
        skipped=tuple(dict.fromkeys((*before.skipped, *parsed_args.skip))),
    )


def _written(parsed_args: argparse.Namespace, plan: document.MovePlan) -> list[pathlib.Path]:
    """Write the plan and the scripts, whose paths are the answer."""
    from osc_placement.workflows.moving import document, roll_gate, script

    if parsed_args.plan_out is None:
        return []
    document.write(parsed_args.plan_out, plan)
    roll_gate.copy(getattr(parsed_args, "continue"), parsed_args.plan_out)
    if parsed_args.script is None:
        return []
    return script.write_legs(
        parsed_args.script, plan, parsed_args.plan_out, only_next=parsed_args.next
    )


def _legs(plan: document.MovePlan) -> Iterable[tuple[int, document.MovePlan]]:
    return enumerate(map(plan.leg, range(len(plan.legs.legs))), plan.legs.first)


def _few(reasons: Sequence[str]) -> list[str]:
    """The first reasons, and how many there are more: JSON has all."""
    more = len(reasons) - _MOST_REASONS
    return [*reasons[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])]


def _fields(roll: roll_plan.Roll) -> dict[str, Any]:
    plan = roll.plan
    legs = [
        {"leg": number, "hosts": list(leg.hosts), "moves": [*map(shown.move_fields, leg.moves)]}
        for number, leg in _legs(plan)
    ]
    return {
        "complete": not plan.legs.left,
        "legs": rows.lines(legs),
        "at_least": roll.at_least,
        "is_proven": roll.is_proven,
        "moves": len(plan.moves),
        "servers": len(roll.moved),
        "moves_per_server": round(roll.mean, 2),
        "most_moves_of_a_server": max(roll.moved.values(), default=0),
        "left": rows.lines(host.to_dict() for host in plan.legs.left),
        "enough_to_add": rows.lines(roll.added),
        "not_checked": rows.lines(plan.not_checked),
    }


def _tables(roll: roll_plan.Roll) -> Iterable[tables.Table]:
    from osc_placement.workflows.moving import document

    plan = roll.plan
    answer = {
        "legs": len(plan.legs.legs),
        "at least": roll.at_least,
        "hosts": len(plan.hosts),
        "moves": len(plan.moves),
        "to copy": document.size(plan.moves),
        "moves per server": f"{roll.mean:.2f}, at most {max(roll.moved.values(), default=0)}",
        "without a leg": len(plan.legs.left),
    }
    yield shown.table("Answer", [answer])
    legs = [
        {
            "leg": number,
            "hosts": ", ".join(leg.hosts),
            "moves": len(leg.moves),
            "waves": max((move.wave for move in leg.moves), default=0),
            "to copy": document.size(leg.moves),
        }
        for number, leg in _legs(plan)
    ]
    yield shown.table("Legs", legs)
    left = [{"without a leg": host.host, "why": _few(host.reasons)} for host in plan.legs.left]
    yield shown.table("Hosts without a leg", left)
