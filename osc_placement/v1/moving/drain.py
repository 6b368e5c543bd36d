# SPDX-License-Identifier: Apache-2.0
"""``placement host drain``."""

from __future__ import annotations

import argparse
import datetime
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from osc_placement.workflows.cloud import nova_servers
    from osc_placement.workflows.moving import document, follow, plan
    from osc_placement.workflows.moving.places import Wanted


class DrainHosts(base.ReportShowOne):
    """Plan how to empty hosts, each step proven on the state after the former ones

    Moves no server itself. The plan has a target for each server of the hosts, in waves: a wave
    begins when the one before has ended, and each of its steps has room while nova holds the
    allocations of source and target. Server groups, zones, traits, devices and aggregates are
    kept, and nothing else in the cloud changes. Targets are spread; hosts with devices, or traits
    of flavors, that few hosts have and the server does not request, come last.

    If servers stay, the answer has what prevents each of them, the smallest changes after which
    it could move, and the most of these hosts that can be emptied.

    --script prints the steps as a script that checks each of them. --continue reads what became of
    a plan, and plans the rest anew. --verify-empty says whether nova and Placement agree that the
    hosts are empty. A server that moves now, or that nova does not move, has no step; the reason
    is shown. Only reads.
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
openstack placement host drain cmp-0001 --parallel 2 --plan-out drain.json
openstack placement host drain --continue drain.json --verify-empty"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "hosts",
            metavar="<host>",
            nargs="*",
            help="Nova's name of the host, or the name or UUID of a provider of the host",
        )
        arguments.add_repeated(parser, "--avoid", "<host>", "A host that gets no server.")
        arguments.add_count(parser, "--parallel", "The most steps in one wave (default: 1)")
        arguments.add_flag(parser, "--only-live", "Plan no move that stops a guest")
        arguments.add_count(
            parser,
            "--keep",
            "Keep capacity free: if any <count> other hosts fail, their servers must find room as"
            " they do now. Needs every record, as in placement capacity show --keep",
        )
        arguments.add_file(parser, "--plan-out", "Write the plan to this file")
        arguments.add_file(
            parser,
            "--continue",
            "Show what became of this plan, and plan the rest anew, with the options of the plan"
            " and those that are given now",
        )
        arguments.add_flag(
            parser, "--verify-empty", "Show whether the hosts are empty by nova and by Placement"
        )
        arguments.add_flag(parser, "--script", "Also show the steps as a script; needs --plan-out")
        arguments.add_flag(
            parser, "--back", "Also show the commands that bring the hosts back into service"
        )
        arguments.add_count(
            parser, "--timeout", "How long to search (default: 60)", "<seconds>", default=60
        )
        nova_request.add_scheduler_options(parser, checks=False)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.moving import document, flavor_queries, follow

        former = self._former(parsed_args)
        path = parsed_args.plan_out
        if parsed_args.script and path is None:
            self.usage_error("argument --script: needs --plan-out, the plan that it follows")
        client = self.connect()
        if former is not None and not client.target.identity.may_be(former.identity):
            raise errors.PlacementError(
                f"the plan is for {former.target}, and this is {client.target}: select its cloud"
            )
        opened = services.NovaServices(self).nova
        nova = nova_request.reader_of(self, parsed_args, opened)
        flavors = flavor_queries.read(client, opened, nova_request.scheduler(parsed_args))
        drain = self._plan(parsed_args, former, client, nova, flavors)
        fields: dict[str, Any] = {}
        shown: list[tables.Table] = []
        self.summary = [f"Not checked: {text}" for text in drain.plan.not_checked]
        self.summary += [f"Note: {text}" for text in drain.notes]
        if former is not None:
            followed = follow.follow(former, drain, nova.compute)
            fields["steps"] = rows.lines([_followed_row(step) for step in followed])
            shown.append(_table("Steps of the plan", [_followed_row(step) for step in followed]))
            self.summary += [f"Changed: {text}" for text in follow.changes(former, drain.plan)]
        if parsed_args.verify_empty:
            states = follow.host_states(drain, nova.compute)
            fields["hosts"] = rows.lines([_host_row(state) for state in states])
            shown.append(_table("Hosts", [_host_row(state) for state in states]))
            self.summary += [f"To repair: {text}" for text in follow.leftovers(states)]
            code = 0 if all(state.is_empty for state in states) else 3
        else:
            fields |= _fields(drain)
            shown += _tables(drain)
            code = 0 if drain.plan.is_complete else 3
        # What can refuse a step cannot hide a server.
        unchecked = () if parsed_args.verify_empty else drain.plan.not_checked
        self.exit_code = services.NOT_CHECKED if code == 0 and unchecked else code
        if parsed_args.plan_out is not None:
            document.write(parsed_args.plan_out, drain.plan)
        self._add_scripts(parsed_args, drain, path, fields, shown)
        self.answer = shown
        return tuple(fields), tuple(fields.values())

    def _former(self, parsed_args: argparse.Namespace) -> document.DrainPlan | None:
        path: pathlib.Path | None = getattr(parsed_args, "continue")
        if path is None:
            if not parsed_args.hosts:
                self.usage_error("name a host, or give --continue")
            return None
        if parsed_args.hosts:
            self.usage_error("argument --continue: not allowed with hosts; the plan has them")
        from osc_placement.workflows.moving import document

        return document.load(path)

    def _plan(
        self,
        parsed_args: argparse.Namespace,
        former: document.DrainPlan | None,
        client: Any,
        nova: nova_servers.NovaReader,
        flavors: Mapping[str, Wanted],
    ) -> plan.Drain:
        from osc_placement.workflows.moving import document, plan

        before = document.DrainOptions() if former is None else former.options
        options = document.DrainOptions(
            parsed_args.parallel or before.parallel,
            tuple(dict.fromkeys((*before.avoid, *parsed_args.avoid))),
            only_live=parsed_args.only_live or before.only_live,
            keep=parsed_args.keep or before.keep,
        )
        request = plan.DrainRequest(
            parsed_args.hosts if former is None else former.nodes,
            options,
            flavors,
            () if former is None else [move.server for move in former.moves],
            parsed_args.timeout,
        )
        with self.reading() as context:
            return plan.plan(client, request, nova, context, datetime.datetime.now(tz=datetime.UTC))

    def _add_scripts(
        self,
        parsed_args: argparse.Namespace,
        drain: plan.Drain,
        path: pathlib.Path | None,
        fields: dict[str, Any],
        shown: list[tables.Table],
    ) -> None:
        from osc_placement.workflows.moving import script

        lines: dict[str, list[str]] = {}
        if parsed_args.script:
            lines["script"] = list(script.lines(drain.plan, str(path)))
        if parsed_args.back:
            lines["back"] = script.back_lines(drain.plan)
        for name, text in lines.items():
            fields[name] = rows.Script(text)
            shown.append(tables.Table(name.capitalize(), (name,), [(line,) for line in text]))


def _followed_row(step: follow.FollowedStep) -> dict[str, Any]:
    return {
        "state": str(step.state),
        "server": step.move.server,
        "name": step.move.name,
        "host": step.host,
        "target": step.move.target,
        "advice": step.advice,
    }


def _host_row(state: follow.HostState) -> dict[str, Any]:
    return {
        "host": state.host,
        "empty": state.is_empty,
        "servers": list(state.servers),
        "consumers": list(state.consumers),
    }


def _move_rows(planned: document.DrainPlan) -> list[dict[str, Any]]:
    return [
        {
            "wave": move.wave,
            "server": move.server,
            "name": move.name,
            "way": move.way,
            "from": move.source,
            "to": move.target,
            "why": move.why,
        }
        for move in planned.moves
    ]


def _blocked_rows(drain: plan.Drain) -> list[dict[str, Any]]:
    roots = dict(zip(drain.plan.hosts, drain.plan.nodes, strict=True))
    return [
        {
            "server": server.server,
            "name": server.name,
            "host": server.host,
            "reasons": list(server.reasons),
            "changes": [
                each.text for each in drain.changes.get((server.server, roots[server.host]), ())
            ],
        }
        for server in drain.plan.blocked
    ]


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
        "moves": rows.lines(_move_rows(planned)),
        "blocked": rows.lines(_blocked_rows(drain)),
        **_most(drain),
        "not_checked": rows.lines(planned.not_checked),
    }


def _table(title: str, listed: list[dict[str, Any]]) -> tables.Table:
    columns = tuple(listed[0]) if listed else ()
    cells = [
        tuple(rows.lines(cell) if isinstance(cell, list) else cell for cell in row.values())
        for row in listed
    ]
    return tables.Table(title, columns, cells)


def _tables(drain: plan.Drain) -> list[tables.Table]:
    planned = drain.plan
    answer = {
        "empties the hosts": planned.is_complete,
        "hosts": list(planned.hosts),
        "steps": len(planned.moves),
        "servers that stay": len(planned.blocked),
    }
    if drain.most is not None:
        bound = "" if drain.most.is_proven else "at least "
        answer["most that can be emptied"] = (
            f"{bound}{len(drain.most.hosts)}: {', '.join(drain.most.hosts)}"
            if drain.most.hosts
            else f"{bound}0"
        )
    return [
        _table("Answer", [answer]),
        *([_table("Steps", _move_rows(planned))] if planned.moves else []),
        *([_table("Servers that stay", _blocked_rows(drain))] if planned.blocked else []),
    ]
