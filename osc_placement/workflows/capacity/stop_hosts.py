"""The answer to "may these hosts stop", with names instead of UUIDs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import allocation
from osc_placement.workflows.capacity import (
    count,
    moves,
    names as host_names,
    nova_servers,
    observe_hosts,
    servers,
    stop,
)
from osc_placement.workflows.cloud import observe, packing
from osc_placement.workflows.context import ReadContext

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
    """A server without a place."""

    server: str
    source: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """``hosts`` are the names of the hosts that the answer is about."""

    answer: stop.Answer
    hosts: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    unplaced: tuple[Stranded, ...] = ()
    reason: str = ""
    not_judged: tuple[str, ...] = ()


def judge(
    client: api.Client,
    request: StopRequest,
    read_servers: nova_servers.ReadServers | None = None,
    context: ReadContext | None = None,
) -> Judgement:
    """Whether hosts may stop.

    ``read_servers`` is None without nova. Requests: to a service those of ``observe_hosts.read``;
    on a database file only those of ``read_servers``, to nova and neutron.
    Errors: UnknownProvider; PlacementError.
    """
    with observe.whole_state(client) as base:
        if base is None:
            found = observe_hosts.read(
                client, request.hosts, request.aggregates, read_servers, context or ReadContext()
            )
        else:
            found = _of_state(base, request, read_servers)
        return _judge(found, request)


def _of_state(
    base: state.State, request: StopRequest, read_servers: nova_servers.ReadServers | None
) -> observe_hosts.HostsRead:
    """The hosts in a database file. Requests: those of ``read_servers``."""
    members = {uuid: base.with_aggregate[uuid] for uuid in request.aggregates}
    roots = host_names.chosen_roots(base, request.hosts, members, set(count.hosts_of(base)))
    uuids = list(dict.fromkeys(each.uuid for each in servers.servers_on(base, roots)))
    nova = nova_servers.WITHOUT_NOVA if read_servers is None else read_servers(uuids)
    return observe_hosts.HostsRead(base, roots, nova)


def _judge(read: observe_hosts.HostsRead, request: StopRequest) -> Judgement:
    base, roots, nova = read.base, read.roots, read.nova
    known = servers.servers_on(base, roots, nova.queries, nova.groups)
    budget = budgets.SearchBudget(request.seconds)
    found = moves.Moves(base, known, budget, groups=nova.groups)
    if request.most is None:
        verdict = stop.may_stop(found, roots)
    else:
        verdict = stop.largest(found, roots, request.most)
    names = {uuid: each.name for uuid, each in base.providers.items()}
    return Judgement(
        verdict.answer,
        tuple(names[root] for root in verdict.hosts),
        tuple(_moves(found, verdict, names)),
        tuple(
            Stranded(each.server.uuid, names[each.server.root_uuid], each.reasons)
            for each in verdict.unplaced
        ),
        verdict.reason,
        (
            *nova.not_judged,
            *(f"{text} of server {each.uuid}" for each in known for text in each.unknown),
            *([] if nova.queries else [_DEVICES]),
            *_migrations(base, verdict.hosts, names),
            *_affinity(found, verdict.hosts),
        ),
    )


def _moves(found: moves.Moves, verdict: stop.Verdict, names: Mapping[str, str]) -> Iterator[Move]:
    for server in found.servers_on(verdict.hosts):
        option = verdict.placement.get(server.key)
        if option is not None:
            source, target = names[server.root_uuid], names[option.root_uuid]
            yield Move(server.uuid, source, target, _allocations(found.base, option))


def _allocations(base: state.State, option: packing.Option) -> allocation.Allocations:
    found: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in option.amounts.items():
        if not base.providers[uuid].inventories.get(name):
            continue  # A place of a server group.
        found.setdefault(uuid, {})[name] = amount
    return found


def _affinity(found: moves.Moves, roots: Sequence[str]) -> Iterator[str]:
    """The groups with affinity whose members all move, so that one of them must go first."""
    for group in dict.fromkeys(each.together for each in found.servers_on(roots)):
        members = [each for each in found.servers_on(roots) if each.together == group]
        if group and len(members) > 1 and not found.staying(members[0], roots, members):
            yield (
                f"whether nova moves the servers of server group {found.groups[group].name} one by"
                " one: its affinity filter compares each with the hosts of the others"
            )


def _migrations(base: state.State, roots: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    for root in roots:
        for uuid in servers.migrations_on(base, root):
            yield f"migration {uuid} holds allocations on {names[root]}"
