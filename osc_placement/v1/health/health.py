# SPDX-License-Identifier: Apache-2.0
"""``placement health show``."""

from __future__ import annotations

import argparse
import collections
import datetime
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.workflows.health import health

_COLUMNS: rows.Columns[health.HealthLine] = {
    "severity": lambda line: str(line.severity),
    "code": lambda line: str(line.code),
    "count": lambda line: None if line.severity == "not checked" else len(line.subjects),
    "since": lambda line: line.since,
    "first": lambda line: line.text,
    "subjects": lambda line: rows.lines(sorted(line.subjects)),
    "new": lambda line: None if line.new is None else rows.lines(sorted(line.new)),
    "gone": lambda line: None if line.gone is None else rows.lines(sorted(line.gone)),
    "show": lambda line: line.show,
    "repair": lambda line: line.repair,
}

_OTHERS = ("not checked", "muted")

#: Problems whose commands the summary shows.
_MOST_COMMANDS = 3


class ShowHealth(base.ReportLister):
    """Show everything that is wrong with Placement in one look

    Runs the checks of the audits of allocations, providers and flavors, of the mirror of host
    aggregates and their ratios, and of placement status show --check, on one reading. It also
    finds servers on hosts that their flavor, image or zone no longer admits. One row per code,
    with the command that shows each problem; an area without problems is one row.

    Errors: servers do not start or land on wrong hosts, or capacity is lost or counted twice.
    Everything else is a warning. What could not be read, or cannot be known, is
    "not checked", with the reason.
    """

    required_feature = "consumer generation"
    exit_codes = {
        **base.EXIT_CODES,
        3: "an error was found; with --fail-on warning: an error or a warning",
        services.NOT_CHECKED: "no such problem was found, but an area was not checked; "
        + services.STRICT,
    }
    example = """\
openstack placement health show
openstack placement health show --since yesterday.sqlite
openstack placement health show --fail-on warning --mute used-up=2026-12-31"""

    table_columns: Sequence[str] = ("severity", "code", "count", "since", "first")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--fail-on",
            metavar="<severity>",
            choices=("error", "warning"),
            default="error",
            help="Exit with 3 for problems that are at least this bad: error (default) or warning",
        )
        parser.add_argument(
            "--mute",
            metavar="<code>[=<day>]",
            type=_mutes,
            action="extend",
            default=[],
            help="Do not count this code, or not until this day (YYYY-MM-DD, UTC). @<file> reads"
            " one per line; # begins a comment. May be repeated.",
        )
        services.add_strict(parser)
        services.add_check_owners(parser)
        services.add_nova_conf(parser)
        arguments.add_file(
            parser,
            "--since",
            "Also show what is new and what is gone since this snapshot, which needs nova's"
            " responses",
            "<snapshot>",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.health import health

        cloud = services.or_reasons(self, parsed_args.nova_conf)
        with self.reading() as context:
            before = None
            if parsed_args.since is not None:
                with health.of_snapshot(parsed_args.since, cloud.options) as earlier:
                    before = health.check_areas(earlier, context)
            areas = health.check_areas(cloud, context, check_owners=parsed_args.check_owners)
        today = datetime.datetime.now(datetime.UTC).date()
        mutes = [health.Mute.parse(text) for text in parsed_args.mute]
        lines = health.lines(areas, mutes, today=today, before=before)
        code = _exit_code(lines, parsed_args.fail_on)
        not_checked = [line.text for line in lines if line.severity == "not checked"]
        self.exit_code = services.exit_code(code, not_checked, parsed_args)
        self.summary = _summary(cloud.client.target, lines)
        if before is None:
            self.table_columns = tuple(name for name in self.table_columns if name != "since")
        return rows.listing(_COLUMNS, lines)


def _mutes(text: str) -> list[str]:
    """The values of ``--mute``: one, or those of a file."""
    from osc_placement.workflows.health import health

    texts = [text]
    try:
        if text.startswith("@"):
            content = arguments.read_file(pathlib.Path(text[1:]))
            words = (line.partition("#")[0].strip() for line in content.splitlines())
            texts = [word for word in words if word]
        for mute in texts:
            health.Mute.parse(mute)
    except (errors.PlacementError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return texts


def _exit_code(lines: Sequence[health.HealthLine], fail_on: str) -> int:
    severities = {str(line.severity) for line in lines}
    if severities & {"error", fail_on}:
        return 3
    return services.NOT_CHECKED if any(line.is_unread for line in lines) else 0


def _findings(lines: Sequence[health.HealthLine], severity: str) -> str:
    """The number of findings of a severity, and of the rows that count them."""
    numbers = [len(line.subjects) for line in lines if line.severity == severity]
    text = counted(sum(numbers), severity)
    return f"{text} in {counted(len(numbers), 'row')}" if len(numbers) > 1 else text


def _summary(target: str, lines: Sequence[health.HealthLine]) -> list[str]:
    counts = collections.Counter(str(line.severity) for line in lines)
    parts = [
        _findings(lines, "error"),
        _findings(lines, "warning"),
        *(f"{counts[name]} {name}" for name in _OTHERS if counts[name]),
    ]
    commands = [
        f"{line.code}: {line.show}" + (f"; repair: {line.repair}" if line.repair else "")
        for line in lines
        if line.show and line.severity in ("error", "warning")
    ]
    more = len(commands) - _MOST_COMMANDS
    return [
        f"On {target}: {', '.join(parts)}",
        *commands[:_MOST_COMMANDS],
        *([f"... and {counted(more, 'more command')} (-f json: show, repair)"] if more > 0 else []),
    ]
