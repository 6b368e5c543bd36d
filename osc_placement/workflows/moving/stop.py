# SPDX-License-Identifier: Apache-2.0
"""Whether hosts may stop at once, and a largest set of hosts that may. Pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Sequence

from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.model import candidate, constraint
from osc_placement.model.name import and_more
from osc_placement.scheduling.answer import Answer
from osc_placement.scheduling.case import Way
from osc_placement.workflows.cloud import options, servers, ways
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.explain.relaxations import Relaxations
from osc_placement.workflows.moving.places import Moves, Placement

#: Seconds for each attempt to name fewer servers that do not fit.
_SECONDS_TO_NAME = 1.0

#: Servers that do not fit alone and of which the constraints are named.
_MOST_NAMED = 20


ONLY_WITHOUT_OTHERS = "it fits only without other servers"
_TOO_MANY = f"a host has more than {options.PER_TREE} candidates for a server"


@dataclasses.dataclass(frozen=True, slots=True)
class Unplaced:
    """A server without a place, and the constraints or amounts that prevent one."""

    server: servers.PlacedServer
    reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class StopVerdict:
    """The answer for ``hosts`` (root UUIDs).

    YES: ``placement`` has an option for each server, by its key. NO: the other servers fit without
    ``unplaced``. UNKNOWN: ``reason`` says why; ``doubts`` are about the targets of ``placement``.
    For a largest set, YES means that no larger set may stop.
    """

    answer: Answer
    hosts: tuple[str, ...]
    placement: Placement = dataclasses.field(default_factory=dict)
    unplaced: tuple[Unplaced, ...] = ()
    reason: str = ""
    doubts: tuple[str, ...] = ()


def may_stop(moves: Moves, roots: Sequence[str]) -> StopVerdict:
    """Whether the servers of these hosts fit on the others, all at the same time."""
    hosts = tuple(roots)
    try:
        placed = _surest(moves.surest_first(), hosts)
    except SearchTooLong as error:
        return StopVerdict(Answer.UNKNOWN, hosts, reason=str(error))
    if placed is not None:
        return _possible(moves, hosts, placed)
    if not moves.is_complete:
        return StopVerdict(Answer.UNKNOWN, hosts, reason=_TOO_MANY)
    unplaced, reason = _unplaced(moves, hosts)
    return StopVerdict(Answer.NO, hosts, unplaced=unplaced, reason=reason)


def _surest(surest_first: Sequence[Moves], hosts: Sequence[str]) -> Placement | None:
    """A place for each server of the hosts, by the first of these moves that have one."""
    placements = (moves.place(hosts) for moves in surest_first)
    return next((placed for placed in placements if placed is not None), None)


def _possible(moves: Moves, hosts: tuple[str, ...], placement: Placement) -> StopVerdict:
    """YES for a placement, or UNKNOWN if it is not known whether nova accepts a place of it."""
    doubts = tuple(dict.fromkeys(moves.doubts(placement, moves.servers_on(hosts))))
    answer = Answer.UNKNOWN if doubts else Answer.YES
    return StopVerdict(answer, hosts, placement, reason="; ".join(doubts[:1]), doubts=doubts)


def largest(moves: Moves, roots: Sequence[str], limit: int) -> StopVerdict:
    """A largest set of at most ``limit`` of these hosts that may stop at once.

    A set may stop only if each of its parts may. So hosts are added to sets that may stop, those
    with the fewest servers first.
    """
    order = sorted(roots, key=lambda root: len(moves.servers_on([root])))
    best: tuple[str, ...] = ()
    placement: Placement = {}
    try:
        for chosen, placed in _growing(moves, order, limit):
            best, placement = chosen, placed
    except SearchTooLong as error:
        return StopVerdict(Answer.UNKNOWN, best, placement, reason=str(error))
    if len(best) < min(limit, len(order)) and not moves.is_complete:
        return StopVerdict(Answer.UNKNOWN, best, placement, reason=_TOO_MANY)
    if best:
        return _possible(moves, best, placement)
    return may_stop(moves, order[:1])


def _growing(
    moves: Moves, order: Sequence[str], limit: int
) -> Iterator[tuple[tuple[str, ...], Placement]]:
    """Sets of hosts that may stop, each larger than all sets before it."""
    largest_size, surest_first = 0, moves.surest_first()
    # Each entry is a set that may stop, and the position after its last host.
    stack: list[tuple[tuple[str, ...], int]] = [((), 0)]
    while stack:
        chosen, start = stack.pop()
        can_grow_to = min(limit, len(chosen) + len(order) - start)
        if can_grow_to <= largest_size:
            continue
        larger = (*chosen, order[start])
        stack.append((chosen, start + 1))
        placed = _surest(surest_first, larger)
        if placed is None:
            continue
        if len(larger) > largest_size:
            largest_size = len(larger)
            yield larger, placed
        stack.append((larger, start + 1))


def _unplaced(moves: Moves, hosts: Sequence[str]) -> tuple[tuple[Unplaced, ...], str]:
    """Servers without which all others fit, and the amount that shows why."""
    servers = moves.servers_on(hosts)
    left = moves.free(hosts, servers)
    alone = [
        server
        for server in servers
        if not any(option.fits(left) for option in moves.options_for(server, hosts))
    ]
    unplaced = [
        Unplaced(server, tuple(_preventing(moves, hosts, server)) if at < _MOST_NAMED else ())
        for at, server in enumerate(alone)
    ]
    rest = [server for server in servers if server not in alone]
    dropped = _dropped(moves, hosts, rest)
    unplaced += [Unplaced(server, (ONLY_WITHOUT_OTHERS,)) for server in dropped]
    return tuple(unplaced), moves.shortage(hosts, rest) if dropped else ""


def _dropped(
    moves: Moves, hosts: Sequence[str], rest: Sequence[servers.PlacedServer]
) -> list[servers.PlacedServer]:
    """Servers to leave out so that the others fit; small servers are kept."""

    def fits(kept: Sequence[servers.PlacedServer]) -> bool:
        try:
            return moves.limited_to(_SECONDS_TO_NAME).place(hosts, kept) is not None
        except SearchTooLong:
            return False

    order = sorted(rest, key=lambda server: server.size)
    first = moves.first_fit(hosts, order)
    kept = [server for server in order if server.key in first]
    dropped = [server for server in order if server.key not in first]
    for server in dropped[:_MOST_NAMED]:
        if fits([*kept, server]):
            kept.append(server)
    return [server for server in dropped if server not in kept]


def _preventing(moves: Moves, hosts: Sequence[str], server: servers.PlacedServer) -> Iterator[str]:
    """Why hosts with room do not take a server; else what it requests that no host has."""
    left = moves.released(hosts)
    queries = [query for several in server.queries for query in several]
    serving = {root for query in queries for root in _serving(left, query, hosts)}
    refused = {root for root, _ in moves.refusals(server)}
    if serving and serving <= refused:
        yield f"only hosts that take no server have room: {_why_refused(moves, server, serving)}"
        return
    if serving and moves.is_aimed:
        yield _SHARED
        return
    others = [root for root in hosts_of(left) if root not in {*hosts, *moves.without}]
    open_hosts = [root for root in others if root not in refused] or others
    relaxations = Relaxations(left, server.query, constraint.constraints_of(server.query))
    for text in relaxations.causes(open_hosts):
        yield f"no other host has room with {text}"


#: Why a step with a named target is refused although hosts have room.
_SHARED = (
    "nova takes what it requests from the tree of the target that a command names, and the room is"
    " at a provider that shares: let nova choose the host"
)


def _why_refused(moves: Moves, server: servers.PlacedServer, roots: Collection[str]) -> str:
    """``cmp-1, cmp-2 (why)``, for each reason; and the command, if a cold move is possible."""
    by_root: dict[str, dict[str, None]] = collections.defaultdict(dict)
    for root, why in moves.refusals(server):
        by_root[root][why] = None
    by_reason: dict[str, list[str]] = {}
    for root in sorted(roots, key=lambda root: moves.base.providers[root].name):
        by_reason.setdefault(next(iter(by_root[root])), []).append(moves.base.providers[root].name)
    texts = [f"{and_more(names)} ({why})" for why, names in by_reason.items()]
    if any(root in server.answers.only_live and len(by_root[root]) == 1 for root in roots):
        texts.append(f"not live, but cold: {ways.command(server.uuid, Way.MIGRATE)}")
    return "; ".join(texts)


def _serving(
    base: state.CloudState, query: candidate.CandidateQuery, hosts: Sequence[str]
) -> Iterator[str]:
    """The roots of the other hosts that can serve a query; none if it requests no resources."""
    for option in options.find(base, query).options:
        if option.is_of_host and not options.uses_trees(base, option, hosts):
            yield option.root_uuid
