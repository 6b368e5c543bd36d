# SPDX-License-Identifier: Apache-2.0
"""How plans of moves are shown: fields for programs, and lines of tables with names for UUIDs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.model import command_line
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from osc_placement.workflows.moving import document, follow


def add_aggregate(parser: argparse.ArgumentParser) -> None:
    """Add ``--aggregate``, whose hosts the command is about."""
    arguments.add_repeated(
        parser,
        "--aggregate",
        "<aggregate>",
        "The hosts of this host aggregate in nova (name or id), or the members of this"
        " aggregate in Placement (UUID).",
    )


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


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the file of a plan and for its script."""
    arguments.add_file(parser, "--plan-out", "Write the plan to this file")
    arguments.add_file(
        parser, "--script", "Write the steps as a script to this file; needs --plan-out"
    )


def check_plan_options(command: base.PlacementCommand, parsed_args: argparse.Namespace) -> None:
    """Exit with a usage error for a script without the plan that it follows."""
    if parsed_args.script is not None and parsed_args.plan_out is None:
        command.usage_error("argument --script: needs --plan-out, the plan that it follows")


def write_plan(parsed_args: argparse.Namespace, planned: document.MovePlan) -> list[str]:
    """Write the files of ``add_plan_options``; lines about them."""
    from osc_placement.workflows.moving import document, script

    if parsed_args.plan_out is not None:
        document.write(parsed_args.plan_out, planned)
    if parsed_args.script is None:
        return []
    script.write(parsed_args.script, planned, parsed_args.plan_out)
    return [f"The script: {command_line.quote(str(parsed_args.script))}"]


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
