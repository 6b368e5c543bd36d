# SPDX-License-Identifier: Apache-2.0
"""How plans of moves are shown: fields for programs, and lines of tables with names for UUIDs."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osc_placement import errors
from osc_placement.model import command_line
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.nova.api import Nova
    from osc_placement.scheduling.nova_options import SchedulerOptions
    from osc_placement.workflows.cloud import nova_servers
    from osc_placement.workflows.moving import document, follow


class MoveServices(NamedTuple):
    """What plans of moves are made with; ``nova`` reads what ``opened`` says."""

    client: api.Client
    opened: Nova
    nova: nova_servers.NovaReader
    scheduler: SchedulerOptions


def connected(
    command: base.PlacementCommand,
    scheduler: SchedulerOptions,
    former: document.MovePlan | None = None,
) -> MoveServices:
    """The services; they are of the cloud of the plan that is continued.

    Requests: those of ``reader_of``. Errors: PlacementError for another cloud, or another command.
    """
    client = command.connect()
    if former is not None:
        former.check(command.cmd_name or "", client.target)
    opened = services.NovaServices(command).nova
    reader = nova_request.reader_of(command, scheduler, opened)
    return MoveServices(client, opened, reader, scheduler)


def add_hosts(parser: argparse.ArgumentParser) -> None:
    """Add the names of the hosts that the command is about."""
    parser.add_argument(
        "hosts",
        metavar="<host>",
        nargs="*",
        help="Nova's name of the host, or the name or UUID of a provider of the host",
    )


def add_search_options(parser: argparse.ArgumentParser, *, checks: bool = False) -> None:
    """Add how long to search, and what says which rules nova's scheduler has."""
    arguments.add_count(
        parser, "--timeout", "How long to search (default: 60)", "<seconds>", default=60
    )
    nova_request.add_scheduler_options(parser, checks=checks)


def add_aggregate(parser: argparse.ArgumentParser, *, or_zone: bool = False) -> None:
    """Add ``--aggregate``, whose hosts the command is about; ``or_zone``: and ``--zone``."""
    arguments.add_repeated(
        parser,
        "--aggregate",
        "<aggregate>",
        "The hosts of this host aggregate in nova (name or id), or the members of this"
        " aggregate in Placement (UUID).",
    )
    if or_zone:
        parser.add_argument("--zone", metavar="<zone>", help="The hosts of this availability zone")


def of_aggregates(
    command: base.PlacementCommand, texts: Sequence[str], *, no_nova: bool = False
) -> tuple[list[str], list[str]]:
    """Nova's hosts of the aggregates with a name, and the UUIDs of the other aggregates.

    ``no_nova``: the answer is about Placement's members of all. Requests: one to nova for names.
    Errors: InvalidInput for unknown names, and for one without hosts.
    """
    from osc_placement.model.name import is_uuid
    from osc_placement.workflows.cloud import named_aggregates

    names = services.named_aggregates(command)
    if no_nova or names is None:
        return [], list(named_aggregates.aggregate_uuids(texts, names).values())
    named = names.named([text for text in texts if not is_uuid(text)])
    empty = [item.name for item in named.values() if not item.hosts]
    errors.InputErrors(f"nova's host aggregate {name!r} has no hosts" for name in empty).check()
    hosts = [host for item in named.values() for host in item.hosts]
    others = [text for text in texts if text not in named]
    return hosts, list(named_aggregates.aggregate_uuids(others, None).values())


def hosts_of(
    command: base.PlacementCommand, texts: Sequence[str], zone: str | None, cloud: MoveServices
) -> tuple[list[str], list[str]]:
    """Nova's hosts of aggregates and of a zone, and the UUIDs of Placement's own aggregates.

    Requests, errors: those of ``of_aggregates`` and ``hosts_of_zone``.
    """
    from osc_placement.workflows.cloud import named_aggregates

    hosts, aggregates = of_aggregates(command, texts)
    if zone:
        hosts += named_aggregates.hosts_of_zone(cloud.opened, cloud.nova.compute, zone)
    return hosts, aggregates


def add_move_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how servers may move."""
    for option, metavar, text in (
        ("--avoid", "<host>", "A host that gets no server."),
        ("--except", "<server>", "A server that stays (name or UUID)."),
        ("--cold", "<server>", "A server that moves cold, also with --only-live."),
    ):
        arguments.add_repeated(parser, option, metavar, text)
    arguments.add_count(parser, "--parallel", "The most steps in one wave (default: 1)")
    arguments.add_count(
        parser,
        "--limit-per-source",
        "The most steps in one wave from one host: nova-compute runs as many live migrations"
        " at once as its max_concurrent_live_migrations, by default 1, and the others wait",
    )
    arguments.add_flag(parser, "--only-live", "Plan no move that stops a guest")
    arguments.add_count(
        parser,
        "--keep",
        "Keep capacity free: if any <count> other hosts fail, their servers must find room as"
        " they do now. Needs every record, as in placement capacity show --keep",
    )


def move_options(
    parsed_args: argparse.Namespace, former: document.MovePlan | None = None
) -> document.DrainOptions:
    """What the plan that is continued, and the command line ask for."""
    from osc_placement.workflows.moving import document

    options = document.DrainOptions(
        parsed_args.parallel or 0,
        tuple(parsed_args.avoid),
        only_live=parsed_args.only_live,
        keep=parsed_args.keep or 0,
        excluded=tuple(getattr(parsed_args, "except")),
        cold=tuple(parsed_args.cold),
        per_source=parsed_args.limit_per_source or 0,
        nova_conf=str(parsed_args.nova_conf.resolve()) if parsed_args.nova_conf else "",
        nova_release=parsed_args.nova_release,
        filters=tuple(parsed_args.filters),
    )
    return options if former is None else former.options.merged(options)


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the file of a plan and for its script."""
    arguments.add_file(parser, "--plan-out", "Write the plan to this file")
    arguments.add_file(
        parser, "--script", "Write the steps as a script to this file; needs --plan-out"
    )


def check_plan_options(
    command: base.PlacementCommand, parsed_args: argparse.Namespace, reading: str
) -> None:
    """Exit with a usage error for a script without the plan that it follows.

    Also for the file of a plan beside the option ``reading``, which makes none.
    """
    if parsed_args.script is not None and parsed_args.plan_out is None:
        command.usage_error("argument --script: needs --plan-out, the plan that it follows")
    if parsed_args.plan_out is not None and getattr(parsed_args, reading):
        option = reading.replace("_", "-")
        command.usage_error(f"argument --plan-out: not allowed with --{option}: no plan is made")


def write_plan(
    planned: document.MovePlan, plan_out: pathlib.Path | None, script_file: pathlib.Path | None
) -> list[str]:
    """Write the files of ``add_plan_options``; lines about them."""
    from osc_placement.workflows.moving import document, script

    if plan_out is None:
        return []
    document.write(plan_out, planned)
    if script_file is None:
        return []
    script.write(script_file, planned, plan_out)
    return [f"The script: {command_line.quote(str(script_file))}"]


#: The options of files, which another plan does not share.
_FILES = {"plan_out", "script", "picture", "continue"}


def anew(command: base.ReportShowOne, parsed_args: argparse.Namespace) -> str:
    """The command line for another plan with the same options."""
    same = [action for action in command.own_arguments if action.dest not in _FILES]
    subjects, options = arguments.typed(parsed_args, same)
    options += command.recording_options()
    return command_line.line(command.cmd_name or "", *subjects, options=options)


def followed(command: base.ReportShowOne, parsed_args: argparse.Namespace) -> base.Fields:
    """What became of the plan of ``--continue``, and the command that plans anew if steps wait.

    Requests: those of ``follow.observe_on``. Errors: PlacementError.
    """
    from osc_placement.workflows.moving import document, follow

    plan = document.load(getattr(parsed_args, "continue"))
    cloud = connected(command, nova_request.scheduler(parsed_args), plan)
    sources = dict.fromkeys(move.source for move in plan.moves)
    hosts = [host for host in sources if cloud.nova.compute.nodes_of(host)]
    moved = [move.server for move in plan.moves]
    with command.reading() as context:
        read = follow.observe_on(cloud.client, hosts, cloud.nova, context, moved)
    steps = follow.follow(plan, read.cloud)
    over = (follow.FollowedState.DONE, follow.FollowedState.DELETED)
    if any(step.state not in over for step in steps):
        command.exit_code = 3
        command.summary = [f"To plan anew: {plan.anew}"]
    command.answer = [table("Steps of the plan", [*map(followed_row, steps)])]
    return ("steps",), (rows.lines(map(followed_fields, steps)),)


def followed_fields(step: follow.FollowedStep) -> dict[str, Any]:
    """What became of a step, for programs."""
    return {
        "state": str(step.state),
        "server": step.move.server,
        "name": step.move.name,
        "host": step.host,
        "target": step.move.target,
        "advice": step.advice,
    }


def followed_row(step: follow.FollowedStep) -> dict[str, Any]:
    """What became of a step, for people."""
    return {
        "state": str(step.state),
        "server": step.move.name or step.move.server,
        "now": f"on {step.host}" if step.host else "",
        "planned": f"to {step.move.target}",
        "advice": step.advice,
    }


def move_fields(move: document.PlannedMove) -> dict[str, Any]:
    """A step, for programs."""
    return {
        "wave": move.wave,
        "server": move.server,
        "name": move.name,
        "way": move.way,
        "from": move.source,
        "to": move.target,
        "memory_mb": move.amount("MEMORY_MB"),
        "disk_gb": move.amount("DISK_GB"),
        "why": move.why,
    }


def move_row(move: document.PlannedMove) -> dict[str, Any]:
    """A step, for people."""
    from osc_placement.workflows.moving import document

    return {
        "wave": move.wave,
        "server": move.name or move.server,
        "way": move.way,
        "move": f"{move.source} -> {move.target}",
        "size": document.size([move]),
        "why": move.why,
    }


def table(title: str, listed: Sequence[Mapping[str, Any]]) -> tables.Table:
    """A table of rows with the same fields; lists are lines of a cell."""
    columns = tuple(listed[0]) if listed else ()
    cells = [
        tuple(rows.lines(cell) if isinstance(cell, list | tuple) else cell for cell in row.values())
        for row in listed
    ]
    return tables.Table(title, columns, cells)
