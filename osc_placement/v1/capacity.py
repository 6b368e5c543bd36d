# SPDX-License-Identifier: Apache-2.0
"""``placement capacity show``."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import api_errors
from osc_placement.v1 import (
    arguments,
    base,
    candidate,
    nova_request,
    services,
)
from osc_placement.v1.output import progress, rows, tables

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model.candidate import CandidateQuery
    from osc_placement.nova import request
    from osc_placement.workflows.capacity import nova_servers, show
    from osc_placement.workflows.context import ReadContext

COLUMNS = (
    "request",
    "part",
    "plan",
    "fits",
    "fits_at_most",
    "exact",
    "hosts",
    "scarcest",
    "with_failures",
    "with_failures_at_most",
    "unsafe_hosts",
    "classes",
    "assumed",
    "not_counted",
    "not_judged",
)

_CLASS_COLUMNS = ("class", "requested", "capacity", "used", "free", "fits", "left", "fragmented")

#: The parts of the cloud that --by counts.
PARTS = ("aggregate", "host", "zone")


class ShowCapacity(base.ReportLister):
    """Show how many servers of a flavor, or how many requests, still fit

    Counts how often each request fits, alone, in the whole cloud or in each host, aggregate or
    zone. Hosts that nova does not have, or whose nova-compute is down or disabled, are not
    counted. Without --by, a second table shows what remains of each class: "fits" is the number
    of requests for which this class alone would be enough, "left" is free after the last
    request, and "fragmented" is the part of it on providers with less than one request needs.
    Where hosts share a provider or offer very many choices the count can be a lower bound;
    then "exact" is False, and "fits_at_most" is the upper bound. --keep and --after need every
    record: of a service they save a snapshot in a temporary file, with some requests for each
    provider and one for each consumer. Only reads.
    """

    writes = False
    names_database = False
    required_feature = "nested candidates"
    default_version = microversion.MAXIMUM
    exit_codes = {**base.EXIT_CODES, services.NOT_JUDGED: services.STRICT}
    example = """\
openstack placement capacity show --resource VCPU=4 \\
    --resource MEMORY_MB=8192
openstack placement capacity show --flavor m1.small --flavor m1.large
openstack placement capacity show --flavor m1.large --keep 1 --by zone"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to count")
        group.add_argument(
            "--by", choices=PARTS, help="Count each host, aggregate or availability zone alone"
        )
        arguments.add_repeated(
            group,
            "--without",
            "<host>",
            "Leave out this host: nova's name, or the name or UUID of a provider. May be repeated.",
        )
        group.add_argument(
            "--after",
            metavar="<plan>",
            type=pathlib.Path,
            help="Also count after the changes of this plan file",
        )
        group.add_argument(
            "--keep",
            metavar="<count>",
            type=arguments.positive,
            help="Also count what fits if any <count> hosts may fail and their servers must still"
            " find room",
        )
        group.add_argument(
            "--timeout",
            metavar="<seconds>",
            type=arguments.positive,
            default=60,
            help="How long to search for --keep (default: 60)",
        )
        nova_request.add_options(parser, several=True)
        candidate.add_query(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.capacity import show
        from osc_placement.workflows.context import ReadContext

        plan = self._plan(parsed_args)
        #: ``{flavor: why it is not counted}``
        self._refused: dict[str, str] = {}
        #: ``{request: what its flavor leaves open}``
        self._not_judged: dict[str, Sequence[str]] = {}
        #: ``{request: what was assumed about nova's query for its flavor}``
        self._assumed: dict[str, Sequence[str]] = {}
        client, queries, assumptions = self._queries(parsed_args)
        request = show.ShowRequest(
            queries,
            by=None if parsed_args.by is None else show.By(parsed_args.by),
            without=parsed_args.without,
            keep=parsed_args.keep,
            seconds=parsed_args.timeout,
            after=plan,
        )
        host_aggregates = services.host_aggregates(self)
        nova = nova_request.nova_reader(self, parsed_args)
        with progress.shown(quiet=self.is_quiet) as shown:
            context = ReadContext(parsed_args.workers, shown)
            with self._with_every_record(client, request, context, nova) as copy:
                answer = show.show(copy, request, context, host_aggregates, nova)
        self.summary = list(
            dict.fromkeys([*assumptions, *(f"Assumed: {text}" for text in answer.assumed)])
        )
        self.summary += [f"Not applied: {failure}" for failure in answer.failures]
        refused = {name: why for row in answer.rows for name, why in row.not_counted.items()}
        self.summary += services.judgement_lines(refused, answer.not_judged)
        self.summary += [
            f"Not counted: flavor {name}: {why}" for name, why in self._refused.items()
        ]
        open_parts = [*answer.not_judged, *itertools.chain(*self._not_judged.values())]
        self.exit_code = services.exit_code(0, open_parts, parsed_args)
        if self._refused:
            self.exit_code = 1
        unsafe = dict.fromkeys(
            name for row in answer.rows if row.kept is not None for name in row.kept.unsafe
        )
        self.summary += [
            f"The servers of {name} find no room on the other hosts, so nothing more is safe"
            for name in unsafe
        ]
        return COLUMNS, [
            _row(
                row,
                dict.fromkeys([*self._assumed.get(row.title, ()), *answer.assumed]),
                [*answer.not_judged, *self._not_judged.get(row.title, ())],
                parsed_args,
            )
            for row in answer.rows
        ]

    def _with_every_record(
        self,
        client: api.Client,
        request: show.ShowRequest,
        context: ReadContext,
        nova: nova_servers.NovaReader,
    ) -> contextlib.AbstractContextManager[api.Client]:
        """The client; of a service that must be read whole, a client of its temporary copy."""
        from osc_placement.plan import plan
        from osc_placement.workflows.cloud import observe
        from osc_placement.workflows.snapshot import replay

        if observe.is_file(client) or not (request.keep or request.after):
            return contextlib.nullcontext(client)
        # Find a plan of another cloud, or a missing right in nova, before the cloud is read.
        if request.after is not None:
            plan.check_target(request.after[0], client.target, client.origin)
        if request.keep:
            nova.servers([])
        return replay.copied(client, context)

    def _queries(
        self, parsed_args: argparse.Namespace
    ) -> tuple[api.Client, Mapping[str, CandidateQuery], Sequence[str]]:
        """The client, ``{title: query}``, and lines about what was assumed and not judged.

        Errors: as the service refuses one.
        """
        from osc_placement.client import query
        from osc_placement.nova import request
        from osc_placement.workflows.cloud import observe

        nova_request.check(self, parsed_args)
        parameters: query.Pairs = []
        if nova_request.is_given(parsed_args):
            if candidate.has_options(parsed_args) or parsed_args.query:
                self.usage_error("argument --flavor: not allowed with options of a query")
            opened = nova_request.opened(self, parsed_args)
            requests: dict[str, request.NovaRequest] = {}
            for name in dict.fromkeys(parsed_args.flavor):
                try:
                    several = nova_request.read_flavor(opened, parsed_args, name)
                except errors.InvalidInput as error:
                    self._refused[name] = "; ".join(error.reasons)
                    continue
                for single in several:
                    title = f"{name} ({single.title})" if len(several) > 1 else name
                    requests[title] = single
            self._require_any(requests)
            queries = {name: single.query for name, single in requests.items()}
            self._not_judged = {name: single.not_judged for name, single in requests.items()}
            self._assumed = {name: single.assumptions for name, single in requests.items()}
            assumptions = [
                *(
                    f"Assumed: {text}"
                    for single in requests.values()
                    for text in single.assumptions
                ),
                *(
                    f"Not judged: {text}"
                    if text in request.FOR_EVERY_FLAVOR
                    else f"Not judged for {name}: {text}"
                    for name, single in requests.items()
                    for text in single.not_judged
                ),
            ]
            pairs = [pair for one in queries.values() for pair in query.candidate_pairs(one)]
            client = self.connect(query.candidate_features(pairs).items())
        else:
            candidate.check(self, parsed_args)
            client = self.connect(candidate.request_features(parsed_args))
            parsed_query = candidate.read(client, parsed_args, services.host_aggregates(self))
            queries, assumptions = {_title(parsed_query): parsed_query}, []
            parameters = query.parse(parsed_args.query or "")
        queries = {name: dataclasses.replace(one, limit=None) for name, one in queries.items()}
        if not (parsed_args.by or parsed_args.keep or parsed_args.after):
            observe.read_part(client, queries.values())
        for name, one in list(queries.items()):
            try:
                _check_query(client, parameters or query.candidate_pairs(one))
            except api_errors.ApiError as error:
                if error.status != 400 or not nova_request.is_given(parsed_args):
                    raise
                self._refused[name] = error.detail
                del queries[name]
        self._require_any(queries)
        return client, queries, assumptions

    def _require_any(self, counted: Collection[str]) -> None:
        """Refuse a command line without any flavor that can be counted. Errors: InvalidInput."""
        if self._refused and not counted:
            raise errors.InvalidInput(list(self._refused.values()))

    def _plan(self, parsed_args: argparse.Namespace) -> Any:
        from osc_placement.plan import file

        path = parsed_args.after
        return None if path is None else (file.read(path), path)

    def answer_tables(self, column_names: Sequence[str], data: Any) -> Sequence[tables.Table]:
        """What fits, and what remains of each class."""
        return _tables(data, self._arguments)


def _check_query(client: api.Client, parameters: Sequence[tuple[str, str]]) -> None:
    """Let Placement check a query as it was given. Requests: one. Errors: ApiError."""
    pairs = [(name, value) for name, value in parameters if name != "limit"]
    client.list_allocation_candidates([*pairs, ("limit", "1")])


def _title(query: CandidateQuery) -> str:
    """``VCPU:2,DISK_GB:10``."""
    return ",".join(
        f"{name}:{amount}" for group in query.groups for name, amount in group.resources.items()
    )


class _Classes(rows.Lines):
    """``[{class, requested, …}]``; a table shows ``VCPU=left``."""

    def human_readable(self) -> str:
        return "\n".join(f"{item['class']}={item['left']}" for item in self._value)


def _row(
    row: show.Row,
    assumed: Collection[str],
    not_judged: Sequence[str],
    parsed_args: argparse.Namespace,
) -> rows.Row:
    capacity, kept = row.capacity, row.kept
    return (
        row.title,
        row.part or None,
        None if parsed_args.after is None else ("after" if row.is_after else "before"),
        capacity.count.least,
        capacity.count.most,
        capacity.count.is_exact,
        capacity.hosts,
        capacity.scarcest,
        None if kept is None else kept.least,
        None if kept is None else kept.most,
        None if kept is None else rows.Lines(list(kept.unsafe)),
        _Classes(
            [
                {
                    "class": item.name,
                    "requested": item.requested,
                    "capacity": item.capacity,
                    "used": item.used,
                    "free": item.free,
                    "fits": item.fits,
                    "left": item.left,
                    "fragmented": item.fragmented,
                }
                for item in capacity.classes
            ]
        ),
        rows.Lines(list(assumed)),
        rows.Lines(services.not_counted_rows(row.not_counted)),
        rows.Lines(list(not_judged)),
    )


def _tables(data: Any, parsed_args: argparse.Namespace) -> list[tables.Table]:
    """What fits, and what remains of each class: one table for each request."""
    facts = [dict(zip(COLUMNS, row, strict=True)) for row in data]
    plan = ["plan"] if parsed_args.after else []
    keys = ["request", *([parsed_args.by] if parsed_args.by else []), *plan]
    counts = []
    classes: dict[str, list[tuple[Any, ...]]] = {}
    for row in facts:
        changed = (row["plan"],) if parsed_args.after else ()
        part = (row["part"],) if parsed_args.by else ()
        fits = _bounds(row["fits"], row["fits_at_most"])
        reserve = _bounds(row["with_failures"], row["with_failures_at_most"])
        kept = (reserve,) if parsed_args.keep else ()
        end = (fits, *kept, row["hosts"], row["scarcest"])
        counts.append((row["request"], *part, *changed, *end))
        classes.setdefault(row["request"], []).extend(
            (*changed, *item.values()) for item in row["classes"].machine_readable()
        )
    failing = [f"with {parsed_args.keep} failing"] if parsed_args.keep else []
    shown = [tables.Table("Capacity", (*keys, "fits", *failing, "hosts", "scarcest"), counts)]
    if not parsed_args.by:
        names = (*plan, *_CLASS_COLUMNS)
        shown += [tables.Table(f"Classes of {name}", names, item) for name, item in classes.items()]
    return shown


def _bounds(least: int | None, most: int | None) -> str:
    """``5`` for an exact number, ``5 to 8`` for bounds."""
    return str(least) if least == most else f"{least} to {most}"
