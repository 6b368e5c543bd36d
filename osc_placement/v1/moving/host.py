# SPDX-License-Identifier: Apache-2.0
"""``placement host check``."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.moving import shown
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from osc_placement.workflows.moving import stop_hosts


class CheckHosts(base.ReportShowOne):
    """Show whether some hosts may stop: whether their servers fit on the other hosts

    Each server must find on one other host what it has now: a host whose nova-compute is up and
    enabled, and none of the named ones. The servers of a host are those whose guest may be there,
    or whose data is needed there: while a server moves, neither end may stop. The answer is "yes",
    "no" with the servers that find no place, or "unknown" with what was not checked and can make
    it a no; "placement host drain" says where each server goes, and in which order. With
    --max-count, the answer is the largest group of these hosts that may stop together. Services,
    migrations, traits, aggregates, zones and server groups are those of nova: of the cloud, of a
    snapshot that was saved --with-nova, or of --os-nova-recording. With --no-nova, the answer is
    Placement's alone. Only reads.
    """

    names_database = False
    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        0: "yes: the hosts may stop",
        3: "no: some servers find no place",
        services.NOT_CHECKED: services.UNKNOWN,
    }
    example = """\
openstack placement host check cmp-0001 cmp-0002
openstack --os-placement-database cloud.sqlite \\
    placement host check --aggregate <uuid> --max-count 5"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        shown.add_hosts(parser)
        shown.add_aggregate(parser)
        arguments.add_count(
            parser,
            "--max-count",
            "Find a largest set of these hosts, at most <count>, that may stop at once",
        )
        shown.add_search_options(parser, checks=True)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.moving import stop_hosts

        if not (parsed_args.hosts or parsed_args.aggregate):
            self.usage_error("name a host, or give --aggregate")
        client = self.connect()
        nova = nova_request.nova_reader(self, parsed_args)
        hosts, aggregates = shown.of_aggregates(
            self, parsed_args.aggregate, no_nova=parsed_args.no_nova
        )
        with self.reading() as context:
            answer = stop_hosts.check(
                client,
                stop_hosts.StopRequest(
                    [*parsed_args.hosts, *hosts],
                    aggregates,
                    parsed_args.max_count,
                    parsed_args.timeout,
                    only_placement=bool(parsed_args.no_nova),
                ),
                nova,
                context,
            )
        code = {"yes": 0, "no": 3, "unknown": services.NOT_CHECKED}[answer.answer]
        self.exit_code = services.answer_code(
            code, answer.caveats, strict=parsed_args.strict, only_placement=parsed_args.no_nova
        )
        is_told = answer.reason not in ("", *answer.caveats.doubts)
        self.summary = [
            *([f"Reason: {answer.reason}"] if is_told else []),
            *services.caveat_lines(answer.caveats),
        ]
        self.answer = list(_tables(answer))
        fields = _fields(answer)
        return tuple(fields), tuple(fields.values())


def _fields(answer: stop_hosts.StopAnswer) -> dict[str, Any]:
    unplaced = [
        {
            "server": item.server,
            "name": answer.server_names.get(item.server, ""),
            "host": item.source,
            "reasons": list(item.reasons),
        }
        for item in answer.unplaced
    ]
    columns: rows.Columns[stop_hosts.StopAnswer] = services.caveat_columns(lambda it: it.caveats)
    return {
        "answer": str(answer.answer),
        "hosts": rows.lines(answer.hosts),
        "servers": answer.servers,
        "unplaced": rows.lines(unplaced),
        "without_allocations": rows.lines(answer.without_allocations),
        "reason": answer.reason,
        **{name: of(answer) for name, of in columns.items()},
    }


def _tables(answer: stop_hosts.StopAnswer) -> Iterator[tables.Table]:
    names, unplaced = answer.server_names, answer.unplaced
    without = len({item.server for item in unplaced})
    row = (str(answer.answer), rows.lines(answer.hosts), answer.servers, without)
    yield tables.Table("Answer", ("ok to stop", "hosts", "servers", "unplaced"), [row])
    for host, items in itertools.groupby(unplaced, key=lambda item: item.source):
        yield tables.Table(
            f"Servers of {rows.printable(host)} without a place",
            ("server", "name", "reasons"),
            [(item.server, names.get(item.server, ""), rows.lines(item.reasons)) for item in items],
        )
