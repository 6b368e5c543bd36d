# SPDX-License-Identifier: Apache-2.0
"""``placement query replay``."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

from osc_placement.v1.common import arguments, base
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.workflows.snapshot import replay


class ReplayQueries(base.ReportLister):
    """Show which allocation candidates queries lose candidates

    Runs the queries on a snapshot and on a second one, or on a snapshot before and after a plan
    (--after). Lists the queries that get no candidate any more, and those that lose more than
    --percent of their candidates. Limits in queries are ignored: they would hide lost candidates.
    """

    auth_required = False
    names_database = False

    exit_codes = {**base.EXIT_CODES, 3: "some queries lose candidates"}
    example = """\
openstack placement query replay monday.sqlite tuesday.sqlite \\
    --queries access.log
openstack placement query replay cloud.sqlite --after plan.json \\
    --queries queries.txt"""

    table_columns = ("query", "times", "before", "after", "lost_percent", "lost", "error")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(
            parser, "files", "A snapshot, and the snapshot to compare it with", nargs="*"
        )
        arguments.add_file(
            parser,
            "--queries",
            "An access log of Placement, or one query per line (resources=VCPU:1&limit=10)",
            required=True,
        )
        arguments.add_file(
            parser,
            "--after",
            "Compare with the snapshot after this plan, which is applied to a copy",
            "<plan>",
        )
        parser.add_argument(
            "--percent",
            metavar="<percent>",
            type=_percent,
            default=0.0,
            help="List queries that lose more than this share of their candidates (default: 0)",
        )
        arguments.add_flag(parser, "--all", "List all queries, also those that lose nothing")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.snapshot import replay

        files, plan = parsed_args.files, parsed_args.after
        if not files or len(files) + (plan is not None) != 2:
            self.usage_error("give two snapshots, or one snapshot and --after")
        if len(files) > len({path.resolve() for path in files}):
            self.usage_error("the two snapshots are one file")
        source = replay.parse(arguments.read_file(parsed_args.queries).splitlines())
        applied: list[str] = []
        with contextlib.ExitStack() as stack:
            context = stack.enter_context(self.reading())
            replay.check_comparable(files)
            states = [stack.enter_context(replay.opened(path)) for path in files]
            if plan is not None:
                copy, report = stack.enter_context(replay.after_plan(files[0], plan))
                applied = [f"The plan on a copy of {files[0]}: {report.summary()}"]
                states.append(copy)
            before, after = states
            comparisons = list(replay.compare(before, after, source, context))
            names = replay.names_of(states)
        affected = [item for item in comparisons if item.is_affected(parsed_args.percent)]
        exhausted = sum(item.is_exhausted for item in affected)
        self.exit_code = 3 if affected else 0
        self.summary = [
            *applied,
            f"Distinct queries: {len(comparisons)}. Lost all candidates: {exhausted}. Lost more"
            f" than {parsed_args.percent:g} %: {len(affected) - exhausted}. Lines without a query:"
            f" {source.ignored}",
        ]
        listed = comparisons if parsed_args.all else affected
        columns: rows.Columns[replay.QueryComparison] = {
            "query": lambda item: item.query.text,
            "microversion": lambda item: item.query.version or None,
            "times": lambda item: item.query.count,
            "before": lambda item: len(item.before.candidates),
            "after": lambda item: len(item.after.candidates),
            "gained": lambda item: len(item.gained),
            "lost_percent": lambda item: round(item.percent, 1),
            "lost": lambda item: rows.lines(
                sorted(names.get(uuid, uuid) for uuid in item.lost_providers)
            ),
            "error": lambda item: item.after.error or item.before.error or None,
        }
        return rows.listing(columns, listed)


def _percent(text: str) -> float:
    """An argparse type: a number from 0 to 100."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return value
