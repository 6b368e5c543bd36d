# SPDX-License-Identifier: Apache-2.0
"""Whether hosts may stop at once, and a largest set of hosts that may. Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.model import candidate, constraint
from osc_placement.search import placing
from osc_placement.workflows.cloud import options, servers
from osc_placement.workflows.moving.places import Moves

#: Seconds for each attempt to name fewer servers that do not fit.
_SECONDS_TO_NAME = 1.0

#: Servers that do not fit alone and of which the constraints are named.
_MOST_NAMED = 20


_TOO_MANY = f"a host has more than {options.PER_TREE} candidates for a server"


class Answer(enum.StrEnum):
    """Whether hosts may stop."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Unplaced:
    """A server without a place, and the constraints or amounts that prevent one."""

    server: servers.PlacedServer
    reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for ``hosts`` (root UUIDs).

    YES: ``placement`` has an option for each server, by its key. NO: the other servers fit without
    ``unplaced``. UNKNOWN: ``reason`` says why. For a largest set, YES means that no larger set may
    stop.
    """

    answer: Answer
    hosts: tuple[str, ...]
    placement: Mapping[str, placing.Option] = dataclasses.field(default_factory=dict)
    unplaced: tuple[Unplaced, ...] = ()
    reason: str = ""


def may_stop(moves: Moves, roots: Sequence[str]) -> Verdict:
    """Whether the servers of these hosts fit on the others, all at the same time."""
    hosts = tuple(roots)
    try:
        found = moves.place(hosts)
    except SearchTooLong as error:
        return Verdict(Answer.UNKNOWN, hosts, reason=str(error))
    if found is not None:
        return Verdict(Answer.YES, hosts, found)
    if not moves.is_complete:
        return Verdict(Answer.UNKNOWN, hosts, reason=_TOO_MANY)
    unplaced, reason = _unplaced(moves, hosts)
    return Verdict(Answer.NO, hosts, unplaced=unplaced, reason=reason)


def largest(moves: Moves, roots: Sequence[str], limit: int) -> Verdict:
    """A largest set of at most ``limit`` of these hosts that may stop at once.

    A set may stop only if each of its parts may. So hosts are added to sets that may stop, those
    with the fewest servers first.
    """
    order = sorted(roots, key=lambda root: len(moves.servers_on([root])))
    best: tuple[str, ...] = ()
    try:
        placement = moves.place(best) or {}
        for chosen, found in _growing(moves, order, limit):
            if len(chosen) > len(best):
                best, placement = chosen, found
            if len(best) == min(limit, len(order)):
                break
    except SearchTooLong as error:
        return Verdict(Answer.UNKNOWN, best, placement, reason=str(error))
    if len(best) < min(limit, len(order)) and not moves.is_complete:
        return Verdict(Answer.UNKNOWN, best, placement, reason=_TOO_MANY)
    if best:
        return Verdict(Answer.YES, best, placement)
    return may_stop(moves, order[:1])


def _growing(
    moves: Moves, order: Sequence[str], limit: int
) -> Iterator[tuple[tuple[str, ...], Mapping[str, placing.Option]]]:
    """Sets of hosts that may stop, each larger than all sets before it."""
    largest_size = 0
    # Each entry is a set that may stop, and the position after its last host.
    stack: list[tuple[tuple[str, ...], int]] = [((), 0)]
    while stack:
        chosen, start = stack.pop()
        can_grow_to = min(limit, len(chosen) + len(order) - start)
        if can_grow_to <= largest_size:
            continue
        larger = (*chosen, order[start])
        stack.append((chosen, start + 1))
        found = moves.place(larger)
        if found is None:
            continue
        if len(larger) > largest_size:
            largest_size = len(larger)
            yield larger, found
        stack.append((larger, start + 1))


def _unplaced(moves: Moves, hosts: Sequence[str]) -> tuple[tuple[Unplaced, ...], str]:
    """Servers without which all others fit, and the amount that shows why."""
    every = moves.servers_on(hosts)
    left = moves.free(hosts, every)
    alone = [
        server
        for server in every
        if not any(each.fits(left) for each in moves.options_for(server, hosts))
    ]
    found = [
        Unplaced(server, tuple(_preventing(moves, hosts, server)) if at < _MOST_NAMED else ())
        for at, server in enumerate(alone)
    ]
    rest = [server for server in every if server not in alone]
    dropped = _dropped(moves, hosts, rest)
    found += [Unplaced(server, ("it fits only without other servers",)) for server in dropped]
    return tuple(found), moves.shortage(hosts, rest) if dropped else ""


def _dropped(
    moves: Moves, hosts: Sequence[str], rest: Sequence[servers.PlacedServer]
) -> list[servers.PlacedServer]:
    """Servers to leave out so that the others fit; small servers are kept."""

    def fits(kept: Sequence[servers.PlacedServer]) -> bool:
        try:
            return moves.limited_to(_SECONDS_TO_NAME).place(hosts, kept) is not None
        except SearchTooLong:
            return False

    order = sorted(rest, key=_size)
    first = moves.first_fit(hosts, order)
    kept = [server for server in order if server.key in first]
    dropped = [server for server in order if server.key not in first]
    for server in dropped[:_MOST_NAMED]:
        if fits([*kept, server]):
            kept.append(server)
    return [server for server in dropped if server not in kept]


def _size(server: servers.PlacedServer) -> tuple[int, str]:
    amounts = (sum(resources.values()) for resources in server.allocations.values())
    return sum(amounts), server.uuid


def _preventing(moves: Moves, hosts: Sequence[str], server: servers.PlacedServer) -> Iterator[str]:
    """The single constraints without which the server would fit, else all its amounts."""
    left = moves.released(hosts)
    group = server.apart or server.together
    serving = set(_serving(left, server.query, hosts))
    refused = moves.refused | server.barred
    if serving and serving <= refused:
        names = sorted(moves.base.providers[root].name for root in serving)
        other = " or have another or an older hypervisor" if serving & server.barred else ""
        yield f"only hosts that take no server{other} have room: {', '.join(names)}"
        return
    if group and not serving <= refused:
        has = "servers" if server.apart else "none of the servers"
        yield f"every other host with room has {has} of server group {moves.groups[group].name}"
        return
    every = constraint.constraints_of(server.query)
    preventing = [
        str(each)
        for each in every
        if not refused.issuperset(_serving(left, constraint.without(server.query, {each}), hosts))
    ]
    amounts = (str(each) for each in every if each.kind is constraint.Kind.RESOURCES)
    for text in preventing or [" and ".join(amounts)]:
        yield f"no other host has room with {text}"


def _serving(
    base: state.CloudState, query: candidate.CandidateQuery, hosts: Sequence[str]
) -> Iterator[str]:
    """The roots of the other hosts that can serve a query; none if it requests no resources."""
    for each in options.find(base, query).options:
        if each.is_of_host and not options.uses_trees(base, each, hosts):
            yield each.root_uuid
