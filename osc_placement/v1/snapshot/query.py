# SPDX-License-Identifier: Apache-2.0
"""``placement query replay``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from contextlib import AbstractContextManager as ContextManager

    from osc_placement.workflows.cloud import logs
    from osc_placement.workflows.cloud.context import ReadContext
    from osc_placement.workflows.snapshot import compare_services, replay

#: Answers that the summary names.
_MOST_NAMED = 3


class ReplayQueries(base.ReportLister):
    """Show which queries for allocation candidates lose candidates

    Runs the queries on a snapshot and on a second one, or on a snapshot before and after a plan
    (--after). Lists the queries that get no candidate any more, and those that lose more than
    --percent of their candidates. Limits in queries are ignored: they would hide lost candidates.

    With --against, sends each query to the Placement of the cloud and to that of a URL, one after
    the other, and shows their times in milliseconds by the shape of a query: the median, the 95th
    percentile and the worst. Queries keep their limit then. Two answers that both end at the limit
    are not compared. The token of the cloud is sent to the URL. Only reads.
    """

    auth_required = False
    names_database = False

    exit_codes = {
        **base.EXIT_CODES,
        3: "some queries lose candidates; with --against: answers differ, or are too slow",
        services.NOT_CHECKED: "unknown: no query loses candidates, but changes were not applied, or"
        " queries were refused before",
    }
    example = """\
openstack placement query replay monday.sqlite tuesday.sqlite \\
    --queries access.log
openstack placement query replay cloud.sqlite --after plan.json \\
    --queries queries.txt
openstack --os-placement-rate 20 placement query replay \\
    --queries access.log \\
    --against https://new.example.org/placement --slower 50"""

    table_columns: Sequence[str] = (
        "query",
        "times",
        "before",
        "after",
        "lost_percent",
        "lost",
        "error",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(
            parser, "files", "A snapshot, and the snapshot to compare it with", nargs="*"
        )
        arguments.add_file(
            parser,
            "--queries",
            "An access log of Placement (also compressed), or one query per line"
            " (resources=VCPU:1&limit=10)",
            required=True,
        )
        arguments.add_file(
            parser,
            "--after",
            "Compare with the snapshot after this plan, which is applied to a copy",
            "<plan>",
        )
        parser.add_argument(
            "--against",
            metavar="<url>",
            help="Compare the Placement of the cloud with that of this URL",
        )
        parser.add_argument(
            "--slower",
            metavar="<percent>",
            type=_slower,
            help="With --against: exit with 3 also if the median of a shape grows by more",
        )
        parser.add_argument(
            "--percent",
            metavar="<percent>",
            type=_percent,
            help="List queries that lose more than this share of their candidates (default: 0)",
        )
        arguments.add_flag(parser, "--all", "List all queries, also those that lose nothing")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        self._check_usage(parsed_args)
        if parsed_args.against is not None:
            return self._against(parsed_args)
        return self._compared(parsed_args)

    def _check_usage(self, parsed_args: argparse.Namespace) -> None:
        files, plan = parsed_args.files, parsed_args.after
        if parsed_args.slower is not None and parsed_args.against is None:
            self.usage_error("argument --slower: needs --against")
        if parsed_args.against is not None:
            lists = parsed_args.all or parsed_args.percent is not None
            if files or plan is not None or lists:
                self.usage_error(
                    "argument --against: not allowed with snapshots, --after, --percent and --all"
                )
            return
        if not files or len(files) + (plan is not None) != 2:
            self.usage_error("give two snapshots, or one snapshot and --after")
        if len(files) > len({path.resolve() for path in files}):
            self.usage_error("the two snapshots are one file")

    def _compared(self, parsed_args: argparse.Namespace) -> base.Rows:
        """The rows by query, of two snapshots or of one before and after a plan."""
        from osc_placement.plan import file
        from osc_placement.workflows.cloud import rehearsal
        from osc_placement.workflows.snapshot import replay

        files, plan = parsed_args.files, parsed_args.after
        source = _read_queries(parsed_args)
        applied: list[str] = []
        with contextlib.ExitStack() as stack:
            context = stack.enter_context(self.reading())
            states = [stack.enter_context(rehearsal.opened_file(path)) for path in files]
            if plan is not None:
                planned = file.read(plan)
                _, copy = stack.enter_context(
                    rehearsal.after_plan(states[0], planned, plan, context)
                )
                count = len(planned.changes) - len(copy.failures)
                applied = [f"The plan on a copy of {files[0]}: {count} applied"]
                applied += [f"Not applied: {failure}" for failure in copy.failures]
                states.append(copy.client)
            before, after = states
            comparisons = list(replay.compare(before, after, source, context))
            names = {item.uuid: item.name for state in states for item in state.list_providers()}
        percent = parsed_args.percent or 0.0
        affected = [item for item in comparisons if item.is_affected(percent)]
        refused = _refused_before(comparisons)
        exhausted = sum(item.is_exhausted for item in affected)
        is_open = len(applied) > 1 or refused
        self.exit_code = 3 if affected else services.NOT_CHECKED if is_open else 0
        self.summary = [
            *applied,
            f"Distinct queries: {len(comparisons)}. Lost all candidates: {exhausted}. Lost more"
            f" than {percent:g} %: {len(affected) - exhausted}. Lines without a query:"
            f" {source.ignored}",
            *refused,
        ]
        return rows.listing(_columns(names), comparisons if parsed_args.all else affected)

    def _one_by_one(self, parsed_args: argparse.Namespace) -> ContextManager[ReadContext]:
        """Reading without parallel queries, which would slow each other down."""
        from osc_placement import plugin

        if self._settings().get(plugin.WORKERS_SETTING) is None:
            parsed_args.workers = 1
        return self.reading()

    def _against(self, parsed_args: argparse.Namespace) -> base.Rows:
        """The rows by shape."""
        from osc_placement import errors
        from osc_placement.client import api
        from osc_placement.workflows.snapshot import compare_services

        source = _read_queries(parsed_args)
        if self.is_local:
            raise errors.PlacementError("--against measures a service: select a cloud")
        services.authenticate(self.app, "sends queries to Placement")
        before = self.client()
        compare_services.check_different(before.target.identity.url, parsed_args.against)
        after = api.Client(before.transport.at(parsed_args.against), None)
        after.transport.pace.rate = parsed_args.rate
        with self._one_by_one(parsed_args) as context:
            shapes = compare_services.compare(before, after, source, context)
        compared = [item for shape in shapes for item in shape.comparisons]
        worse = [item for item in compared if item.is_lost or item.is_changed]
        limit = parsed_args.slower
        slow = [item for item in shapes if limit is not None and item.slower_percent > limit]
        refused = _refused_before(compared)
        self.exit_code = 3 if worse or slow else services.NOT_CHECKED if refused else 0
        self.table_columns = tuple(_SHAPES)[:8]
        self.summary = [
            f"{before.target} and {after.target}:"
            f" {counted(len(compared), 'different query', 'different queries')},"
            f" {sum(item.query.count for item in compared)} in the log; lost:"
            f" {sum(item.is_lost for item in compared)}, changed:"
            f" {sum(item.is_changed for item in compared)}, not compared (both end at the limit):"
            f" {sum(item.is_cut for item in compared)}. Lines without a query: {source.ignored}",
            *(f"Differs: {_difference(item)}" for item in worse[:_MOST_NAMED]),
            *(f"Slower: {item.shape} by {item.slower_percent:.0f} %" for item in slow),
            *refused,
        ]
        return rows.listing(_SHAPES, shapes)


def _read_queries(parsed_args: argparse.Namespace) -> logs.QuerySource:
    """The queries of the file. Errors: PlacementError for a file without any."""
    from osc_placement import errors
    from osc_placement.workflows.cloud import logs

    source = logs.parse(logs.lines(parsed_args.queries))
    if not source.queries:
        raise errors.PlacementError(
            f"{parsed_args.queries} has no query of allocation candidates in"
            f" {source.ignored} lines: give an access log of Placement, or a list of queries"
        )
    return source


def _columns(names: Mapping[str, str]) -> rows.Columns[replay.QueryComparison]:
    """The columns of queries; ``names`` are those of providers."""
    return {
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


def _refused_before(comparisons: Sequence[replay.QueryComparison]) -> list[str]:
    """A line about the queries that the first state refuses, which cannot lose a candidate."""
    refused = [item for item in comparisons if item.before.error]
    return [
        f"Refused before, and not compared: {len(refused)}, such as {_refusal(item, item.before)}"
        for item in refused[:1]
    ]


def _refusal(item: replay.QueryComparison, answer: replay.QueryAnswer) -> str:
    return f"{item.query.text}: {' '.join(answer.error.split())}"


def _difference(item: replay.QueryComparison) -> str:
    """What is different about the answers to a query."""
    before, after = item.before, item.after
    if item.is_refused:
        return _refusal(item, after)
    counts = f"candidates {len(before.candidates)} and {len(after.candidates)}"
    return f"{item.query.text}: {counts}, {len(item.lost)} lost"


def _texts(
    shape: compare_services.ShapeComparison,
    is_listed: Callable[[replay.QueryComparison], bool],
) -> rows.Cell:
    return rows.lines([item.query.text for item in shape.comparisons if is_listed(item)])


#: Times are in milliseconds.
_SHAPES: rows.Columns[compare_services.ShapeComparison] = {
    "shape": lambda item: item.shape,
    "queries": lambda item: len(item.comparisons),
    "median": lambda item: item.before.median,
    "median_after": lambda item: item.after.median,
    "p95": lambda item: item.before.percentile,
    "p95_after": lambda item: item.after.percentile,
    "worst": lambda item: item.before.worst,
    "worst_after": lambda item: item.after.worst,
    "times": lambda item: sum(comparison.query.count for comparison in item.comparisons),
    "lost": lambda item: _texts(item, lambda comparison: comparison.is_lost),
    "changed": lambda item: _texts(item, lambda comparison: comparison.is_changed),
    "not_compared": lambda item: _texts(item, lambda comparison: comparison.is_cut),
    "errors": lambda item: rows.lines(
        dict.fromkeys(
            error
            for comparison in item.comparisons
            if (error := comparison.after.error or comparison.before.error)
        )
    ),
}


def _slower(text: str) -> float:
    """An argparse type: a number from 0 on."""
    return _percent(text, float("inf"))


def _percent(text: str, most: float = 100) -> float:
    """An argparse type: a number from 0 to 100."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {most:g}")
    return value
