# SPDX-License-Identifier: Apache-2.0
"""``placement query replay | record``."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement.model.name import counted
from osc_placement.v1 import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.snapshot import replay

COLUMNS = (
    "query",
    "microversion",
    "times",
    "before",
    "after",
    "gained",
    "lost_percent",
    "lost",
    "error",
)


class ReplayQueries(base.ReportLister):
    """Show which allocation candidates queries lose candidates

    Runs the queries on a snapshot and on a second one, or on a snapshot before and after a plan
    (--after), or compares a snapshot with the recorded answers of the queries. Lists the queries
    that get no candidate any more, and those that lose more than --percent of their candidates.
    Limits in queries are ignored, because they would hide lost candidates. "placement query
    record" records queries.
    """

    writes = False
    auth_required = False
    names_database = False

    exit_codes = {**base.EXIT_CODES, 3: "some queries lose candidates"}
    example = """\
openstack placement query replay monday.sqlite tuesday.sqlite \\
    --queries access.log
openstack placement query replay cloud.sqlite --after plan.json \\
    --queries queries.txt
openstack placement query record 8780 --queries recording.jsonl"""

    column_names = COLUMNS

    table_columns = ("query", "times", "before", "after", "lost_percent", "lost", "error")

    #: What a plan did on the copy.
    _plan_summary: Sequence[str] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files",
            metavar="<file>",
            nargs="*",
            type=pathlib.Path,
            help="A snapshot, and the snapshot to compare it with",
        )
        parser.add_argument(
            "--queries",
            metavar="<file>",
            type=pathlib.Path,
            required=True,
            help="An access log of Placement, one query per line (resources=VCPU:1&limit=10), or a"
            " recording",
        )
        parser.add_argument(
            "--after",
            metavar="<plan>",
            type=pathlib.Path,
            help="Compare with the snapshot after this plan, which is applied to a copy",
        )
        parser.add_argument(
            "--percent",
            metavar="<percent>",
            type=_percent,
            default=0.0,
            help="List queries that lose more than this share of their candidates (default: 0)",
        )
        parser.add_argument(
            "--all", action="store_true", help="List all queries, also those that lose nothing"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        seconds = len(parsed_args.files) - 1 + (parsed_args.after is not None)
        if not parsed_args.files or seconds > 1:
            self.usage_error("give one snapshot, and a second one or --after at most")
        if len(parsed_args.files) > len({path.resolve() for path in parsed_args.files}):
            self.usage_error("the two snapshots are one file")
        return self._replay(parsed_args)

    def _replay(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.snapshot import replay

        lines = arguments.read_file(parsed_args.queries).splitlines()
        source = replay.parse(lines)
        with contextlib.ExitStack() as stack:
            context = stack.enter_context(self.reading())
            second = self._second(parsed_args, stack)
            first = stack.enter_context(replay.opened(parsed_args.files[0]))
            if second is None:
                self._check_answers(source, parsed_args)
                comparisons = list(replay.compare(None, first, source, context))
                names = replay.names_of([first])
            else:
                comparisons = list(replay.compare(first, second, source, context))
                names = replay.names_of([first, second])
        return self._finish(comparisons, source, names, parsed_args)

    def _second(
        self, parsed_args: argparse.Namespace, stack: contextlib.ExitStack
    ) -> api.Client | None:
        """The state to compare with; None for the recorded answers."""
        from osc_placement.workflows.snapshot import replay

        if parsed_args.after is not None:
            first = parsed_args.files[0]
            copy, report = stack.enter_context(replay.after_plan(first, parsed_args.after))
            self._plan_summary = [f"The plan on a copy of {first}: {report.summary()}"]
            return copy
        if len(parsed_args.files) > 1:
            replay.check_comparable(parsed_args.files)
            return stack.enter_context(replay.opened(parsed_args.files[1]))
        return None

    def _check_answers(self, source: replay.QuerySource, parsed_args: argparse.Namespace) -> None:
        if all(query.answer is None for query in source.queries):
            self.usage_error(
                f"{parsed_args.queries} has no recorded answers: give a second snapshot, or a plan"
                " with --after"
            )

    def _finish(
        self,
        comparisons: list[replay.QueryComparison],
        source: replay.QuerySource,
        names: Mapping[str, str],
        parsed_args: argparse.Namespace,
    ) -> base.Rows:
        affected = [item for item in comparisons if item.is_affected(parsed_args.percent)]
        exhausted = sum(item.is_exhausted for item in affected)
        self.exit_code = 3 if affected else 0
        self.summary = [
            *self._plan_summary,
            f"Distinct queries: {len(comparisons)}. Lost all candidates: {exhausted}. Lost more"
            f" than {parsed_args.percent:g} %: {len(affected) - exhausted}. Lines without a query:"
            f" {source.ignored}",
        ]
        listed = comparisons if parsed_args.all else affected
        return self.column_names, [_row(item, names) for item in listed]


def _row(item: replay.QueryComparison, names: Mapping[str, str]) -> rows.Row:
    return (
        item.query.text,
        item.query.version or None,
        item.query.count,
        len(item.before.candidates),
        len(item.after.candidates),
        None if item.is_cut_off else len(item.gained),
        round(item.percent, 1),
        rows.Lines(sorted(names.get(uuid, uuid) for uuid in item.lost_providers)),
        item.after.error or item.before.error or None,
    )


def _percent(text: str) -> float:
    """A number of percent."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return value


class RecordQueries(base.Command):
    """Record queries for allocation candidates with their answers, until Ctrl-C

    Forwards HTTP requests on a port of 127.0.0.1 to the cloud, whose endpoint may be https.
    """

    writes = False
    auth_required = False
    names_database = False
    example = "openstack placement query record 8780 --queries recording.jsonl"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "port",
            metavar="<port>",
            type=arguments.non_negative,
            help="The port of 127.0.0.1",
        )
        parser.add_argument(
            "--queries",
            metavar="<file>",
            type=pathlib.Path,
            required=True,
            help="Append the queries with their answers to this file",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from osc_placement.workflows.snapshot import proxy

        if not self.is_local:
            services.authenticate(self.app, "forwards requests to the cloud")
        client, file = self.client(), parsed_args.queries
        running = proxy.Proxy(client, file, parsed_args.port)
        sys.stderr.write(f"Forwarding {running.url} to {client.target}; end with Ctrl-C\n")
        running.run()
        sys.stderr.write(f"{counted(running.recorded, 'query', 'queries')} recorded in {file}\n")
