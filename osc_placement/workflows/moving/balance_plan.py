# SPDX-License-Identifier: Apache-2.0
"""The goal that hosts are evenly used, and the moves that lead there.

``BalanceRequest.observe`` and ``check`` send the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.model.name import and_more
from osc_placement.scheduling.case import Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.search import placing
from osc_placement.workflows.cloud import nova_servers, servers, ways
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.observe_hosts import ServersRead
from osc_placement.workflows.moving import (
    balance,
    document,
    evenness,
    places,
    planner,
    reserve_plan,
    steps,
    targets,
)

COMMAND = "placement capacity balance"


@dataclasses.dataclass(frozen=True, slots=True)
class PartBalance:
    """Hosts that take the same servers, and what becomes of them.

    ``name`` is the resource class by which they are even, ``before`` and ``after`` are ``{nova's
    name of a host: its use}``. ``why`` says why the limit is not reached; empty if it is.
    """

    name: str
    before: Mapping[str, evenness.HostShare]
    after: Mapping[str, evenness.HostShare]
    answer: balance.Balanced
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class BalancePlan(planner.Planned):
    """A plan, and what it does to each part of the cloud.

    ``not_counted`` are hosts without a part, ``stay`` is ``{why: how many servers have no step
    whatever the shares are}``.
    """

    parts: Sequence[PartBalance]
    not_counted: tuple[str, ...]
    stay: Mapping[str, int]

    @property
    def is_reached(self) -> bool:
        """Whether the spread of each part is within the limit after the steps."""
        return all(part.answer.is_reached for part in self.parts)


@dataclasses.dataclass(frozen=True, slots=True)
class BalanceRequest:
    """The goal that the spread of hosts is at most ``within``, with at most ``most_moves`` moves.

    ``hosts`` are names, ``aggregates`` UUIDs; without both all hosts count. ``name`` is the
    resource class; empty for the scarcest one. ``flavors`` are those of which no step takes the
    last place, ``anew`` is the command line for this goal.
    """

    hosts: Sequence[str] = ()
    aggregates: Sequence[str] = ()
    name: str = ""
    within: float = 0.1
    most_moves: int = evenness.NEVER
    options: document.DrainOptions = dataclasses.field(default_factory=document.DrainOptions)
    flavors: Mapping[str, places.Wanted] = dataclasses.field(default_factory=dict)
    seconds: float = 60.0
    anew: str = ""

    def observe(
        self, client: api.Client, nova: nova_servers.NovaReader, context: ReadContext
    ) -> ServersRead:
        """All servers. Requests: those of ``read_every_server``."""
        return planner.read_every_server(client, nova, context, self.aggregates)

    def decide(self, read: ServersRead, compute: ServerHosts) -> BalancePlan:
        """The fewest, then the smallest moves. Errors: InvalidInput for hosts without a spread."""
        return _Balance(read, self, compute).plan()

    def check(
        self, planned: BalancePlan, read: ServersRead, nova: nova_servers.NovaReader
    ) -> BalancePlan:
        """What can refuse a server that moves. Requests: those of ``nova`` for these."""
        of_moved = planner.doubts_of_moved(planned.plan, read, nova)
        return dataclasses.replace(planned, caveats=planned.caveats + of_moved)


class _Balance:
    """What was read, joined: the hosts that count, and the servers that may move."""

    def __init__(self, read: ServersRead, request: BalanceRequest, compute: ServerHosts) -> None:
        self._read, self._request, self._compute = read, request, compute
        self._base, options = read.base, request.options
        self._names = planner.StepNames(read.base, compute, read.cloud.listed_servers)
        self._refused = compute.refused(read.base.tree)
        self._avoided = servers.roots_named(read.base, options.avoid, compute)
        self._scope = self._chosen()
        of_servers = read.known
        self._cold = planner.named_servers("--cold", options.cold, read.cloud.listed_servers)
        self._excluded = planner.named_servers(
            "--except", options.excluded, read.cloud.listed_servers
        )
        self._leaving = ways.leaving(
            read.resting(), of_servers.cases, HostVerdicts(read.base, compute), only_cold=self._cold
        )
        moving = {server.key: server for server in self._leaving.moving}
        placed = of_servers.on(read.base, hosts_of(read.base))
        self._placed = [moving.get(server.key, server) for server in placed]
        self._moves = planner.aimed_moves(
            read.base,
            self._placed,
            of_servers.groups,
            compute,
            request.seconds,
            request.flavors.values(),
            self._avoided,
        )
        self._preference = targets.Preference(self._moves, (), request.flavors)
        self.stay: dict[str, int] = {}
        self._of_kind: dict[Hashable, frozenset[str]] = {}
        self._kept: reserve_plan.FailureReserve | None = None
        #: ``{root UUID: which class it lacks}``
        self._lacking: dict[str, str] = {}
        self._movable = [server for server in self._placed if self._may_move(server)]

    def _chosen(self) -> list[str]:
        """The hosts that are asked for. Errors: InvalidInput for less than two."""
        request, base, own = self._request, self._base, hosts_of(self._base)
        if not (request.hosts or request.aggregates):
            return own
        members = {uuid: base.with_aggregate[uuid] for uuid in request.aggregates}
        return servers.chosen_roots(base, request.hosts, members, set(own), self._compute)

    def _why_out(self, root: str) -> str:
        """Why a host does not count; empty if it does."""
        return self._refused.get(root, "--avoid names it" if root in self._avoided else "")

    def _may_move(self, server: servers.PlacedServer) -> bool:
        """Whether a server may have a step; counts why it stays."""
        if server.root_uuid not in self._scope or self._why_out(server.root_uuid):
            return False
        why = self._why_stays(server)
        if why:
            self.stay[why] = self.stay.get(why, 0) + 1
        return not why

    def _why_stays(self, server: servers.PlacedServer) -> str:
        if server.way is None:
            return "nova does not move it, or it moves now: 'openstack placement server check'"
        if server.uuid in self._excluded:
            return "--except names it"
        if server.together:
            return "its server group has affinity"
        if server.root_uuid not in self._hosts_of_kind(server):
            return "its host has what few hosts have and it does not request, or takes none like it"
        if server.way is Way.MIGRATE and server.uuid not in self._cold:
            if self._request.options.only_live:
                return "nova moves it only cold, and --only-live is given"
            return "nova moves it only cold" if server.key in self._leaving.cold else ""
        return ""

    def _hosts_of_kind(self, server: servers.PlacedServer) -> frozenset[str]:
        """The hosts that count and take servers like this one, without scarce things beside."""
        if server.kind not in self._of_kind:
            roots = {option.root_uuid for option in self._moves.options_of(server.kind, ())}
            self._of_kind[server.kind] = frozenset(
                root
                for root in roots.intersection(self._scope)
                if not self._why_out(root) and not self._preference.scarce_beside(server, root)
            )
        return self._of_kind[server.kind]

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        """Hosts that take the same servers, with the class that counts; at least two each."""
        alike = [hosts for server in self._placed if (hosts := self._hosts_of_kind(server))]
        for several in placing.separate(dict.fromkeys(alike), lambda hosts: hosts):
            roots = sorted(frozenset().union(*several), key=self._names.host)
            name = self._request.name or evenness.scarcest(self._base, roots)
            counting = [root for root in roots if evenness.capacity_of(self._base, root, name)]
            lacking = set(roots).difference(counting)
            why = f"it has no {name}" if name else "no resource class is had by all like it"
            self._lacking |= dict.fromkeys(lacking, why)
            if len(counting) > 1:
                yield name, counting

    def plan(self) -> BalancePlan:
        """The plan for all parts. Errors: InvalidInput for hosts without a spread."""
        parts = list(self._parts())
        counting = {root for _, roots in parts for root in roots}
        self._check(counting)
        self._kept, of_reserve = reserve_plan.before_plan(
            self._names, self._read.known, self._request.options.keep, self._request.seconds
        )
        done: list[steps.DrainStep] = []
        balanced = [self._part(name, roots, done) for name, roots in parts]
        waves = self._waves(done, balanced)
        read = self._read, self._compute, self._moves, self._leaving
        placed = [(step.server, step.option) for step in waves]
        plan = document.MovePlan(
            (),
            (),
            tuple(self._names.move(it.wave, it.server, it.option, it.why) for it in waves),
            options=self._request.options,
            command=COMMAND,
            anew=self._request.anew,
        )
        names = [self._left_out(root) for root in self._scope if root not in counting]
        caveats = planner.caveats(*read, placed, counting) + of_reserve
        return BalancePlan(plan, caveats, balanced, tuple(dict.fromkeys(names)), self.stay)

    def _left_out(self, root: str) -> str:
        default = self._lacking.get(root, "no other host takes the same servers")
        why = self._why_out(root) or default
        return f"{self._names.host(root)} ({why})"

    def _check(self, counting: Collection[str]) -> None:
        """Refuse hosts of which no two can be compared."""
        if counting:
            return
        hosts = and_more(sorted(map(self._left_out, self._scope)))
        raise errors.InvalidInput(
            [f"an even cloud needs two hosts that take the same servers; there are only: {hosts}"]
        )

    def _part(self, name: str, roots: Sequence[str], done: list[steps.DrainStep]) -> PartBalance:
        """Balance hosts after the steps for the others, and add its steps to those."""
        movable = [server for server in self._movable if server.root_uuid in roots]
        left = self._request.most_moves - len(done)
        answer = self._surest(balance.EvenPart(roots, name, movable), left, done)
        done += answer.steps
        before, after = (
            {self._names.host(host.root): host for host in hosts}
            for hosts in (answer.before, answer.after)
        )
        return PartBalance(name, before, after, answer, self._why_not(answer, left))

    def _surest(
        self, part: balance.EvenPart, most_moves: int, done: Sequence[steps.DrainStep]
    ) -> balance.Balanced:
        """On hosts that surely take the servers, if that is enough."""
        request, is_kept = self._request, self._is_kept(done)

        def find(moves: places.Moves) -> balance.Balanced:
            return balance.find(
                moves,
                part,
                request.within,
                most_moves,
                request.flavors,
                self._preference.scarce_beside,
                is_kept,
                done,
            )

        answers = map(find, self._moves.surest_first())
        surest = next(answers)
        return surest if surest.is_reached else next(answers, surest)

    def _is_kept(self, done: Sequence[steps.DrainStep]) -> steps.IsKept | None:
        """Whether the reserve is there after steps; None if none is asked for."""
        kept = self._kept
        return None if kept is None else lambda more: kept.is_kept((), [*done, *more])

    def _why_not(self, answer: balance.Balanced, most_moves: int) -> str:
        """Why the limit is not reached; empty if it is."""
        if answer.is_reached:
            return ""
        if answer.least_spread > self._request.within + evenness.TOLERANCE:
            return "the sizes of the servers, and those that stay, allow no smaller spread"
        if answer.at_least is not None and answer.at_least > most_moves:
            return f"--max-moves {self._request.most_moves}: more moves are needed"
        keep = self._request.options.keep
        reserve = f", and for what --keep {keep} reserves," if keep else ""
        return f"no moves with room for each step{reserve} were found"

    def _waves(
        self, done: Sequence[steps.DrainStep], parts: Sequence[PartBalance]
    ) -> tuple[steps.DrainStep, ...]:
        why = {key: text for part in parts for key, text in _shares(self._base, part)}
        return steps.in_waves(
            done,
            self._moves.free((), ()),
            functools.partial(balance.after, self._moves),
            lambda step, _: why[step.server.key],
            self._request.options.parallel or 1,
            self._request.options.per_source,
        )


def _shares(base: state.CloudState, part: PartBalance) -> Iterator[tuple[str, str]]:
    """``(server key, the shares of its hosts before and after the step)``."""
    uses = {host.root: host for host in part.answer.before}
    for step in part.answer.steps:
        texts = []
        source, target = step.server.root_uuid, step.option.root_uuid
        own = step.server.allocations, steps.allocations_of(base, step.option)
        for root, sign, allocations in ((source, -1, own[0]), (target, 1, own[1])):
            amount = sum(allocations.get(uuid, {}).get(part.name, 0) for uuid in base.tree[root])
            now = uses[root]
            uses[root] = dataclasses.replace(now, used=now.used + sign * amount)
            texts.append(f"{now.share:.0%} to {uses[root].share:.0%}")
        yield step.server.key, f"{texts[0]}; {texts[1]}"
