# SPDX-License-Identifier: Apache-2.0
"""``placement capacity show``."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.client import api_errors, query
from osc_placement.model import name
from osc_placement.v1.capacity import spread
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.output import rows, tables
from osc_placement.v1.resources import candidate

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model.candidate import CandidateQuery
    from osc_placement.scheduling.answer import Caveats
    from osc_placement.scheduling.case import Case
    from osc_placement.scheduling.request import NovaRequest
    from osc_placement.scheduling.server_hosts import ServerHosts
    from osc_placement.workflows.capacity import show
    from osc_placement.workflows.cloud.servers import Queries

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
    then "exact" is False, and "fits_at_most" is the upper bound. With --after or --add-hosts there
    is a row before and a row after. --keep and --after read all providers and allocations, with
    some requests for each provider. Only reads.
    """

    names_database = False
    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        services.NOT_CHECKED: f"unknown: fewer fit if what was not checked refuses hosts, or"
        f" {services.DIFFERENT}",
    }
    example = """\
openstack placement capacity show --resource VCPU=4 \\
    --resource MEMORY_MB=8192
openstack placement capacity show --flavor m1.small --flavor m1.large
openstack placement capacity show --flavor m1.large --keep 1 --by zone
openstack placement capacity show --flavor m1.large \\
    --add-hosts like=cmp-0001:4"""

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
        arguments.add_file(
            group, "--after", "Also count after the changes of this plan file", "<plan>"
        )
        arguments.add_repeated(
            group,
            "--add-hosts",
            "like=<host>:<count>",
            "Also count with <count> more hosts, empty and in service, that have the inventories,"
            " traits and aggregates of this host.",
            type=_added_hosts,
        )
        arguments.add_count(
            group,
            "--keep",
            "Also count what fits if any <count> hosts may fail and their servers must still"
            " find room",
        )
        arguments.add_count(
            group,
            "--timeout",
            "How long to search for --keep (default: 60)",
            "<seconds>",
            default=60,
        )
        group.add_argument(
            "--spread",
            metavar="<percent>",
            nargs="?",
            type=arguments.share,
            const=0.1,
            help="How even hosts are used now, in place of what fits, and the fewest moves to"
            " <percent> (default: 10%%)",
        )
        nova_request.add_options(parser, several=True)
        candidate.add_query(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        if parsed_args.spread is not None:
            return spread.show(self, parsed_args)
        from osc_placement.plan import file
        from osc_placement.scheduling.answer import joined
        from osc_placement.workflows.capacity import add_hosts, show

        path = parsed_args.after
        plan = None if path is None else (file.read(path), path)
        #: ``{title: nova's request}``, and what it is for.
        self._requests: dict[str, NovaRequest] = {}
        self._cases: dict[str, Case] = {}
        #: ``{flavor: why it is not counted}``
        self._refused: dict[str, str] = {}
        #: ``{title: why Placement refuses nova's request, so that nova finds no host}``
        self._causes: dict[str, str] = {}
        nova = nova_request.nova_reader(self, parsed_args)
        client, queries = self._queries(parsed_args, nova.compute)
        request = show.ShowRequest(
            queries,
            {title: case for title, case in self._cases.items() if title in queries},
            by=None if parsed_args.by is None else show.By(parsed_args.by),
            without=parsed_args.without,
            keep=parsed_args.keep,
            seconds=parsed_args.timeout,
            after=plan,
            added=[add_hosts.AddedHosts(*host) for host in parsed_args.add_hosts],
        )
        names = services.named_aggregates(self)
        with self.reading() as context:
            answer = show.show(client, request, context, names, nova)
        nothing = [show.nothing_fits(title) for title in self._causes]
        answer = dataclasses.replace(answer, rows=(*answer.rows, *nothing))
        self.summary = self._summary(answer)
        single = [row.caveats for row in answer.rows]
        caveats = joined([*(asked.caveats for asked in self._requests.values()), *single])
        code = services.NOT_CHECKED if answer.failures or self._differ(answer.rows) else 0
        self.exit_code = services.answer_code(
            code,
            answer.caveats + caveats,
            strict=parsed_args.strict,
            only_placement=parsed_args.no_nova
            or (not self._requests and nova.compute.hosts is None),
        )
        if self._refused:
            self.exit_code = 1
        self.answer = _tables(answer.rows, parsed_args)
        columns = _columns(answer, self._requests, self._causes, has_after=_has_after(parsed_args))
        return rows.listing(columns, answer.rows)

    def _summary(self, answer: show.Shown) -> list[str]:
        """What was assumed, not applied, not counted and not checked; at the end the answer."""
        from osc_placement.scheduling.answer import joined

        requests = self._requests
        titled = [(name, single.caveats) for name, single in requests.items()]
        titled += [(row.title, row.caveats) for row in answer.rows]
        lines = [f"Not checked for {name}: {text}" for name, own in titled for text in own.doubts]
        # The doubts of single counts stand above, with their titles.
        of_all = joined(dataclasses.replace(caveats, doubts=()) for _, caveats in titled)
        return [
            *dict.fromkeys(lines),
            *(f"Not applied: {failure}" for failure in answer.failures),
            *services.caveat_lines(
                joined([dataclasses.replace(of_all, notes=()), answer.caveats, of_all])
            ),
            *(f"Not counted: flavor {name}: {why}" for name, why in self._refused.items()),
            *(f"Nova finds no host for {title}: {why}" for title, why in self._causes.items()),
            *itertools.chain(*map(_kept, answer.rows)),
        ]

    def _differ(self, counted: Iterable[show.CapacityRow]) -> bool:
        """Whether requests for one flavor, by rules of nova that may hold, fit differently."""
        counts: dict[tuple[object, ...], set[object]] = {}
        for row in counted:
            server = self._requests.get(row.title)
            if server is not None:
                key = (server.server.name, row.part, row.is_after)
                reserve = row.kept and (row.kept.least, row.kept.most)
                count = row.capacity.count
                counts.setdefault(key, set()).add((count.least, count.most, reserve))
        return any(len(different) > 1 for different in counts.values())

    def _queries(
        self, parsed_args: argparse.Namespace, compute: ServerHosts
    ) -> tuple[api.Client, dict[str, Queries]]:
        """The client, and ``{title: queries}`` without limits. Errors: ApiError."""
        parameters: query.Pairs = []
        queries: dict[str, tuple[CandidateQuery, ...]]
        options = candidate.query_options(self, parsed_args)
        if options is None:
            self._read_flavors(parsed_args, compute)
            queries = {title: server.queries for title, server in self._requests.items()}
            client = candidate.connected(self, itertools.chain(*queries.values()))
        else:
            client, described = candidate.of_options(self, options)
            parameters = described if isinstance(described, list) else []
            single = query.read_candidates(described) if isinstance(described, list) else described
            queries = {_title(single): (single,)}
        counted: dict[str, Queries] = {}
        for title, several in queries.items():
            unlimited = tuple(dataclasses.replace(single, limit=None) for single in several)
            try:
                for single in unlimited:
                    _check_query(client, parameters or query.candidate_pairs(single))
            except api_errors.ApiError as error:
                if error.status != 400 or not (
                    options is None or (options.text and _is_unknown(client, several[0]))
                ):
                    raise
                self._causes[title] = api_errors.one_line(error.detail)
            else:
                counted[title] = (unlimited,)
        return client, counted

    def _read_flavors(self, parsed_args: argparse.Namespace, compute: ServerHosts) -> None:
        """Read nova's requests; a flavor may have several, of different releases of nova.

        Errors: InvalidInput without any flavor that can be counted.
        """
        from osc_placement.workflows.cloud import cases

        opened = nova_request.opened(self)
        for flavor in dict.fromkeys(parsed_args.flavor):
            try:
                case = cases.read(opened, nova_request.server_options(parsed_args, flavor), compute)
            except errors.InvalidInput as error:
                self._refused[flavor] = "; ".join(error.reasons)
                continue
            for server in case.requests:
                title = f"{flavor} ({server.title})" if len(case.requests) > 1 else flavor
                self._requests[title] = server
                self._cases[title] = dataclasses.replace(case, releases=server.releases)
        if self._refused and not self._requests:
            raise errors.InvalidInput(list(self._refused.values()))


def _kept(row: show.CapacityRow) -> Iterator[str]:
    """The answer of ``--keep``; for a part of the cloud, only why nothing more is safe there."""
    kept = row.kept
    if kept is None or (row.part and not kept.unsafe):
        return
    where = "".join([f" in {row.part}" * bool(row.part), " afterwards" * row.is_after])
    number, why = _bounds(kept.least, kept.most), ""
    if kept.unsafe:
        why = f": the servers of {name.and_more(kept.unsafe)} find no room on the other hosts"
    failures = name.counted(kept.failures, "host")
    yield f"While any {failures} may fail, {number} {row.title} fit{where}{why}"


#: More hosts than any cloud has.
_MOST_HOSTS = 10_000


def _added_hosts(text: str) -> tuple[str, int]:
    """``(host, count)`` of ``like=<host>:<count>``."""
    host, colon, number = text.removeprefix("like=").rpartition(":")
    if not (text.startswith("like=") and colon and host):
        raise argparse.ArgumentTypeError(f"{text!r} is not like=<host>:<count>")
    added = arguments.positive(number)
    if added > _MOST_HOSTS:
        raise argparse.ArgumentTypeError(f"{text}: at most {_MOST_HOSTS} hosts can be added")
    return host, added


def _has_after(parsed_args: argparse.Namespace) -> bool:
    return bool(parsed_args.after or parsed_args.add_hosts)


def _check_query(client: api.Client, parameters: Sequence[tuple[str, str]]) -> None:
    """Let Placement check a query as it was given. Requests: one. Errors: ApiError."""
    pairs = [(name, value) for name, value in parameters if name != "limit"]
    client.list_allocation_candidates([*pairs, ("limit", "1")])


def _is_unknown(client: api.Client, candidate_query: CandidateQuery) -> bool:
    """Whether the cloud lacks a trait or class of a query. Requests: up to two listings."""
    from osc_placement.workflows.cloud import observe, selector

    return bool(
        selector.unknown_traits(client, sorted(observe.traits([candidate_query])))
        or selector.unknown_classes(client, observe.resource_classes([candidate_query]))
    )


def _title(query: CandidateQuery) -> str:
    """``VCPU:2,DISK_GB:10``."""
    return ",".join(
        f"{name}:{amount}" for group in query.groups for name, amount in group.resources.items()
    )


def _columns(
    answer: show.Shown,
    requests: Mapping[str, NovaRequest],
    causes: Mapping[str, str],
    *,
    has_after: bool,
) -> rows.Columns[show.CapacityRow]:
    """The columns; ``requests`` are those of nova, ``causes`` why Placement refuses some."""
    from osc_placement.scheduling.answer import Caveats

    def caveats_of(row: show.CapacityRow) -> Caveats:
        of_nova = requests[row.title].caveats if row.title in requests else Caveats()
        cause = (causes[row.title],) if row.title in causes else ()
        return Caveats(notes=cause) + answer.caveats + of_nova + row.caveats

    return {
        "request": lambda row: row.title,
        "part": lambda row: row.part or None,
        "state": lambda row: _state(row) if has_after else None,
        "fits": lambda row: row.capacity.count.least,
        "fits_at_most": lambda row: row.capacity.count.most,
        "exact": lambda row: row.capacity.count.is_exact,
        "hosts": lambda row: row.capacity.hosts,
        "scarcest": lambda row: row.capacity.scarcest,
        "with_failures": lambda row: row.kept and row.kept.least,
        "with_failures_at_most": lambda row: row.kept and row.kept.most,
        "unsafe_hosts": lambda row: row.kept and rows.lines(row.kept.unsafe),
        "classes": lambda row: _classes(row.capacity.classes),
        **services.caveat_columns(caveats_of),
    }


def _classes(listed: Iterable[Sequence[Any]]) -> rows.Cell:
    """``[{class, requested, …}]``; a table shows ``VCPU=left``."""
    items = [dict(zip(_CLASS_COLUMNS, values, strict=True)) for values in listed]
    return rows.Cell(items, [f"{item['class']}={item['left']}" for item in items])


def _state(row: show.CapacityRow) -> str:
    return "after" if row.is_after else "before"


def _tables(
    counted: Sequence[show.CapacityRow], parsed_args: argparse.Namespace
) -> list[tables.Table]:
    """What fits, and what remains of each class: one table for each request."""
    state = ["state"] if _has_after(parsed_args) else []
    keys = ["request", *([parsed_args.by] if parsed_args.by else []), *state]
    counts = []
    classes: dict[str, list[tuple[Any, ...]]] = {}
    for row in counted:
        capacity, kept = row.capacity, row.kept
        changed = [_state(row)] if state else []
        part = [row.part or None] if parsed_args.by else []
        fits = _bounds(capacity.count.least, capacity.count.most)
        reserve = [_bounds(kept.least, kept.most)] if kept is not None else []
        end = (fits, *reserve, capacity.hosts, capacity.scarcest)
        counts.append((row.title, *part, *changed, *end))
        classes.setdefault(row.title, []).extend((*changed, *item) for item in capacity.classes)
    failing = [f"with {parsed_args.keep} failing"] if parsed_args.keep else []
    shown = [tables.Table("Capacity", (*keys, "fits", *failing, "hosts", "scarcest"), counts)]
    if not parsed_args.by:
        names = (*state, *_CLASS_COLUMNS)
        shown += [tables.Table(f"Classes of {name}", names, item) for name, item in classes.items()]
    return shown


def _bounds(least: int, most: int) -> str:
    """``5`` for an exact number, ``5 to 8`` for bounds."""
    return str(least) if least == most else f"{least} to {most}"
