# SPDX-License-Identifier: Apache-2.0
"""The goal that every host is emptied once, and the legs that lead there.

``RollRequest.observe`` sends the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.search import placing
from osc_placement.workflows.cloud import nova_servers, observe_hosts, servers, source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.observe_hosts import ServersRead
from osc_placement.workflows.moving import (
    document,
    follow,
    legs,
    places,
    plan as drain_plan,
    planner,
    reserve_plan,
    roll_gate,
    steps,
    targets,
)

COMMAND = "placement host roll"
_NO_TIME = "the time did not suffice: give --timeout"
_GONE = "neither nova nor Placement has it any more"


@dataclasses.dataclass(frozen=True, slots=True)
class Roll(planner.Planned):
    """A plan in legs.

    ``at_least``: fewer legs are not enough for its hosts; ``is_proven``: no plan empties more
    hosts, or as many in fewer legs. ``moved`` is ``{server: its moves}``, with the servers that do
    not move. With one more empty host like each of ``added`` (nova's names), the hosts can be
    emptied whose servers have no room. ``gate`` is why the next leg must wait; no leg is planned
    then.
    """

    at_least: int = 0
    is_proven: bool = False
    moved: Mapping[str, int] = dataclasses.field(default_factory=dict)
    added: Sequence[str] = ()
    gate: Sequence[roll_gate.ClosedGate] = ()

    @property
    def mean(self) -> float:
        """Moves per server in the mean."""
        return sum(self.moved.values()) / max(len(self.moved), 1)


@dataclasses.dataclass(frozen=True, slots=True)
class RollRequest:
    """The goal to empty hosts once, in legs; ``asked`` are the options of the legs.

    ``hosts`` are names or UUIDs, ``aggregates`` UUIDs; without both all hosts count. ``zones`` is
    ``{nova's host: zone}``. ``former`` is the plan that is continued, ``record`` what its
    scripts recorded.
    """

    hosts: Sequence[str]
    aggregates: Sequence[str] = ()
    asked: document.LegPlan = dataclasses.field(default_factory=document.LegPlan)
    options: document.DrainOptions = dataclasses.field(default_factory=document.DrainOptions)
    zones: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flavors: Mapping[str, places.Wanted] = dataclasses.field(default_factory=dict)
    former: document.MovePlan | None = None
    record: roll_gate.RebootRecord = dataclasses.field(default_factory=roll_gate.RebootRecord)
    seconds: float = 60.0

    def observe(
        self, client: api.Client, nova: nova_servers.NovaReader, context: ReadContext
    ) -> ServersRead:
        """The hosts, and with ``keep`` the servers of all hosts.

        Requests: those of ``source.everything``; to nova and neutron those of ``nova``. Errors:
        InvalidInput for unknown hosts.
        """
        with source.of(client, context).everything(nova.named_aggregates(self.aggregates)) as whole:
            hosts = [*self.hosts] if self.hosts or self.aggregates else hosts_of(whole)
            former = self._former_roots(nova.compute)
            hosts += [root for root in former if root in whole.providers]
            read = observe_hosts.of_state(whole, hosts, self.aggregates, nova)
            follow.check_nova(filter(None, [read.cloud.servers_problem]))
            if self.options.keep:
                everywhere = observe_hosts.servers_everywhere(whole, nova).known
                read = dataclasses.replace(read, everywhere=everywhere)
        return read

    def _former_roots(self, compute: ServerHosts) -> list[str]:
        """The hosts of the plan that is continued: a host may have left its zone since."""
        if self.former is None:
            return []
        left = (host.node for host in self.former.legs.left)
        return [*self.former.nodes, *left, *roll_gate.done_roots(self.record, compute)]

    def decide(self, read: ServersRead, compute: ServerHosts) -> Roll:
        """The legs, the fewest that were found."""
        former, skip = self.former, self.asked.skipped
        gate = [*roll_gate.check(former, self.record, skip, read.cloud, compute)]
        before = (*former.hosts, *former.legs.skipped) if former else ()
        before = (*before, *self.record.rebooted)
        skipped = servers.roots_named(read.base, skip, compute, before)
        if self.former is not None and gate:
            return Roll(self.former, Caveats(), gate=gate)
        out = {*skipped, *roll_gate.done_roots(self.record, compute)}
        read = dataclasses.replace(read, roots=[it for it in read.roots if it not in out])
        return _Roll(read, self, compute).plan()

    def check(self, planned: Roll, read: ServersRead, nova: nova_servers.NovaReader) -> Roll:
        """The plan as it is: nova was asked about all servers of the hosts."""
        return planned


@dataclasses.dataclass(frozen=True, slots=True)
class Refill:
    """Hosts that wait to be emptied come last, so that a server moves once where it can."""

    usual: targets.Preference
    waiting: Collection[str]

    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: steps.Amounts
    ) -> tuple[float | int | str, ...]:
        is_unsure, *others = self.usual.rank(server, option, left)
        return (is_unsure, option.root_uuid in self.waiting, *others)

    def why(
        self,
        server: servers.PlacedServer,
        option: placing.Option,
        left: steps.Amounts,
        possible: int,
    ) -> str:
        why = self.usual.why(server, option, left, possible)
        return f"{why}; it moves again later" if option.root_uuid in self.waiting else why


class _Roll:
    """What was read, joined: the hosts that can be emptied at all, and why others cannot."""

    def __init__(self, read: ServersRead, request: RollRequest, compute: ServerHosts) -> None:
        self._request = request
        started = roll_gate.started(request.former, request.record, compute)
        self._started = [root for root in read.roots if root in started]
        for root in self._started:
            compute = compute.enabled(root)
        self._base = reserve_plan.in_service(read.base, self._started)
        self._compute = compute
        self._read = dataclasses.replace(read, base=self._base)
        before = request.former.options if request.former else document.DrainOptions()
        self._hosts = drain_plan.HostServers(self._read, request.options, compute, before)
        self._moves = self._hosts.moves(request.flavors, request.seconds)
        self._verdicts = HostVerdicts(self._base, compute)
        unusable = dict(self._unusable())
        self._stuck = dict(unusable)
        for (uuid, root), why in sorted(self._hosts.blocked.items()):
            if root in self._read.roots and root not in unusable:
                name = self._hosts.names.server(uuid) or uuid
                self._stuck[root] = (*self._stuck.get(root, ()), f"{name}: {'; '.join(why)}")

    def _unusable(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for root in self._read.roots:
            name = self._hosts.names.host(root)
            if self._compute.node(root) is None:
                yield root, (self._compute.why_not(root),)
            elif self._compute.root_of(name) is None:
                yield root, (f"nova-compute of {name} has several nodes",)
            elif not self._compute.is_up(root):
                yield root, (drain_plan.DOWN.format(host=name),)

    def plan(self) -> Roll:
        """The legs. Errors: InvalidInput if there is no host to empty."""
        request, names = self._request, self._hosts.names
        roots = [root for root in self._read.roots if root not in self._stuck]
        answer, caveats = self._found(roots)
        placed = [(it.server, it.option) for leg in answer.legs for it in leg.steps]
        doubts = (*self._hosts.not_checked(), *planner.doubts_of_targets(answer.moves, placed))
        self._stuck |= {root: self._why_left(answer, root) for root in answer.left}
        moves, waves = [], 0
        for leg in answer.legs:
            moves += [names.move(waves + it.wave, it.server, it.option, it.why) for it in leg.steps]
            waves += max((it.wave for it in leg.steps), default=0)
        emptied = [root for leg in answer.legs for root in leg.roots]
        hosts = tuple(map(names.host, emptied))
        plan = document.MovePlan(
            hosts,
            tuple(emptied),
            tuple(moves),
            options=request.options,
            disabled=drain_plan.disabled(hosts, self._compute, request.former),
            command=COMMAND,
            legs=dataclasses.replace(
                request.asked,
                legs=tuple(
                    document.PlannedLeg(tuple(map(names.host, leg.roots)), len(leg.steps))
                    for leg in answer.legs
                ),
                left=(*self._left(), *self._gone()),
                first=self._first,
            ),
        )
        moved = dict.fromkeys((server.uuid for server in self._hosts.moving), 0)
        for server, _ in placed:
            moved[server.uuid] += 1
        at_least = self._rules.least_legs(emptied)
        least = len(answer.legs) if answer.is_proven else at_least
        added = self._added(answer.left)
        return Roll(plan, caveats + Caveats(doubts), least, answer.is_proven, moved, added)

    def _added(self, left: Sequence[str]) -> list[str]:
        """A host of each form among those without room: its servers fit on an empty copy of it."""
        forms: dict[object, str] = {}
        for root in left:
            own = [self._base.providers[uuid] for uuid in sorted(self._base.tree[root])]
            fits = all(
                amount <= provider.inventories[name].capacity
                for provider in own
                for name, amount in self._base.used(provider.uuid).items()
            )
            offered = [(it.traits, tuple(sorted(it.inventories.items()))) for it in own]
            if fits:
                forms.setdefault(tuple(offered), self._hosts.names.host(root))
        return list(forms.values())

    @property
    def _first(self) -> int:
        """The number of the first leg, after those of the plan that is continued."""
        former, record = self._request.former, self._request.record
        return former.legs.first + roll_gate.legs_done(former, record) if former else 1

    @property
    def _rules(self) -> legs.LegRules:
        request = self._request
        zones = {
            root: request.zones.get(self._hosts.names.host(root), "") for root in self._read.roots
        }
        return legs.LegRules(
            request.asked.at_once or (0 if request.asked.per_zone else 1),
            request.asked.per_zone,
            zones,
            request.options.parallel or 1,
            request.options.per_source,
        )

    def _found(self, roots: Sequence[str]) -> tuple[legs.Legs, Caveats]:
        request = self._request
        reserve, caveats = reserve_plan.before_plan(
            self._hosts.names,
            self._read.everywhere,
            request.options.keep,
            request.seconds,
            self._started,
        )
        return legs.find(
            self._moves,
            roots,
            self._rules,
            self._preference,
            self._there,
            reserve,
            self._started,
        ), caveats

    def _preference(
        self, moves: places.Moves, stopped: Collection[str], waiting: Collection[str]
    ) -> Refill:
        return Refill(targets.Preference(moves, stopped, self._request.flavors), waiting)

    def _there(self, server: servers.PlacedServer) -> servers.PlacedServer:
        """A server on its new host: nova compares a target with it."""
        case = self._read.known.cases.get(server.uuid)
        if case is None or case.server is None or server.way is None:
            return server
        host = self._hosts.names.host(server.root_uuid)
        moved = dataclasses.replace(case.server, host=host)
        case = dataclasses.replace(case, way=server.way, server=moved)
        return dataclasses.replace(server, answers=self._verdicts.of(case))

    def _why_left(self, answer: legs.Legs, root: str) -> tuple[str, ...]:
        """Why no leg empties a host, on the state after all legs."""
        moves, budget = answer.moves, self._moves.budget
        try:
            budget.check()
            on_host = moves.servers_on([root])
            schedule = steps.schedule(moves, [root], on_host, self._preference(moves, [root], ()))
            if not schedule.left:
                return (drain_plan.KEPT_BACK if answer.reserve else _NO_TIME,)
            why = drain_plan.reasons(moves, [root], schedule)
            names = self._hosts.names
            return tuple(
                f"{names.server(uuid) or uuid}: {'; '.join(texts)}"
                for (uuid, _), texts in why.items()
            )
        except SearchTooLong:
            return (_NO_TIME,)

    def _left(self) -> Iterator[document.StayingHost]:
        for root in sorted(self._stuck, key=self._hosts.names.host):
            yield document.StayingHost(self._hosts.names.host(root), root, self._stuck[root])

    def _gone(self) -> Iterator[document.StayingHost]:
        """Hosts of the plan that is continued which have left the cloud."""
        if self._request.former is not None:
            former = self._request.former
            for host, root in zip(former.hosts, former.nodes, strict=True):
                if root not in self._base.providers and host not in self._request.record.rebooted:
                    yield document.StayingHost(host, root, (_GONE,))
