# SPDX-License-Identifier: Apache-2.0
"""``placement host drain``."""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING, Any

from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.moving import shown
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from osc_placement.workflows.moving import document, follow, plan


class DrainHosts(base.ReportShowOne):
    """Plan how to empty hosts, each step proven on the state after the former ones

    Moves no server itself. The plan has a target for each server of the hosts, in waves: a wave
    begins when the one before has ended, and each of its steps has room while nova holds the
    allocations of source and target. Server groups, zones, traits, devices and aggregates are
    kept, and nothing else in the cloud changes. Targets are spread; hosts with devices, or traits
    of flavors, that few hosts have and the server does not request, come last.

    If servers stay, the answer has what prevents each of them, the smallest changes after which
    it could move, and the most of these hosts that can be emptied.

    --script writes the steps as a script that looks at each server before and after its step, and
    can be run again at any time. --continue reads what became of a plan, and plans the rest anew.
    --verify-empty says whether nova and Placement agree that the hosts are empty, and that no
    server comes there. A server that moves now, or that nova does not move, has no step; the
    reason is shown. Changes nothing in the cloud.
    """

    names_database = False
    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        0: "the steps empty the hosts; with --verify-empty: the hosts are empty",
        3: "some servers stay; with --verify-empty: something is left",
        services.NOT_CHECKED: "unknown: a fact that can refuse a step was not checked",
    }
    example = """\
openstack placement host drain cmp-1 --plan-out drain.json --script drain.sh
openstack placement host drain --continue drain.json --verify-empty"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        shown.add_hosts(parser)
        shown.add_aggregate(parser, or_zone=True)
        shown.add_move_options(parser)
        shown.add_plan_options(parser)
        arguments.add_file(
            parser,
            "--continue",
            "Show what became of this plan, and plan the rest anew, with the options of the plan"
            " and those that are given now",
        )
        arguments.add_flag(
            parser, "--verify-empty", "Show what is left on the hosts, by nova and by Placement"
        )
        arguments.add_flag(
            parser, "--back", "Also show the commands that bring the hosts back into service"
        )
        shown.add_search_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.moving import document

        self._check_usage(parsed_args)
        path: pathlib.Path | None = getattr(parsed_args, "continue")
        former = None if path is None else document.load(path)
        # The rules of nova do not count for what is left on a host.
        options = shown.move_options(parsed_args, None if parsed_args.verify_empty else former)
        cloud = shown.connected(self, nova_request.scheduler(options), former)
        if parsed_args.verify_empty:
            again = former.command_to_continue(path) if former and path else ""
            fields = self._verified(parsed_args.hosts, former, again, cloud)
        else:
            drain = self._planned(parsed_args, options, former, cloud)
            fields = self._shown(parsed_args, drain, cloud)
            if former is not None:
                fields = self._followed(former, drain) | fields
        return tuple(fields), tuple(fields.values())

    def _check_usage(self, parsed_args: argparse.Namespace) -> None:
        is_continued = getattr(parsed_args, "continue") is not None
        are_named = bool(parsed_args.hosts or parsed_args.aggregate or parsed_args.zone)
        if is_continued and are_named:
            self.usage_error("argument --continue: not allowed with hosts; the plan has them")
        if not is_continued and not are_named:
            self.usage_error("name a host, or give --aggregate, --zone or --continue")
        if parsed_args.verify_empty and (parsed_args.aggregate or parsed_args.zone):
            self.usage_error("argument --verify-empty: give --continue, or name the hosts")
        shown.check_plan_options(self, parsed_args, "verify_empty")

    def _verified(
        self,
        named: Sequence[str],
        former: document.MovePlan | None,
        again: str,
        cloud: shown.MoveServices,
    ) -> dict[str, Any]:
        """What is left on the hosts; ``again`` plans the rest of their plan."""
        from osc_placement.workflows.moving import follow

        hosts = dict.fromkeys(named, "")
        if former is not None:
            hosts = dict(zip(former.nodes, former.hosts, strict=True))
        with self.reading() as context:
            states = follow.verify_empty(cloud.client, hosts, cloud.nova, context, again)
        left = [leftover for state in states for leftover in state.left]
        commands = dict.fromkeys(leftover.command for leftover in left if leftover.command)
        self.answer = [
            shown.table("Hosts", [_host_row(state) for state in states]),
            shown.table("Left", [_left_row(leftover) for leftover in left]),
            tables.Table("Commands", tables.COMMANDS, [(text,) for text in commands]),
        ]
        self.exit_code = 0 if all(state.is_empty for state in states) else 3
        if all(state.is_gone for state in states):
            self.summary = ["Nothing is left: neither nova nor Placement has the hosts"]
        return {
            "hosts": rows.lines(map(_host_row, states)),
            "left": rows.lines(leftover._asdict() for leftover in left),
        }

    def _planned(
        self,
        parsed_args: argparse.Namespace,
        options: document.DrainOptions,
        former: document.MovePlan | None,
        cloud: shown.MoveServices,
    ) -> plan.Drain:
        """The plan."""
        from osc_placement.workflows.moving import flavor_queries, plan, planner

        named, aggregates = shown.hosts_of(self, parsed_args.aggregate, parsed_args.zone, cloud)
        goal = plan.DrainRequest(
            [*parsed_args.hosts, *named] if former is None else former.nodes,
            aggregates,
            options,
            flavor_queries.read(cloud.client, cloud.opened, cloud.scheduler),
            former,
            parsed_args.timeout,
        )
        with self.reading() as context:
            name = base.cloud_name(self.app)
            return planner.plan(cloud.client, goal, cloud.nova, context, name)

    def _followed(self, former: document.MovePlan, drain: plan.Drain) -> dict[str, Any]:
        """What became of the plan that is continued, before the new plan."""
        from osc_placement.workflows.moving import follow

        steps = follow.follow(former, drain.read.cloud)
        of_plan = shown.table("Steps of the plan", [shown.followed_row(step) for step in steps])
        changed = [f"Changed: {text}" for text in follow.changes(former, drain.plan)]
        self.answer, self.summary = [of_plan, *self.answer], [*changed, *self.summary]
        return {"steps": rows.lines(map(shown.followed_fields, steps))}

    def _shown(
        self, parsed_args: argparse.Namespace, drain: plan.Drain, cloud: shown.MoveServices
    ) -> dict[str, Any]:
        """A plan, its files, and the way back."""
        from osc_placement.workflows.moving import script

        self.exit_code = services.NOT_CHECKED if drain.caveats.doubts else 0
        if not drain.plan.is_complete:
            self.exit_code = 3
        self.summary = [
            *services.caveat_lines(drain.caveats),
            *shown.write_plan(drain.plan, parsed_args.plan_out, parsed_args.script),
        ]
        fields, answer = _fields(drain), _tables(drain)
        if parsed_args.back:
            lines = list(script.back_lines(drain.plan, cloud.nova.compute))
            fields["back"] = rows.Script(lines)
            answer.append(tables.Table("Back", tables.COMMANDS, [(line,) for line in lines]))
        self.answer = answer
        return fields


def _host_row(state: follow.HostState) -> dict[str, Any]:
    return {"host": state.host, "empty": state.is_empty, "gone": state.is_gone}


def _left_row(leftover: follow.Leftover) -> dict[str, Any]:
    return {
        "left": leftover.name or leftover.uuid,
        "where": f"on {leftover.host}",
        "why": leftover.reason,
    }


def _blocked_fields(drain: plan.Drain) -> list[dict[str, Any]]:
    return [
        {
            "server": server.server,
            "name": server.name,
            "host": server.host,
            "reasons": list(server.reasons),
            "changes": drain.changes_of(server),
        }
        for server in drain.plan.blocked
    ]


def _blocked_rows(drain: plan.Drain) -> list[dict[str, Any]]:
    """Each reason once, with the servers that it holds."""
    by_reason: dict[tuple[str, ...], dict[str, Any]] = {}
    for server in drain.plan.blocked:
        changes = drain.changes_of(server)
        key = (server.host, *server.reasons, "", *changes)
        row = {"stay": [], "where": f"on {server.host}", "why": server.reasons, "changes": changes}
        by_reason.setdefault(key, row)["stay"].append(server.name or server.server)
    return list(by_reason.values())


def _most(drain: plan.Drain) -> dict[str, Any]:
    """The most hosts that can be emptied; None if all or only one is asked for."""
    if drain.most is None:
        return {"most": None, "most_is_proven": None}
    return {"most": rows.lines(drain.most.hosts), "most_is_proven": drain.most.is_proven}


def _fields(drain: plan.Drain) -> dict[str, Any]:
    planned = drain.plan
    return {
        "complete": planned.is_complete,
        "hosts": rows.lines(planned.hosts),
        "disabled_before": rows.lines(host.to_dict() for host in planned.disabled),
        "moves": rows.lines(map(shown.move_fields, planned.moves)),
        "blocked": rows.lines(_blocked_fields(drain)),
        **_most(drain),
        "not_checked": rows.lines(planned.not_checked),
    }


def _tables(drain: plan.Drain) -> list[tables.Table]:
    from osc_placement.workflows.moving import document

    planned = drain.plan
    # A yes is as good as the weakest fact beside it.
    is_open = planned.is_complete and planned.not_checked
    answer = {
        "emptied": "unknown" if is_open else planned.is_complete,
        "hosts": list(planned.hosts),
        "steps": len(planned.moves),
        "to copy": document.size(planned.moves),
        "stay": len(planned.blocked),
    }
    if drain.most is not None:
        bound = "" if drain.most.is_proven else "at least "
        answer["can be emptied"] = (
            f"{bound}{len(drain.most.hosts)}: {', '.join(drain.most.hosts)}"
            if drain.most.hosts
            else f"{bound}0"
        )
    return [
        shown.table("Answer", [answer]),
        shown.table("Disabled before the plan", [host.to_dict() for host in planned.disabled]),
        shown.table("Steps", [shown.move_row(move) for move in planned.moves]),
        shown.table("Servers that stay", _blocked_rows(drain)),
    ]
