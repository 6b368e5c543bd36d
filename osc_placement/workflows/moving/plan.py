# SPDX-License-Identifier: Apache-2.0
"""The goal to empty hosts, and the steps that lead there.

``DrainRequest.observe`` sends the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates import plans
from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.model.name import counted
from osc_placement.scheduling.answer import Answer, Caveats
from osc_placement.scheduling.case import Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import (
    nova_servers,
    observe_hosts,
    servers,
    source,
)
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.observe_hosts import ServersRead
from osc_placement.workflows.explain import changes as changes_of_hosts, overwritten_by_nova
from osc_placement.workflows.explain.changes import SmallestChange
from osc_placement.workflows.moving import (
    document,
    follow,
    largest_set,
    places,
    planner,
    reserve_plan,
    steps,
    stop,
    targets,
)

_NO_ORDER = "no order of moves leads there: each needs its new room before it frees the old"
_ONLY_LIVE = "nova moves it only cold, and --only-live is given"
_EXCLUDED = "--except names it"
_UNLISTED = (
    "nova does not list it: 'openstack placement allocation audit --min-age 0' says what it is"
)
KEPT_BACK = "it has room, but what --keep reserves would be used"
_MISSING = "it has no allocations there: 'openstack placement allocation heal' first"
_ELSEWHERE = (
    "it has allocations on other hosts only: 'openstack placement allocation audit' says what to do"
)
DOWN = (
    "host {host}: nova-compute is down, so nova cannot migrate from it: 'openstack server evacuate'"
    " is for servers of a host that is down"
)


#: Kinds of servers of which changes are worked out.
_KINDS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Drain(planner.Planned):
    """A plan and what it was made from.

    If servers stay: ``changes`` is ``{(server UUID, root UUID): the smallest changes after which it
    could move}`` for those that have no room, and ``most`` are the hosts (nova's names) that can be
    emptied together.
    """

    read: ServersRead
    changes: Mapping[tuple[str, str], Sequence[SmallestChange]] = dataclasses.field(
        default_factory=dict
    )
    most: largest_set.LargestSet | None = None

    def changes_of(self, server: document.BlockedServer) -> list[str]:
        """The changes after which a server that stays could move, as sentences."""
        root = self.plan.nodes[self.plan.hosts.index(server.host)]
        return [change.text for change in self.changes.get((server.server, root), ())]


@dataclasses.dataclass(frozen=True, slots=True)
class DrainRequest:
    """The goal to empty hosts: ``hosts`` are names or UUIDs, ``aggregates`` are UUIDs.

    ``flavors`` is ``{name: nova's queries}``: a plan keeps the last place for each of them, where
    it can. ``former`` is the plan that is continued: its servers are read beside those of the
    hosts.
    """

    hosts: Sequence[str]
    aggregates: Sequence[str] = ()
    options: document.DrainOptions = dataclasses.field(default_factory=document.DrainOptions)
    flavors: Mapping[str, places.Wanted] = dataclasses.field(default_factory=dict)
    former: document.MovePlan | None = None
    seconds: float = 60.0

    def observe(
        self, client: api.Client, nova: nova_servers.NovaReader, context: ReadContext
    ) -> ServersRead:
        """The hosts, and with ``keep`` the servers of all hosts.

        Requests: those of ``observe_hosts.read``, with ``keep`` those of ``source.everything``;
        to nova and neutron those of ``nova``. Errors: InvalidInput for hosts that nova does not
        have or that are down, and for all hosts.
        """
        others = [move.server for move in self.former.moves] if self.former else []
        if self.options.keep:
            named = nova.named_aggregates(self.aggregates)
            with source.of(client, context).everything(named) as base:
                read = observe_hosts.of_state(base, self.hosts, self.aggregates, nova, others)
                everywhere = observe_hosts.servers_everywhere(base, nova).known
                read = dataclasses.replace(read, everywhere=everywhere)
        else:
            more = [query for it in self.flavors.values() for one in it.queries for query in one]
            read = observe_hosts.read(
                client, self.hosts, self.aggregates, nova, context, more, others
            )
        follow.check_nova(filter(None, [read.cloud.servers_problem]))
        _check(read, nova.compute, self.options.keep)
        return read

    def decide(self, read: ServersRead, compute: ServerHosts) -> Drain:
        """The plan of what was read."""
        return _decide(read, self, compute)

    def check(self, planned: Drain, read: ServersRead, nova: nova_servers.NovaReader) -> Drain:
        """The plan as it is: nova was asked about all servers of the hosts."""
        return planned


def disabled(
    hosts: Sequence[str], compute: ServerHosts, former: document.MovePlan | None
) -> tuple[document.DisabledHost, ...]:
    """The hosts that somebody disabled: before the first plan, or since then, not by its script."""
    services = [service for host in hosts if (service := compute.service_of(host)) is not None]
    enabled = {service.host for service in services if service.is_enabled}
    now = {
        service.host: document.DisabledHost(service.host, service.disabled_reason)
        for service in services
        if former is None or service.disabled_reason != document.REASON
    }
    before = {host.host: host for host in former.disabled} if former else {}
    return tuple(host for host in (now | before).values() if host.host not in enabled)


def _check(read: ServersRead, compute: ServerHosts, failures: int) -> None:
    """Refuse hosts from which nova moves nothing, and a cloud without a target or a reserve."""
    input_errors = errors.InputErrors()
    for root in read.roots:
        name = read.base.providers[root].name
        if compute.node(root) is None:
            why = compute.why_not(root)
            input_errors.add(f"{name}: {why}: 'openstack compute service list' shows the hosts")
        elif not compute.is_up(root):
            input_errors.add(DOWN.format(host=name))
    left = set(hosts_of(read.base)) - set(read.roots)
    if not left:
        input_errors.add("all hosts are to be drained: none is left as a target")
    elif failures >= len(left):
        other = counted(len(left), "other host")
        input_errors.add(f"--keep {failures}: there are only {other}, and one must not fail")
    input_errors.check()


def _decide(
    read: ServersRead,
    request: DrainRequest,
    compute: ServerHosts,
) -> Drain:
    before = request.former.options if request.former else document.DrainOptions()
    question = HostServers(read, request.options, compute, before)
    base, roots = read.base, read.roots
    moves = question.moves(request.flavors, request.seconds)
    schedule, of_reserve = _scheduled(moves, question, request, read.everywhere)
    targets_of_steps = ((step.server, step.option) for step in schedule.steps)
    doubts = (*planner.doubts_of_targets(moves, targets_of_steps),)
    caveats = Caveats(tuple(question.not_checked())) + of_reserve + Caveats(doubts)
    blocked = question.blocked | reasons(moves, roots, schedule)
    plan = document.MovePlan(
        tuple(map(question.names.host, roots)),
        tuple(roots),
        tuple(
            question.names.move(step.wave, step.server, step.option, step.why)
            for step in schedule.steps
        ),
        tuple(
            document.BlockedServer(
                uuid, question.names.server(uuid), question.names.host(root), why
            )
            for (uuid, root), why in sorted(blocked.items())
        ),
        options=request.options,
        disabled=disabled(tuple(map(question.names.host, roots)), compute, request.former),
    )
    drain = Drain(plan, caveats, read)
    if plan.is_complete:
        return drain
    possible = None
    if len(roots) > 1:
        stuck = {root for _, root in question.blocked}
        possible = largest_set.find(moves, roots, stuck)
        named = tuple(map(question.names.host, possible.hosts))
        possible = dataclasses.replace(possible, hosts=named)
    counted = changes_of_hosts.counted_by_nova(base, compute)
    changes = _changes(moves, roots, schedule, counted)
    caveats += Caveats(
        notes=tuple(overwritten_by_nova.notes(itertools.chain.from_iterable(changes.values())))
    )
    return dataclasses.replace(drain, caveats=caveats, changes=changes, most=possible)


def _scheduled(
    moves: places.Moves,
    question: HostServers,
    request: DrainRequest,
    everywhere: nova_servers.ServerCases | None,
) -> tuple[steps.Schedule, Caveats]:
    """The steps, and what is open about the reserve."""
    roots, failures = question.roots, request.options.keep
    preference = targets.Preference(moves, roots, request.flavors)
    order = functools.partial(
        steps.schedule,
        moves,
        roots,
        question.moving,
        preference,
        request.options.parallel or 1,
        per_source=request.options.per_source,
    )
    kept, caveats = reserve_plan.before_plan(
        question.names, everywhere, failures, request.seconds, roots
    )
    if kept is None:
        return order(), caveats
    try:
        return order(functools.partial(kept.is_kept, roots)), caveats
    except SearchTooLong as error:
        return order(), reserve_plan.too_long(failures, error)


def _changes(
    moves: places.Moves,
    roots: Sequence[str],
    schedule: steps.Schedule,
    counted: Collection[str],
) -> dict[tuple[str, str], Sequence[SmallestChange]]:
    """The smallest changes for servers that have no room after the steps."""
    after = steps.after(moves.base, schedule.steps)
    without = {*roots, *moves.without}
    of_kind: dict[Hashable, Sequence[SmallestChange]] = {}
    answer: dict[tuple[str, str], Sequence[SmallestChange]] = {}
    for server in schedule.left:
        kind = server.kind, server.together
        if server.key in schedule.kept_back or (kind not in of_kind and len(of_kind) == _KINDS):
            continue
        if kind not in of_kind:
            of_kind[kind] = smallest_changes(moves, after, server, without, counted)
        answer[server.uuid, server.root_uuid] = of_kind[kind]
    return answer


def smallest_changes(
    moves: places.Moves,
    after: state.CloudState,
    server: servers.PlacedServer,
    without: Collection[str],
    counted: Collection[str] = (),
) -> list[SmallestChange]:
    """The smallest changes after which a server has a target; each is sufficient alone.

    ``after`` is the state after the steps, ``without`` are the root UUIDs of hosts that are no
    targets, ``counted`` the providers that nova-compute counts. Empty if only another member of its
    server group would have to move.
    """
    excluded = {*without, *(root for root, _ in moves.refusals(server))}
    hosts = [root for root in hosts_of(after) if root not in excluded]
    if not hosts:
        return []
    query = server.query
    return [
        change
        for root in changes_of_hosts.nearest(after, plans.prepare(after, query), hosts, {})
        for change in changes_of_hosts.of_host(
            after, moves.query_for(query, root), root, {}, (), excluded, counted
        )
    ]


class HostServers:
    """What was read about the hosts, joined: the servers that may move, and why others stay.

    Servers that were named ``before`` may be gone. ``moving`` are the servers that nova moves.
    ``blocked`` is ``{(server UUID, root UUID): why}`` for those that stay whatever room there is.
    """

    def __init__(
        self,
        read: ServersRead,
        now: document.DrainOptions,
        compute: ServerHosts,
        before: document.DrainOptions,
    ) -> None:
        self._read, self._options, self.compute = read, now, compute
        self._avoided = servers.roots_named(read.base, now.avoid, compute, before.avoid)
        self.roots = read.roots
        self.names = planner.StepNames(read.base, compute, read.cloud.listed_servers)
        listed = read.cloud.listed_servers
        named = planner.named_servers
        self._excluded = named("--except", now.excluded, listed, before.excluded)
        self._cold = named("--cold", now.cold, listed, before.cold)
        joined = observe_hosts.join(read, compute, self._cold)
        self._by_state, self._leaving = joined.by_state, joined.leaving
        by_state = joined.by_state
        self.blocked: dict[tuple[str, str], tuple[str, ...]] = {
            key: (why,) for key, why in (*by_state.held.items(), *by_state.doubtful.items())
        }
        self.moving: list[servers.PlacedServer] = []
        for server in joined.moving:
            if why := self._why_blocked(server):
                self.blocked[server.uuid, server.root_uuid] = (why,)
            else:
                self.moving.append(server)
        for uuid, root in by_state.resting:
            if uuid in joined.lost.missing:
                self.blocked[uuid, root] = (_MISSING,)
            elif uuid in joined.lost.elsewhere:
                self.blocked[uuid, root] = (_ELSEWHERE,)

    def moves(self, flavors: Mapping[str, places.Wanted], seconds: float) -> places.Moves:
        """Where the servers could go; ``flavors`` are among the requests."""
        base, groups = self._read.base, self._read.known.groups
        return planner.aimed_moves(
            base, self.moving, groups, self.compute, seconds, flavors.values(), self._avoided
        )

    def _why_blocked(self, server: servers.PlacedServer) -> str:
        """Why a server that is at rest there has no step; empty if it may have one."""
        if (server.uuid, server.root_uuid) not in self._by_state.resting:
            return _UNLISTED
        if server.uuid in self._excluded:
            return _EXCLUDED
        may_be_cold = not self._options.only_live or server.uuid in self._cold
        if may_be_cold or server.way is not Way.MIGRATE:
            return ""
        why = self._leaving.cold.get(server.key, "it is stopped")
        return f"{why}: {_ONLY_LIVE}"

    def not_checked(self) -> Iterator[str]:
        """What was not checked, and can refuse a step."""
        yield from self.compute.not_checked
        yield from self._read.known.caveats.doubts
        for server in self.moving:
            if server.key in self._leaving.doubtful:
                yield f"server {server.uuid}: {self._leaving.doubtful[server.key]}"


def reasons(
    moves: places.Moves, roots: Sequence[str], schedule: steps.Schedule
) -> dict[tuple[str, str], tuple[str, ...]]:
    """``{(server UUID, root UUID): why}`` for the servers without a step."""
    if not schedule.left:
        return {}
    verdict = stop.may_stop(moves, roots)
    unplaced = {server.server.key: server.reasons for server in verdict.unplaced}
    default = _NO_ORDER if schedule.is_proven else "the time did not suffice to find an order"
    if verdict.answer is Answer.NO:
        default = stop.ONLY_WITHOUT_OTHERS
    kept_back = dict.fromkeys(schedule.kept_back, (KEPT_BACK,))
    return {
        (server.uuid, server.root_uuid): kept_back.get(server.key)
        or unplaced.get(server.key)
        or (default,)
        for server in schedule.left
    }
