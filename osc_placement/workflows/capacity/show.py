# SPDX-License-Identifier: Apache-2.0
"""How many requests fit: now, with hosts in reserve, and after a plan."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate
from osc_placement.nova.values import HostAggregate
from osc_placement.plan import plan as plan_module
from osc_placement.workflows import compute_nodes, on_a_copy
from osc_placement.workflows.capacity import count, moves, nova_servers, reserve, servers
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.context import ReadContext

#: Hosts in no aggregate or availability zone.
NO_PART = "(none)"


class By(enum.StrEnum):
    """What to count separately."""

    HOST = "host"
    AGGREGATE = "aggregate"
    ZONE = "zone"


@dataclasses.dataclass(frozen=True, slots=True)
class ShowRequest:
    """The operator's arguments.

    ``queries`` is ``{title: query}``. ``without`` are names or UUIDs of providers. ``keep`` is the
    number of hosts in reserve, ``seconds`` the time for it. ``after`` is a plan and its file.
    """

    queries: Mapping[str, candidate.CandidateQuery]
    by: By | None = None
    without: Sequence[str] = ()
    keep: int | None = None
    seconds: float = 60.0
    after: tuple[plan_module.Plan, pathlib.Path] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One count. ``part`` is a host, aggregate or zone; empty for the whole cloud.

    ``is_after``: after the plan. ``kept`` is set with hosts in reserve. ``not_counted`` is ``{host:
    why it takes no server}``, for the hosts that Placement would use.
    """

    title: str
    part: str
    is_after: bool
    capacity: count.Capacity
    kept: reserve.Reserve | None = None
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """The counts; ``failures`` are the changes of the plan that could not be applied.

    ``not_judged`` are lines about the compute services, and about what else may tie the servers of
    failed hosts; ``assumed`` those about nova's requests for these servers.
    """

    rows: tuple[Row, ...]
    failures: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


#: Gives nova's host aggregates; None where nova is not available.
HostAggregates = Callable[[], Sequence[HostAggregate]] | None


def show(
    client: api.Client,
    request: ShowRequest,
    context: ReadContext,
    host_aggregates: HostAggregates = None,
    nova: nova_servers.NovaReader | None = None,
) -> Shown:
    """Count how often requests fit on the hosts that can take a server.

    With ``keep``, ``nova`` reads the conditions of servers; None without nova.

    Requests: to a service those of ``observe.observed`` for all queries together; by zone also one
    for each host aggregate with a zone. None to a database file. ``keep`` and ``after`` need a
    database file, such as ``workflows.snapshot.replay.copied`` makes of a service.
    Errors: UnknownProvider, PlanRefused, PlacementError.
    """
    if request.keep is not None:
        observe.require_file(client, "--keep")
    if request.after is not None:
        observe.require_file(client, "--after")
        plan_module.check_target(request.after[0], client.target, client.origin)
    rows: list[Row] = []
    failures: tuple[str, ...] = ()
    parts = _Parts(request.by, host_aggregates)
    nova = nova or nova_servers.NovaReader()
    known = nova_servers.KnownServers()
    if request.keep is not None:
        known = _known_servers(client, nova)
    with observe.observed(
        client,
        request.queries.values(),
        context,
        more=parts.zoned,
        with_aggregates=request.by is By.AGGREGATE,
    ) as base:
        for title, query in request.queries.items():
            shown = _State(base, query, request, parts, title, known, nova.compute)
            rows += shown.rows(is_after=False)
            if request.after is not None:
                with on_a_copy.applied(base, *request.after) as changed:
                    shown = _State(changed.state, query, request, parts, title, known, nova.compute)
                    rows += shown.rows(is_after=True)
                    failures = changed.failures
    return Shown(
        tuple(rows), failures, (*nova.compute.not_judged, *known.not_judged), known.assumed
    )


def _known_servers(client: api.Client, nova: nova_servers.NovaReader) -> nova_servers.KnownServers:
    """What nova says about all servers of a database file, those without allocations included."""
    with observe.whole_state(client) as base:
        if base is None:
            return nova_servers.WITHOUT_NOVA
        hosts = count.hosts_of(base)
        uuids = dict.fromkeys(each.uuid for each in servers.servers_on(base, hosts))
        lost = nova_servers.unallocated(base, nova.on_roots(hosts), hosts)
    found = nova.servers(list(uuids))
    return dataclasses.replace(
        found, not_judged=(*lost.lines(), *lost.not_judged, *found.not_judged)
    )


class _Parts:
    """The parts of the cloud that are counted separately: ``{name: UUIDs of providers in it}``."""

    def __init__(self, by: By | None, host_aggregates: HostAggregates) -> None:
        self.by = by
        known = [] if by in (None, By.HOST) or host_aggregates is None else host_aggregates()
        if by is By.ZONE and host_aggregates is None:
            raise errors.PlacementError(
                "availability zones are in nova: select a cloud, or give --os-nova-recording"
            )
        self._known = list(known)

    @property
    def zoned(self) -> list[str]:
        """The aggregates with an availability zone, if zones are counted."""
        zoned = [each.uuid for each in self._known if each.metadata.get("availability_zone")]
        return zoned if self.by is By.ZONE else []

    def of(self, base: state.CloudState) -> dict[str, frozenset[str]]:
        """The members of each aggregate or zone."""
        if self.by is By.ZONE:
            zones: dict[str, frozenset[str]] = {}
            for each in self._known:
                if zone := each.metadata.get("availability_zone"):
                    zones[zone] = zones.get(zone, frozenset()) | frozenset(
                        base.with_aggregate[each.uuid]
                    )
            return zones
        known = {each.uuid: each.name for each in self._known}
        return {
            known.get(uuid, uuid): frozenset(base.with_aggregate[uuid])
            for uuid in base.with_aggregate
        }


class _State:
    """The rows of one query on one state."""

    def __init__(
        self,
        base: state.CloudState,
        query: candidate.CandidateQuery,
        request: ShowRequest,
        parts: _Parts,
        title: str,
        nova: nova_servers.KnownServers,
        compute: compute_nodes.ServerHosts,
    ) -> None:
        self._nova = nova
        self._base, self._query = base, query
        self._request, self._parts, self._title = request, parts, title
        self._without = frozenset(servers.roots_named(self._base, request.without, compute))
        self._refused = compute.refused(self._base.tree)
        self._counter = count.Counter(self._base, self._query, self._without, self._refused)

    def rows(self, *, is_after: bool) -> Iterator[Row]:
        for part, roots in self._split():
            kept = self._kept(roots) if self._request.keep else None
            capacity = self._counter.count(roots)
            refused = {
                self._base.providers[root].name: self._refused[root] for root in capacity.refused
            }
            yield Row(self._title, part, is_after, capacity, kept, refused)

    def _split(self) -> Iterable[tuple[str, list[str]]]:
        every = [
            uuid
            for uuid, each in self._base.providers.items()
            if each.root_uuid == uuid and uuid not in self._without
        ]
        if self._parts.by is None:
            return [("", every)]
        hosts = [uuid for uuid in count.hosts_of(self._base) if uuid not in self._without]
        if self._parts.by is By.HOST:
            return sorted((self._base.providers[uuid].name, [uuid]) for uuid in hosts)
        members = self._parts.of(self._base)
        found = [
            (name, [uuid for uuid in hosts if uuid in uuids])
            for name, uuids in sorted(members.items())
        ]
        others = [uuid for uuid in hosts if not any(uuid in uuids for uuids in members.values())]
        return [each for each in [*found, (NO_PART, others)] if each[1]]

    def _kept(self, roots: Sequence[str]) -> reserve.Reserve:
        hosts = [uuid for uuid in count.hosts_of(self._base) if uuid in set(roots)]
        nova = self._nova
        known = servers.servers_on(self._base, hosts, nova.queries, nova.groups)
        budget = SearchBudget(self._request.seconds)
        outside = {each.root_uuid for each in self._base.providers.values()} - set(roots)
        found = moves.Moves(
            self._base,
            known,
            budget,
            [self._query],
            self._without | outside,
            nova.groups,
            self._refused,
        )
        if not found.is_complete:
            raise errors.PlacementError(
                "--keep: a host has too many allocation candidates for one of the requests"
            )
        usable = {option.root_uuid for option in found.options_of(servers.kind_of(self._query), ())}
        hosts = [uuid for uuid in hosts if uuid in usable]
        kept = reserve.capacity_with_failures(found, self._query, hosts, self._request.keep or 0)
        unsafe = tuple(self._base.providers[uuid].name for uuid in kept.unsafe)
        return dataclasses.replace(kept, unsafe=unsafe)
