# SPDX-License-Identifier: Apache-2.0
"""How many requests fit: now, with hosts in reserve, and after a plan or a purchase."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate
from osc_placement.model.name import and_more
from osc_placement.nova.values import HostAggregate, Hosts
from osc_placement.plan.plan import Plan
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.case import Case
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.search import placing
from osc_placement.workflows.capacity import add_hosts, count
from osc_placement.workflows.cloud import (
    named_aggregates,
    nova_servers,
    observe,
    observe_hosts,
    rehearsal,
    servers,
    source,
    ways,
    wide,
)
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import NO_ANSWERS, HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
from osc_placement.workflows.moving import places, reserve, stop
from osc_placement.workflows.moving.places import Wanted

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

    ``queries`` is ``{title: queries}``; ``cases`` is ``{title: what nova's request is for}``.
    ``without`` are names or UUIDs of providers. ``keep`` is the number of hosts in reserve,
    ``seconds`` the time for it. ``after`` is a plan and its file; ``added`` are hosts that may be
    bought, after the plan.
    """

    queries: Mapping[str, servers.Queries]
    cases: Mapping[str, Case] = dataclasses.field(default_factory=dict)
    by: By | None = None
    without: Sequence[str] = ()
    keep: int | None = None
    seconds: float = 60.0
    after: tuple[Plan, pathlib.Path] | None = None
    added: Sequence[add_hosts.AddedHosts] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class CapacityRow:
    """One count. ``part`` is a host, aggregate or zone; empty for the whole cloud.

    ``is_after``: after the plan, with the added hosts. ``kept`` is set with hosts in reserve. A
    doubt can make the count smaller; the notes are about servers that no reserve can save.
    """

    title: str
    part: str
    is_after: bool
    capacity: count.Capacity
    kept: reserve.Reserve | None = None
    caveats: Caveats = dataclasses.field(default_factory=Caveats)


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """The counts; ``failures`` are the changes of the plan that could not be applied.

    ``caveats`` are those of all counts: the doubts are about compute services, and about what ties
    the servers of failed hosts.
    """

    rows: tuple[CapacityRow, ...]
    failures: tuple[str, ...] = ()
    caveats: Caveats = dataclasses.field(default_factory=Caveats)


def nothing_fits(title: str) -> CapacityRow:
    """The count of a request that Placement refuses: nova finds no host for it."""
    return CapacityRow(title, "", False, count.Capacity(placing.FitCount(0, 0), 0, ()))


def show(
    client: api.Client,
    request: ShowRequest,
    context: ReadContext,
    names: NamedAggregates | None = None,
    nova: nova_servers.NovaReader | None = None,
) -> Shown:
    """Count how often requests fit on the hosts that can take a server.

    With ``keep``, ``nova`` reads the conditions of servers; None without nova.

    Requests: to a service those of ``wide.Wide`` for all queries together; by zone also one
    for each host aggregate with a zone; one for each provider of a host that others are like. With
    ``keep`` and ``after``, which need every record, those of ``source.everything`` instead. None
    to a database file.
    Errors: UnknownProvider, PlanRefused, PlacementError; InvalidInput for ``added``.
    """
    nova = nova or nova_servers.NovaReader()
    aggregates = _aggregates(request.by, names)
    in_nova = nova_servers.ServerCases()
    rows: list[CapacityRow] = []
    failures: tuple[str, ...] = ()
    with contextlib.ExitStack() as stack:
        if request.keep is not None:
            # A missing right in nova is found before the cloud is read.
            nova.requests(Cloud(Hosts(), {}), [])
        later = None
        if request.after is not None:
            base, later = stack.enter_context(rehearsal.after_plan(client, *request.after, context))
            observed, failures = wide.ObservedCloud(base), later.failures
        elif request.keep is not None:
            asked = [query for it in request.queries.values() for one in it for query in one]
            named = nova.named_aggregates(observe.aggregates(asked))
            every = source.of(client, context).everything(
                None if request.by is By.AGGREGATE else named
            )
            observed = wide.ObservedCloud(stack.enter_context(every))
        else:
            reading = source.of(client, context).observed(
                [query for it in request.queries.values() for one in it for query in one],
                more=[
                    aggregate.uuid
                    for aggregate in aggregates
                    if request.by is By.ZONE and _zone(aggregate)
                ],
                with_aggregates=request.by is By.AGGREGATE,
            )
            observed = stack.enter_context(reading)
        added = _added(observed.base, request.added, nova.compute)
        observed.refine([root for root, _ in added])
        states = {False: observed.base}
        if request.keep is not None:
            in_nova = observe_hosts.servers_everywhere(states[False], nova).known
        if later is not None:
            states[True] = later.state
        compute = nova.compute
        if added:
            states[True], like = _with_added(states.get(True, states[False]), added)
            compute = compute.with_added(like)
        notes = _notes(states[False], aggregates, request.by, compute)
        for title, queries in request.queries.items():
            case = request.cases.get(title)
            counting = _Counting(title, queries, case, request, aggregates, in_nova, compute)
            for is_after, base in states.items():
                rows += counting.rows(base, is_after=is_after)
    caveats = Caveats(nova.compute.not_checked, tuple(notes)) + in_nova.caveats
    return Shown(tuple(rows), failures, caveats)


def _added(
    base: state.CloudState,
    added: Iterable[add_hosts.AddedHosts],
    compute: ServerHosts,
) -> list[tuple[str, int]]:
    """``(root UUID, number of hosts like it)``. Errors: UnknownProvider, InvalidInput."""
    input_errors = errors.InputErrors()
    numbers = []
    for item in added:
        roots = servers.roots_named(base, [item.like], compute)
        if len(roots) > 1:
            names = and_more(sorted(base.providers[root].name for root in roots))
            input_errors.add(f"{item.like} has several compute nodes: name one of {names}")
        numbers += [(root, item.number) for root in roots]
    input_errors.check()
    return numbers


def _with_added(
    base: state.CloudState, added: Iterable[tuple[str, int]]
) -> tuple[state.CloudState, dict[str, str]]:
    """As ``add_hosts.with_added``. Errors: InvalidInput for what is no host of this state."""
    hosts = set(hosts_of(base))
    errors.InputErrors(
        f"{base.providers[root].name if root in base.providers else root} is no host: it offers"
        " nothing but shared resources, or the plan deletes it"
        for root, _ in added
        if root not in hosts
    ).check()
    return add_hosts.with_added(base, added)


def _aggregates(by: By | None, names: NamedAggregates | None) -> list[HostAggregate]:
    """The host aggregates, if they matter. Errors: PlacementError for zones without nova."""
    if by is By.ZONE and names is None:
        raise errors.PlacementError(
            "availability zones are in nova: select a cloud, or give --os-nova-recording"
        )
    return [] if names is None or by in (None, By.HOST) else names.listed


def _notes(
    base: state.CloudState,
    aggregates: Iterable[HostAggregate],
    by: By | None,
    compute: ServerHosts,
) -> tuple[str, ...]:
    """The host aggregates that are counted with nova's hosts, where Placement has others."""
    by_host = named_aggregates.hosts_in_nova(hosts_of(base), compute)
    if not by_host:
        return ()
    nodes = frozenset[str]().union(*by_host.values())
    compared = [
        named_aggregates.compare(
            item,
            by_host,
            {uuid: base.providers[uuid].name for uuid in base.with_aggregate[item.uuid] & nodes},
            nodes,
        )
        for item in aggregates
        if by is By.AGGREGATE or _zone(item)
    ]
    return tuple(str(item) for item in compared if item.has_other_hosts)


def _zone(aggregate: HostAggregate) -> str:
    return aggregate.metadata.get("availability_zone", "")


def _with_own_aggregates(base: state.CloudState) -> state.CloudState:
    """The state with each host in one more aggregate, of its UUID, so that member_of can name it.

    Nova's hosts count in a part even where Placement does not have them in the aggregate.
    """
    changed = {}
    for uuid in hosts_of(base):
        host = base.providers[uuid]
        changed[uuid] = dataclasses.replace(host, aggregates=(*host.aggregates, uuid))
    after = base.copy()
    after.apply(record.Changes(changed))
    return after


def _within(
    query: candidate.CandidateQuery, aggregates: Collection[str]
) -> candidate.CandidateQuery:
    """A query with member_of, which nova adds to the group without a suffix."""
    groups = (
        group
        if group.suffix
        else dataclasses.replace(group, member_of=(*group.member_of, frozenset(aggregates)))
        for group in query.groups
    )
    return dataclasses.replace(query, groups=tuple(groups))


@dataclasses.dataclass(frozen=True, slots=True)
class _Counting:
    """How one query is counted on any state."""

    title: str
    queries: servers.Queries
    case: Case | None
    request: ShowRequest
    aggregates: Sequence[HostAggregate]
    in_nova: nova_servers.ServerCases
    compute: ServerHosts

    def rows(self, base: state.CloudState, *, is_after: bool) -> Iterator[CapacityRow]:
        """A row for each part of the cloud."""
        without = frozenset(servers.roots_named(base, self.request.without, self.compute))
        refused = self.compute.refused(base.tree)
        parts = self._parts(base, without)
        if self.request.by in (By.AGGREGATE, By.ZONE):
            base = _with_own_aggregates(base)
        answers = NO_ANSWERS
        if self.case is not None and self.compute.hosts is not None:
            answers = HostVerdicts(base, self.compute).of(self.case)
        refused = {**answers.refused, **refused}
        every = count.Counter(base, self.queries, without, refused)
        for part, roots, aggregates in parts:
            queries, counter = self.queries, every
            if aggregates:
                names = aggregates.union(roots)
                queries = tuple(
                    tuple(_within(query, names) for query in several) for several in queries
                )
                counter = count.Counter(base, queries, without, refused, among=set(roots))
            there = {*roots}.union(*(base.with_aggregate[uuid] for uuid in aggregates))
            unused = (
                base.providers[uuid]
                for uuid in sorted(every.shared_with(roots) - counter.shared_with(roots))
                if there.isdisjoint((uuid, base.providers[uuid].root_uuid))
            )
            capacity = counter.count(roots)
            kept, doubts, notes = None, list[str](), list[str]()
            if self.request.keep:
                kept, doubts, notes = self._kept(base, Wanted(queries, answers), roots, without)
            serving = counter.serving(roots)
            is_open = all(root in answers.unknown for root in serving)
            for root in serving:
                (doubts if is_open else notes).extend(answers.unknown.get(root, ()))
            reasons = {base.providers[root].name: refused[root] for root in capacity.refused}
            why = f"Placement does not have it in {part}"
            reasons |= {host.name: why for host in unused}
            yield CapacityRow(
                self.title,
                part,
                is_after,
                capacity,
                kept,
                Caveats(tuple(dict.fromkeys(doubts)), tuple(notes), (), reasons),
            )

    def _parts(
        self, base: state.CloudState, without: Collection[str]
    ) -> Iterable[tuple[str, list[str], set[str]]]:
        """``(name, root UUIDs, aggregates)`` of each part, or of all trees.

        ``aggregates`` are those of which a request for the part is a member_of. Nova's request
        names a host aggregate only if it is a zone: otherwise all providers serve its hosts.
        """
        by = self.request.by
        if by is None:
            return [("", [uuid for uuid in base.tree if uuid not in without], set())]
        hosts = [uuid for uuid in hosts_of(base) if uuid not in without]
        if by is By.HOST:
            return sorted((base.providers[uuid].name, [uuid], set[str]()) for uuid in hosts)
        in_nova = self._hosts_in_nova(base, hosts)
        names = {
            aggregate.uuid: _zone(aggregate) if by is By.ZONE else aggregate.name
            for aggregate in self.aggregates
        }
        plain = {aggregate.uuid for aggregate in self.aggregates if not _zone(aggregate)}
        hosts_in: dict[str, set[str]] = {}
        asked: dict[str, set[str]] = {}
        for uuid in in_nova if by is By.ZONE else dict.fromkeys([*base.with_aggregate, *in_nova]):
            if name := names.get(uuid, uuid):
                there = in_nova.get(uuid, base.with_aggregate[uuid])
                hosts_in.setdefault(name, set()).update(there)
                asked.setdefault(name, set()).update({uuid} - plain)
        parts = [
            (name, [uuid for uuid in hosts if uuid in uuids], asked[name])
            for name, uuids in sorted(hosts_in.items())
        ]
        others = set(hosts).difference(*hosts_in.values())
        parts.append((NO_PART, [uuid for uuid in hosts if uuid in others], set()))
        return [part for part in parts if part[1]]

    def _hosts_in_nova(self, base: state.CloudState, hosts: Iterable[str]) -> dict[str, set[str]]:
        """``{host aggregate: root UUIDs of its hosts}``: Placement's if nova was not read."""
        by_host = named_aggregates.hosts_in_nova(hosts, self.compute)
        if not by_host:
            return {item.uuid: {*base.with_aggregate[item.uuid]} for item in self.aggregates}
        return {
            item.uuid: {root for host in item.hosts for root in by_host.get(host, ())}
            for item in self.aggregates
        }

    def _kept(
        self,
        base: state.CloudState,
        wanted: Wanted,
        roots: Sequence[str],
        without: Collection[str],
    ) -> tuple[reserve.Reserve, list[str], list[str]]:
        """The reserve, the facts that can make it smaller, and the servers that it cannot save."""
        outside = set(base.tree).difference(roots)
        hosts = [uuid for uuid in hosts_of(base) if uuid not in outside]
        of_servers = self.in_nova
        placed, verdicts = of_servers.on(base, hosts), HostVerdicts(base, self.compute)
        leaving = ways.leaving(
            placed, of_servers.cases, verdicts, ways.OFF_A_DEAD_HOST, source_fails=True
        )
        moves = places.Moves(
            base,
            leaving.moving,
            SearchBudget(self.request.seconds),
            [wanted],
            without,
            of_servers.groups,
            {
                **dict.fromkeys(outside, "it is in another part"),
                **self.compute.refused(base.tree),
            },
            self.compute.root_of,
        )
        if not moves.is_complete:
            raise errors.PlacementError(
                "--keep: a host has too many allocation candidates for one of the requests"
            )
        usable = {option.root_uuid for option in moves.options_of(wanted.kind, ())}
        hosts = [uuid for uuid in hosts if uuid in usable]
        kept = reserve.capacity_with_failures(moves, wanted, hosts, self.request.keep or 0)
        doubts = [f"{text} of {uuid}" for uuid, text in leaving.doubtful.items()]
        if moves.has_doubt:
            sure = reserve.capacity_with_failures(
                moves.only_certain(), wanted, hosts, self.request.keep or 0, kept.least
            )
            if sure.least < kept.least or sure.unsafe != kept.unsafe:
                doubts += moves.all_doubts()
        unsafe = tuple(base.providers[uuid].name for uuid in kept.unsafe)
        unplaced = stop.may_stop(moves, kept.unsafe).unplaced if unsafe else ()
        notes = _lost(leaving, placed, unplaced)
        return dataclasses.replace(kept, unsafe=unsafe), doubts, notes


def _lost(
    leaving: ways.Leaving,
    placed: Iterable[servers.PlacedServer],
    unplaced: Iterable[stop.Unplaced],
) -> list[str]:
    """The servers that nova does not evacuate, whatever room there is, and those without room."""
    by_text: dict[str, list[str]] = {}
    for server in placed:
        if why := leaving.held.get(server.key):
            text = f"not evacuated if its host fails, because {why}"
            by_text.setdefault(text, []).append(server.uuid)
    for item in unplaced:
        text = f"no place if its host fails, because {'; '.join(item.reasons)}"
        by_text.setdefault(text, []).append(item.server.uuid)
    return [f"{nova_servers.named(uuids)}: {text}" for text, uuids in by_text.items()]
