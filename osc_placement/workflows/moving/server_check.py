# SPDX-License-Identifier: Apache-2.0
"""Which servers can leave their hosts, by which way: what nova-api says of each.

``check`` sends requests; the rest is pure. Whether a target has room is another question: that of
``placement host check``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.nova import api, servers, values
from osc_placement.scheduling import nova_options, verdict
from osc_placement.scheduling.answer import Answer, Verdict, among
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import cases
from osc_placement.workflows.cloud.nova_request import RequestServices

#: The ways off a host, as the command shows them.
WAYS = (Way.LIVE_MIGRATE, Way.MIGRATE, Way.EVACUATE)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerCheckRequest:
    """The operator's arguments: names or UUIDs of servers, all without any, and nova's hosts."""

    servers: Sequence[str] = ()
    hosts: Collection[str] = ()
    scheduler: nova_options.SchedulerOptions = dataclasses.field(
        default_factory=nova_options.SchedulerOptions
    )


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedServer:
    """A server, and what nova says about each way off its host.

    An evacuation is checked as if the host was down. ``rules`` is ``{way: nova's rule}`` for the
    ways that nova refuses.
    """

    server: values.Server
    ways: Mapping[Way, Verdict]
    rules: Mapping[Way, str] = dataclasses.field(default_factory=dict)

    def answer(self, ways: Iterable[Way]) -> Answer:
        """Whether the server can leave by one of these ways."""
        return among(self.ways[way] for way in ways)


def check(
    services: RequestServices, compute: ServerHosts, request: ServerCheckRequest
) -> list[CheckedServer]:
    """Check servers, by host and name.

    Requests: to nova one per 1000 servers, or those of ``servers.named``; those of
    ``cases.of_servers``.
    Errors: InvalidInput for a server that nova does not have, or a name of several.
    """
    listed = _chosen(services.nova, request)
    read = cases.of_servers(services, listed, request.scheduler, compute)
    checked = [_checked(listed[uuid], case) for uuid, case in read.items()]
    return sorted(checked, key=lambda server: (server.server.host or "", server.server.name))


def _checked(server: values.Server, case: Case | str) -> CheckedServer:
    if isinstance(case, str):
        return CheckedServer(server, dict.fromkeys(WAYS, Verdict(unknown=(case,))))
    by_way = {way: dataclasses.replace(case, way=way, source_fails=True) for way in WAYS}
    return CheckedServer(
        server,
        {way: verdict.refusal(own) for way, own in by_way.items()},
        {way: rule for way, own in by_way.items() if (rule := verdict.refusing_rule(own))},
    )


def _chosen(nova: api.Nova, request: ServerCheckRequest) -> dict[str, values.Server]:
    """The servers by UUID. Errors: InvalidInput."""
    if request.servers:
        chosen = servers.named(nova, request.servers)
    else:
        chosen = {server.uuid: server for server in servers.servers(nova)}
    elsewhere = [
        each for each in chosen.values() if request.hosts and each.host not in request.hosts
    ]
    errors.InputErrors(
        f"{cases.label(server)} is not on {' or '.join(request.hosts)}"
        for server in (elsewhere if request.servers else ())
    ).check()
    return {
        uuid: server
        for uuid, server in chosen.items()
        if not server.is_deleted and (not request.hosts or server.host in request.hosts)
    }
