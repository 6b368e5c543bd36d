# SPDX-License-Identifier: Apache-2.0
"""The answer to "may these hosts stop", with names instead of UUIDs."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import allocation
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

_UNCOUNTED = "nova has servers on these hosts that Placement does not count there"
_DEVICES = "PCI devices, NUMA nodes and local disks that are not in Placement"


@dataclasses.dataclass(frozen=True, slots=True)
class StopRequest:
    """The operator's arguments: names or UUIDs of hosts, UUIDs of aggregates.

    ``most`` asks for a largest set of at most this number of hosts.
    """

    hosts: Sequence[str] = ()
    aggregates: Sequence[str] = ()
    most: int | None = None
    seconds: float = 60.0


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
    the hosts that Placement would use. ``commands`` carry out the moves of servers that nova has.
    ``assumed`` are lines about nova's requests for the servers.
    """

    answer: stop.Answer
    hosts: tuple[str, ...]
    servers: int = 0
    moves: tuple[Move, ...] = ()
    unplaced: tuple[Stranded, ...] = ()
    reason: str = ""
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)
    without_allocations: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


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
    return observe_hosts.HostsRead(base, roots, nova.servers(uuids), nova.on_roots(roots))


def _judge(
    read: observe_hosts.HostsRead, request: StopRequest, compute: compute_nodes.ServerHosts
) -> Judgement:
    base, roots, nova = read.base, read.roots, read.nova
    known = servers.servers_on(base, roots, nova.queries, nova.groups, nova.migrations)
    budget = SearchBudget(request.seconds)
    refused = compute.refused(base.tree)
    why_staying = read.on_hosts.staying()
    staying = [each for each in known if each.uuid in why_staying]
    moving = [each for each in known if each.uuid not in why_staying]
    found = moves.Moves(base, moving, budget, groups=nova.groups, refused=refused)
    unlisted = [root for root in roots if _is_unlisted(found, compute, root)]
    if request.most is None:
        verdict = stop.may_stop(found, roots)
    else:
        stuck = {*unlisted, *(each.root_uuid for each in staying)}
        free = [root for root in roots if root not in stuck]
        verdict = stop.largest(found, free or roots[:1], request.most)
    staying = [each for each in staying if each.root_uuid in verdict.hosts]
    names = {uuid: each.name for uuid, each in base.providers.items()}
    lost = nova_servers.unallocated(base, read.on_hosts, verdict.hosts)
    uncounted = tuple(lost.lines())
    if uncounted and verdict.answer is stop.Answer.YES:
        verdict = dataclasses.replace(verdict, answer=stop.Answer.UNKNOWN, reason=_UNCOUNTED)
    unlisted = [root for root in unlisted if root in verdict.hosts]
    if unlisted and verdict.answer is stop.Answer.YES:
        reason = "; ".join(compute_nodes.not_counted({names[it]: refused[it] for it in unlisted}))
        verdict = dataclasses.replace(verdict, answer=stop.Answer.UNKNOWN, reason=reason)
    if staying:
        verdict = dataclasses.replace(verdict, answer=stop.Answer.NO)
    placed = tuple(_moves(found, verdict, names))
    return Judgement(
        verdict.answer,
        tuple(names[root] for root in verdict.hosts),
        sum(
            map(len, (found.servers_on(verdict.hosts), staying, lost.missing, lost.elsewhere)),
        ),
        placed,
        tuple(
            Stranded(each.server.uuid, names[each.server.root_uuid], each.reasons)
            for each in (
                *verdict.unplaced,
                *(stop.Unplaced(each, (why_staying[each.uuid],)) for each in staying),
            )
        ),
        verdict.reason,
        {names[root]: refused[root] for root in found.not_counted if root not in verdict.hosts},
        (*lost.missing, *lost.elsewhere),
        (
            *compute.not_judged,
            *uncounted,
            *lost.not_judged,
            *nova.not_judged,
            *(f"{text} of server {each.uuid}" for each in known for text in each.unknown),
            *([] if nova.queries else [_DEVICES]),
            *_migrations(base, verdict.hosts, names, nova.migrations),
        ),
        tuple(_commands(found, verdict, read.on_hosts, compute)),
        nova.assumed,
    )


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
    by_uuid = {server.uuid: server for server in on_hosts.servers}
    for moved in found.servers_on(verdict.hosts):
        option = verdict.placement.get(moved.key)
        node = compute.node(option.root_uuid) if option else None
        server = by_uuid.get(moved.uuid)
        if node is None:
            continue
        migrate = "openstack server migrate --os-compute-api-version 2.56"
        host = shlex.quote(node.host)
        if server is None:
            yield f"# {moved.uuid}: nova lists no server with this UUID here"
        elif server.vm_state in nova_servers.LIVE:
            yield f"{migrate} --live-migration --host {host} {server.uuid}"
        else:
            confirm = f"openstack server migration confirm {server.uuid}"
            yield f"{migrate} --wait --host {host} {server.uuid} && {confirm}"


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


def _migrations(
    base: state.CloudState,
    roots: Sequence[str],
    names: Mapping[str, str],
    migrations: Collection[str],
) -> Iterator[str]:
    for root in roots:
        for uuid in servers.migrations_on(base, root, migrations):
            yield f"migration {uuid} holds allocations on {names[root]}"
