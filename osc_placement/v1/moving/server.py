# SPDX-License-Identifier: Apache-2.0
"""``placement server check``."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.scheduling.answer import Verdict
    from osc_placement.scheduling.case import Way
    from osc_placement.workflows.moving import server_check

#: ``{column: the way, a value of --way}``
_WAYS = {"live": "live-migrate", "cold": "migrate", "evacuate": "evacuate"}


class CheckServers(base.ReportLister):
    """Show which servers nova can move off their hosts, and by which way

    For each server: whether nova accepts a live migration, a cold one, and an evacuation once its
    host is down. The answer is "yes", "no" with nova's reason, or "unknown" with the fact that
    nova does not show. It is about nova's own rules, whatever room there is: "placement host
    check" and "placement host drain" look for targets. Only reads.
    """

    names_database = False
    exit_codes = {
        **base.EXIT_CODES,
        0: "nova moves each of the servers",
        3: "nova does not move a server",
        services.NOT_CHECKED: services.UNKNOWN,
    }
    example = """\
openstack placement server check
openstack placement server check --host cmp-0001 --cannot
openstack placement server check web-1 --way live-migrate"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "servers",
            metavar="<server>",
            nargs="*",
            help="The name or UUID of a server (default: all servers)",
        )
        arguments.add_repeated(parser, "--host", "<host>", "The servers of this host of nova.")
        parser.add_argument(
            "--way",
            choices=tuple(_WAYS.values()),
            help="Only this way counts (default: a server can leave live or cold)",
        )
        arguments.add_flag(parser, "--cannot", "Only the servers that cannot leave for certain")
        nova_request.add_scheduler_options(parser, checks=False)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.scheduling.answer import Answer
        from osc_placement.scheduling.case import Way
        from osc_placement.workflows.cloud import compute_nodes
        from osc_placement.workflows.moving import server_check

        opened = nova_request.opened(self)
        compute = compute_nodes.read_server_hosts(opened.nova)
        hosts: Sequence[str] = ()
        if parsed_args.host:
            if compute.hosts is None:
                raise errors.PlacementError(f"--host: not known: {'; '.join(compute.not_checked)}")
            hosts = sorted(compute_nodes.host_names(parsed_args.host, compute.hosts))
            known = compute.hosts.of_host().keys() | compute.hosts.services
            errors.InputErrors(compute_nodes.unknown_hosts(hosts, known)).check()
        question = server_check.ServerCheckRequest(
            parsed_args.servers, hosts, nova_request.scheduler(parsed_args)
        )
        checked = server_check.check(opened, compute, question)
        ways = (Way(parsed_args.way),) if parsed_args.way else (Way.LIVE_MIGRATE, Way.MIGRATE)
        answers = [server.answer(ways) for server in checked]
        codes = {Answer.NO: 3, Answer.UNKNOWN: services.NOT_CHECKED, Answer.YES: 0}
        self.exit_code = next((codes[code] for code in codes if code in answers), 0)
        counts = collections.Counter(map(str, answers))
        parts = ", ".join(f"{number} {text}" for text, number in sorted(counts.items()))
        how = parsed_args.way or "live or cold"
        self.summary = [f"{counted(len(checked), 'server')}, {how}: {parts or 'none'}"]
        shown = [
            server
            for server, answer in zip(checked, answers, strict=True)
            if answer is not Answer.YES or not parsed_args.cannot
        ]
        return rows.listing(_columns(), shown)


def _columns() -> rows.Columns[server_check.CheckedServer]:
    return {
        "server": lambda each: each.server.uuid,
        "name": lambda each: each.server.name,
        "host": lambda each: each.server.host,
        "live": lambda each: str(_of(each, "live").answer),
        "cold": lambda each: str(_of(each, "cold").answer),
        "evacuate": lambda each: str(_of(each, "evacuate").answer),
        "reasons": lambda each: rows.lines(_reasons(each)),
    }


def _of(checked: server_check.CheckedServer, column: str) -> Verdict:
    by_name: Mapping[str, Way] = {str(way): way for way in checked.ways}
    return checked.ways[by_name[_WAYS[column]]]


def _reasons(checked: server_check.CheckedServer) -> list[str]:
    """``live, evacuate: it has a virtual TPM``: each reason once, with its ways."""
    ways: dict[str, list[str]] = {}
    for column in _WAYS:
        answer = _of(checked, column)
        if answer.text:
            ways.setdefault(answer.text, []).append(column)
    return [f"{', '.join(names)}: {text}" for text, names in ways.items()]
