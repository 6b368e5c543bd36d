# SPDX-License-Identifier: Apache-2.0
"""The answer to "may these hosts stop", with names instead of UUIDs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.scheduling.answer import Answer, Caveats
from osc_placement.scheduling.case import Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, observe_hosts, servers, ways
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.moving import places, stop


@dataclasses.dataclass(frozen=True, slots=True)
class StopRequest:
    """The operator's arguments: names or UUIDs of hosts, UUIDs of aggregates.

    ``most`` asks for a largest set of at most this number of hosts. ``only_placement``: the
    operator asks for Placement's answer, without what only nova knows.
    """

    hosts: Sequence[str] = ()
    aggregates: Sequence[str] = ()
    most: int | None = None
    seconds: float = 60.0
    only_placement: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Stranded:
    """A server with allocations that finds no place, or that nova does not migrate."""

    server: str
    source: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StopAnswer:
    """``hosts`` are the names of the hosts that the answer is about.

    ``servers`` is the number of their servers, those without allocations (UUIDs in
    ``without_allocations``) included. ``server_names`` is ``{UUID: name}``.
    """

    answer: Answer
    hosts: tuple[str, ...]
    servers: int = 0
    unplaced: tuple[Stranded, ...] = ()
    reason: str = ""
    caveats: Caveats = dataclasses.field(default_factory=Caveats)
    without_allocations: tuple[str, ...] = ()
    server_names: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check(
    client: api.Client,
    request: StopRequest,
    nova: nova_servers.NovaReader | None = None,
    context: ReadContext | None = None,
) -> StopAnswer:
    """Whether hosts may stop.

    ``nova`` is None without nova. Requests: those of ``observe_hosts.read``. Errors: those of it.
    """
    nova = nova or nova_servers.NovaReader()
    context = context or ReadContext()
    read = observe_hosts.read(client, request.hosts, request.aggregates, nova, context)
    return _check(read, request, nova.compute)


def _check(
    read: observe_hosts.ServersRead, request: StopRequest, compute: ServerHosts
) -> StopAnswer:
    base = read.base
    refused = compute.refused(base.tree)
    joined = observe_hosts.join(read, compute)
    moves = places.Moves(
        base,
        joined.moving,
        SearchBudget(request.seconds),
        groups=read.known.groups,
        refused=refused,
        root_of=compute.root_of,
    )
    unlisted = [root for root in read.roots if _is_unlisted(moves, compute, root)]
    if request.most is None:
        verdict = stop.may_stop(moves, read.roots)
    else:
        free = [root for root in read.roots if root not in joined.stuck.union(unlisted)]
        verdict = stop.largest(moves, free or read.roots[:1], request.most)
    names = {uuid: provider.name for uuid, provider in base.providers.items()}
    of_hosts = joined.on(verdict.hosts)
    unlisted = [root for root in unlisted if root in verdict.hosts]
    caveats = Caveats(
        (
            *(f"the servers of {names[root]}: {refused[root]}" for root in unlisted),
            *filter(None, [read.cloud.servers_problem]),
            *of_hosts.doubts(),
            *verdict.doubts,
            *compute.not_checked,
        ),
        not_counted={
            names[root]: refused[root] for root in moves.not_counted if root not in verdict.hosts
        },
    )
    notes = (*_only_cold(of_hosts, verdict), *_left_over(of_hosts, names))
    caveats += read.known.caveats + Caveats(notes=notes)
    answer, reason = verdict.answer, verdict.reason
    waiting = [*_sources(read, verdict.hosts, compute)]
    if of_hosts.by_state.held or waiting:
        answer = Answer.NO
    elif caveats.doubts and answer is Answer.YES and not request.only_placement:
        answer, reason = Answer.UNKNOWN, caveats.doubts[0]
    return StopAnswer(
        answer,
        tuple(names[root] for root in verdict.hosts),
        len(of_hosts.uuids),
        tuple(sorted([*_stranded(verdict, of_hosts, names), *waiting], key=_by_host)),
        reason,
        caveats,
        (*of_hosts.lost.missing, *of_hosts.lost.elsewhere),
        {uuid: server.name for uuid, server in read.cloud.listed_servers.items() if server.name},
    )


def _stranded(
    verdict: stop.StopVerdict, joined: observe_hosts.JoinedServers, names: Mapping[str, str]
) -> list[Stranded]:
    """The servers without a place, and those that must not lose their host."""
    stranded = [
        Stranded(unplaced.server.uuid, names[unplaced.server.root_uuid], unplaced.reasons)
        for unplaced in verdict.unplaced
    ]
    stranded += [
        Stranded(uuid, names[root], (why,)) for (uuid, root), why in joined.by_state.held.items()
    ]
    return stranded


def _by_host(server: Stranded) -> tuple[str, str]:
    return server.source, server.server


def _sources(
    read: observe_hosts.ServersRead, roots: Sequence[str], compute: ServerHosts
) -> Iterator[Stranded]:
    """The servers whose migration is not over, on a source that nova lists no more."""
    base = read.base
    for root in roots:
        if compute.hosts is None or compute.node(root) is not None:
            continue
        for uuid in servers.consumers_on(base, root):
            migration = read.cloud.migrations.get(uuid)
            if migration is not None and not migration.is_over:
                why = (
                    f"its {migration.type} is {migration.status}, and the host is the way back:"
                    " nova lists no compute node of it"
                )
                yield Stranded(migration.server_uuid, base.providers[root].name, (why,))


def _only_cold(joined: observe_hosts.JoinedServers, verdict: stop.StopVerdict) -> Iterator[str]:
    """Servers that run, and that nova moves only cold: with a stop."""
    by_reason: dict[str, list[str]] = {}
    unplaced = {item.server.key for item in verdict.unplaced}
    for server in joined.moving:
        if server.key in joined.leaving.cold and server.key not in unplaced:
            by_reason.setdefault(joined.leaving.cold[server.key], []).append(server.uuid)
    for why, uuids in by_reason.items():
        example = ways.command(uuids[0], Way.MIGRATE)
        yield f"{nova_servers.named(uuids)}: not live, because {why}; cold: {example}"


def _left_over(joined: observe_hosts.JoinedServers, names: Mapping[str, str]) -> Iterator[str]:
    """Servers that are not on the hosts any more, and have allocations there."""
    of_root: dict[str, list[str]] = {}
    for uuid, root in sorted(joined.by_state.gone):
        of_root.setdefault(root, []).append(uuid)
    for root, uuids in of_root.items():
        yield f"{nova_servers.named(uuids)}: not on {names[root]} any more, but allocated there"


def _is_unlisted(moves: places.Moves, compute: ServerHosts, root: str) -> bool:
    """Whether nova was read and lists no compute node for a host that has, or may have, servers."""
    if compute.hosts is None or compute.node(root) is not None:
        return False
    return bool(compute.hosts.unreachable or moves.servers_on([root]))
