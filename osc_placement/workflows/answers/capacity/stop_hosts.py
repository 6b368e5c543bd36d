# SPDX-License-Identifier: Apache-2.0
"""The answer to "may these hosts stop", with names instead of UUIDs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import allocation, command_line
from osc_placement.search import placing
from osc_placement.workflows.answers.capacity import (
    count,
    moves,
    nova_servers,
    observe_hosts,
    servers,
    stop,
)
from osc_placement.workflows.cloud import compute_nodes, observe
from osc_placement.workflows.cloud.context import ReadContext


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
class Move:
    """A place for a server: names of hosts, and its allocations there."""

    server: str
    source: str
    target: str
    allocations: allocation.Allocations


@dataclasses.dataclass(frozen=True, slots=True)
class Stranded:
    """A server with allocations that finds no place, or that nova does not migrate."""

    server: str
    source: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """``hosts`` are the names of the hosts that the answer is about.

    ``servers`` is the number of their servers, those without allocations (UUIDs in
    ``without_allocations``) included. ``not_counted`` is ``{host: why it takes no server}``, for
    the hosts that Placement would use. ``doubts`` are lines about what was not checked and can
    turn a yes into a no; ``notes`` those that change only how the servers move. ``commands`` carry
    out the moves of servers that nova has. ``assumed`` are lines about nova's requests for the
    servers.
    ``server_names`` is ``{UUID: name}``.
    """

    answer: stop.Answer
    hosts: tuple[str, ...]
    servers: int = 0
    moves: tuple[Move, ...] = ()
    unplaced: tuple[Stranded, ...] = ()
    reason: str = ""
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)
    without_allocations: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    server_names: Mapping[str, str] = dataclasses.field(default_factory=dict)


def judge(
    client: api.Client,
    request: StopRequest,
    nova: nova_servers.NovaReader | None = None,
    context: ReadContext | None = None,
) -> Judgement:
    """Whether hosts may stop.

    ``nova`` is None without nova. Requests: to a service those of ``observe_hosts.read``; on a
    database file only those of ``nova``, to nova and neutron.
    Errors: UnknownProvider; PlacementError.
    """
    nova = nova or nova_servers.NovaReader()
    with observe.whole_state(client) as base:
        if base is None:
            found = observe_hosts.read(
                client, request.hosts, request.aggregates, nova, context or ReadContext()
            )
        else:
            found = _of_state(base, request, nova)
        return _judge(found, request, nova.compute)


def _of_state(
    base: state.CloudState, request: StopRequest, nova: nova_servers.NovaReader
) -> observe_hosts.HostsRead:
    """The hosts in a database file. Requests: those of ``nova``."""
    members = {uuid: base.with_aggregate[uuid] for uuid in request.aggregates}
    hosts = set(count.hosts_of(base))
    roots = servers.chosen_roots(base, request.hosts, members, hosts, nova.compute)
    uuids = list(dict.fromkeys(each.uuid for each in servers.servers_on(base, roots)))
    on_hosts = nova.on_roots(roots, uuids)
    return observe_hosts.HostsRead(base, roots, nova.requests(on_hosts, uuids), on_hosts)


def _judge(
    read: observe_hosts.HostsRead, request: StopRequest, compute: compute_nodes.ServerHosts
) -> Judgement:
    base, roots, nova = read.base, read.roots, read.nova
    known = servers.servers_on(base, roots, nova.queries, nova.groups, nova.migrations)
    budget = SearchBudget(request.seconds)
    refused = compute.refused(base.tree)
    names = {uuid: each.name for uuid, each in base.providers.items()}
    stand = nova_servers.standing(base, read.on_hosts, compute)
    staying = stand.held.keys() | stand.doubtful.keys() | stand.gone
    moving = [each for each in known if (each.uuid, each.root_uuid) not in staying]
    found = moves.Moves(base, moving, budget, groups=nova.groups, refused=refused)
    unlisted = [root for root in roots if _is_unlisted(found, compute, root)]
    if request.most is None:
        verdict = stop.may_stop(found, roots)
    else:
        stuck = {*unlisted, *(root for _, root in (*stand.held, *stand.doubtful))}
        free = [root for root in roots if root not in stuck]
        verdict = stop.largest(found, free or roots[:1], request.most)
    held = {key: why for key, why in stand.held.items() if key[1] in verdict.hosts}
    lost = nova_servers.unallocated(base, stand, verdict.hosts)
    unlisted = [root for root in unlisted if root in verdict.hosts]
    asked = {each.uuid for each in moving if each.root_uuid in verdict.hosts}
    doubts = tuple(
        dict.fromkeys(
            (
                *compute_nodes.not_counted({names[root]: refused[root] for root in unlisted}),
                *([read.on_hosts.problem] if read.on_hosts.problem else ()),
                *(why for key, why in stand.doubtful.items() if key[1] in verdict.hosts),
                *lost.lines(),
                *compute.not_checked,
                *nova.doubts,
                *(
                    f"{text} of server {each.uuid}"
                    for each in moving
                    if each.uuid in asked
                    for text in each.unknown
                ),
            )
        )
    )
    answer, reason = verdict.answer, verdict.reason
    if held:
        answer = stop.Answer.NO
    elif doubts and answer is stop.Answer.YES and not request.only_placement:
        answer, reason = stop.Answer.UNKNOWN, doubts[0]
    stranded = [
        Stranded(each.server.uuid, names[each.server.root_uuid], each.reasons)
        for each in verdict.unplaced
    ]
    stranded += [Stranded(uuid, names[root], (why,)) for (uuid, root), why in held.items()]
    stranded.sort(key=lambda each: (each.source, each.server))
    of_hosts = {uuid for uuid, root in (*stand.resting, *stand.held) if root in verdict.hosts}
    return Judgement(
        answer,
        tuple(names[root] for root in verdict.hosts),
        len(of_hosts | asked),
        tuple(_moves(found, verdict, names)),
        tuple(stranded),
        reason,
        {names[root]: refused[root] for root in found.not_counted if root not in verdict.hosts},
        (*lost.missing, *lost.elsewhere),
        doubts,
        (*nova.notes, *_left_over(stand, verdict.hosts, base)),
        tuple(_commands(found, verdict, read.on_hosts, compute)),
        nova.assumed,
        {uuid: each.name for uuid, each in read.on_hosts.servers.items() if each.name},
    )


def _left_over(
    stand: nova_servers.Standing, roots: Sequence[str], base: state.CloudState
) -> Iterator[str]:
    """Servers that are not on the hosts any more, and have allocations there."""
    for root in roots:
        uuids = sorted(uuid for uuid, of_root in stand.gone if of_root == root)
        if uuids:
            name = base.providers[root].name
            yield f"{nova_servers.named(uuids)}: not on {name} any more, but allocated there"


def _is_unlisted(found: moves.Moves, compute: compute_nodes.ServerHosts, root: str) -> bool:
    """Whether nova was read and lists no compute node for a host that has, or may have, servers."""
    if compute.hosts is None or compute.node(root) is not None:
        return False
    return bool(compute.hosts.unreachable or found.servers_on([root]))


def _commands(
    found: moves.Moves,
    verdict: stop.Verdict,
    on_hosts: nova_servers.ServersOnHosts,
    compute: compute_nodes.ServerHosts,
) -> Iterator[str]:
    """A command for each move; a comment for a server that nova does not list."""
    for moved in found.servers_on(verdict.hosts):
        option = verdict.placement.get(moved.key)
        node = compute.node(option.root_uuid) if option else None
        server = on_hosts.servers.get(moved.uuid)
        if node is None:
            continue
        if server is None:
            yield f"# {moved.uuid}: nova lists no server with this UUID here"
        elif server.vm_state in nova_servers.LIVE:
            yield migrate("--live-migration", node.host, server.uuid)
        else:
            confirm = command_line.line("server migration confirm", server.uuid)
            yield f"{migrate('--wait', node.host, server.uuid)} && {confirm}"


def migrate(how: str, host: str, server: str) -> str:
    """The command that moves a server to a host; ``how`` is an option of it."""
    options = (("--os-compute-api-version", "2.56"), (how, None), ("--host", host))
    return command_line.line("server migrate", server, options=options)


def _moves(found: moves.Moves, verdict: stop.Verdict, names: Mapping[str, str]) -> Iterator[Move]:
    for server in found.servers_on(verdict.hosts):
        option = verdict.placement.get(server.key)
        if option is not None:
            source, target = names[server.root_uuid], names[option.root_uuid]
            yield Move(server.uuid, source, target, _allocations(found.base, option))


def _allocations(base: state.CloudState, option: placing.Option) -> allocation.Allocations:
    found: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in option.amounts.items():
        if not base.providers[uuid].inventories.get(name):
            continue  # A place of a server group.
        found.setdefault(uuid, {})[name] = amount
    return found
