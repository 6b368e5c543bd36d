# SPDX-License-Identifier: Apache-2.0
"""``placement capacity show --spread``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from osc_placement.v1.common import base, nova_request, services
from osc_placement.v1.output import rows, tables
from osc_placement.v1.resources import candidate

if TYPE_CHECKING:
    from osc_placement.workflows.capacity import spread

#: Options that are about a request, which no spread has.
_OF_REQUESTS = ("by", "without", "after", "add_hosts", "keep", "flavor")


def show(command: base.ReportLister, parsed_args: argparse.Namespace) -> base.Rows:
    """The rows of ``--spread``. Exits with a usage error beside options of a request."""
    from osc_placement.workflows.capacity import spread

    query = candidate.given(parsed_args)
    if query.text or [*query.features()] or any(group.resource for group in query.groups):
        command.usage_error("argument --spread: not allowed with options of a query")
    for name in _OF_REQUESTS:
        if getattr(parsed_args, name):
            command.usage_error(f"argument --spread: not allowed with --{name.replace('_', '-')}")
    nova_request.check(command, parsed_args, has_servers=False)
    nova = nova_request.nova_reader(command, parsed_args)
    named = None if nova.compute.hosts is None else services.named_aggregates(command)
    listed = named.listed if named else []
    with command.reading() as context:
        answer = spread.show(command.connect(), context, nova.compute, listed, parsed_args.spread)
    command.summary = services.caveat_lines(answer.caveats)
    command.exit_code = services.answer_code(
        0,
        answer.caveats,
        strict=parsed_args.strict,
        only_placement=parsed_args.no_nova or nova.compute.hosts is None,
    )
    command.answer = [_table(answer)]
    columns: rows.Columns[spread.Spread] = {
        "kind": lambda row: row.kind,
        "part": lambda row: row.part or None,
        "class": lambda row: row.name,
        "hosts": lambda row: len(row.hosts),
        "highest": lambda row: rows.percent(row.hosts[-1].share),
        "highest_host": lambda row: answer.names[row.hosts[-1].root],
        "lowest": lambda row: rows.percent(row.hosts[0].share),
        "lowest_host": lambda row: answer.names[row.hosts[0].root],
        "mean": lambda row: rows.percent(row.mean),
        "spread": lambda row: rows.percent(row.spread),
        "at_least": lambda row: row.at_least,
        **services.caveat_columns(lambda _: answer.caveats),
    }
    return rows.listing(columns, answer.rows)


def _table(answer: spread.ShownSpreads) -> tables.Table:
    columns = ("part", "class", "hosts", "highest", "lowest", "mean", "spread", "to move")
    return tables.Table("Spread of use", columns, [_cells(row, answer) for row in answer.rows])


def _cells(row: spread.Spread, answer: spread.ShownSpreads) -> tuple[Any, ...]:
    ends = (f"{answer.names[host.root]} {host.share:.0%}" for host in (row.hosts[-1], row.hosts[0]))
    part, least = f"{row.kind} {row.part}".strip(), row.at_least
    figures = (f"{row.mean:.0%}", f"{row.spread:.0%}", "not possible" if least is None else least)
    return (part, row.name, len(row.hosts), *ends, *figures)
