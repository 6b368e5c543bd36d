# SPDX-License-Identifier: Apache-2.0
"""Moves between hosts as nova makes them, every order of them, and clouds to try them on.

Each claim is a write of the engine, with its checks.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import allocation as model, candidate
from osc_placement.nova import values
from osc_placement.nova.values import ServerGroup
from osc_placement.scheduling.case import Way
from osc_placement.search import placing
from osc_placement.testing import random_clouds
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.cloud.host_verdicts import HostAnswers, HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import places as capacity_moves, steps
from tests.support.candidates import clouds, random_queries
from tests.support.candidates.clouds import provider
from tests.support.capacity import brute_force, cases


class Hypervisors(NamedTuple):
    """``{root UUID: type and version}``, as far as nova shows them, and who moves live (UUIDs)."""

    of_root: Mapping[str, tuple[str, int]] = MappingProxyType({})
    live: frozenset[str] = frozenset()

    def accept(self, server: servers.PlacedServer, root: str) -> bool:
        """Whether nova moves a server to a host: live only to the same type, and to none older."""
        if server.uuid not in self.live or server.root_uuid not in self.of_root:
            return True
        (kind, version), (other, newest) = self.of_root[server.root_uuid], self.of_root[root]
        same = "" in (kind, other) or kind == other
        return same and (newest == 0 or newest >= version)


NO_HYPERVISORS = Hypervisors()

#: Server groups by UUID.
Groups = Mapping[str, ServerGroup]
NO_GROUPS: Groups = MappingProxyType({})


class Step(Protocol):
    """A step of any plan."""

    @property
    def server(self) -> servers.PlacedServer: ...
    @property
    def option(self) -> placing.Option: ...


class Pack:
    """The targets in the order of their UUIDs."""

    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: steps.Amounts
    ) -> tuple[str, ...]:
        return (option.root_uuid,)

    def why(
        self,
        server: servers.PlacedServer,
        option: placing.Option,
        left: steps.Amounts,
        possible: int,
    ) -> str:
        return f"{possible} possible"


def placed(
    base: state.CloudState,
    queries: Mapping[str, candidate.CandidateQuery] = MappingProxyType({}),
    groups: Iterable[ServerGroup] = (),
) -> list[servers.PlacedServer]:
    """The servers of the hosts, each on its own: nova names one host for a server.

    A host whose tree also shares something has allocations of servers elsewhere.
    """
    on_hosts = servers.servers_on(
        base, hosts_of(base), cases.of_servers(queries), cases.members(base, groups)
    )
    return [each for each in on_hosts if each.root_uuid in cases.hosts_of_server(base, each.uuid)]


def moves_of(
    base: state.CloudState,
    placed_servers: Sequence[servers.PlacedServer] | None = None,
    more: Iterable[capacity_moves.Wanted] = (),
    groups: Iterable[ServerGroup] = (),
) -> capacity_moves.Moves:
    """The moves of servers to the hosts; nova has no compute node for a shared pool."""
    placed_servers = placed(base) if placed_servers is None else placed_servers
    roots = {record.root_uuid for record in base.providers.values()}
    refused = dict.fromkeys(roots.difference(hosts_of(base)), "nova lists no compute node")
    budget = budgets.SearchBudget()
    return capacity_moves.Moves(
        base,
        placed_servers,
        budget,
        more,
        groups=cases.members(base, groups),
        refused=refused,
        root_of=cases.root_of,
    )


def holder(server: servers.PlacedServer) -> str:
    """The consumer that holds the source of a server while it moves."""
    return f"migration of {server.key}"


def begin(
    base: state.CloudState, server: servers.PlacedServer, target: model.Allocations
) -> state.CloudState:
    """The server has its target, and its migration the source. Raises the engine's errors."""
    own = base.consumers[server.uuid].allocations
    kept = {key: amounts for key, amounts in own.items() if key not in server.allocations}
    before = {key: own[key] for key in server.allocations}
    both = {key: {**kept.get(key, {}), **amounts} for key, amounts in target.items()}
    return brute_force.written(base, {holder(server): before, server.uuid: {**kept, **both}})


def end(base: state.CloudState, server: servers.PlacedServer) -> state.CloudState:
    return brute_force.written(base, {holder(server): {}})


def move(
    base: state.CloudState, server: servers.PlacedServer, target: model.Allocations
) -> state.CloudState:
    """A whole move. Raises the engine's errors."""
    return end(begin(base, server, target), server)


def admits(
    base: state.CloudState,
    server: servers.PlacedServer,
    groups: Groups,
    root: str,
) -> bool:
    """Whether nova's filters of server groups accept a host, as the members are now."""
    group = groups.get(server.apart or server.together)
    if group is None:
        return True
    there = sum(root in cases.hosts_of_server(base, member) for member in group.members)
    return there < group.most_per_host if server.apart else there > 0


def is_on_host(base: state.CloudState, found: candidate.Candidate) -> bool:
    """Whether a candidate takes something from a host: no server is in a shared pool only."""
    tree = base.tree[found.root_uuid]
    return found.root_uuid in hosts_of(base) and not tree.isdisjoint(found.allocations)


def targets_of(
    base: state.CloudState,
    server: servers.PlacedServer,
    allowed: brute_force.Allowed,
    groups: Groups = NO_GROUPS,
    hypervisors: Hypervisors = NO_HYPERVISORS,
) -> Iterator[model.Allocations]:
    """What a server can claim now elsewhere."""

    def admitted(allocation_candidate: candidate.Candidate) -> bool:
        return (
            is_on_host(base, allocation_candidate)
            and allowed(allocation_candidate)
            and admits(base, server, groups, allocation_candidate.root_uuid)
            and hypervisors.accept(server, allocation_candidate.root_uuid)
        )

    return brute_force.claims(base, server.query, admitted)


def places(base: state.CloudState) -> Hashable:
    """What each consumer has, as a comparable value."""
    return frozenset(
        (own, frozenset((key, *amounts.items()) for key, amounts in consumer.allocations.items()))
        for own, consumer in base.consumers.items()
    )


def has_order(
    base: state.CloudState,
    waiting: Sequence[servers.PlacedServer],
    stopped: Sequence[str],
    groups: Groups = NO_GROUPS,
    hypervisors: Hypervisors = NO_HYPERVISORS,
) -> bool:
    """Whether some order of moves, each to any target, moves all of them."""
    failed: set[tuple[frozenset[str], Hashable]] = set()
    state_of = places if groups else brute_force.usage
    elsewhere = brute_force.without_trees(base, stopped)

    def rest(current: state.CloudState, waiting: tuple[servers.PlacedServer, ...]) -> bool:
        if not waiting:
            return True
        reached = frozenset(placed_server.key for placed_server in waiting), state_of(current)
        if reached in failed:
            return False
        for server in waiting:
            others = tuple(each for each in waiting if each is not server)
            for target in targets_of(current, server, elsewhere, groups, hypervisors):
                if rest(move(current, server, target), others):
                    return True
        failed.add(reached)
        return False

    return rest(base, tuple(waiting))


def allocations_of(option: placing.Option) -> dict[str, dict[str, int]]:
    allocations: dict[str, dict[str, int]] = {}
    for (key, name), amount in option.amounts.items():
        if name.startswith("places of server group "):
            continue
        allocations.setdefault(key, {})[name] = amount
    return allocations


def carry_out(base: state.CloudState, planned_steps: Sequence[steps.DrainStep]) -> state.CloudState:
    """Begin all moves of a wave before the first ends; the engine checks each claim."""
    for wave in sorted({step.wave for step in planned_steps}):
        running = [step for step in planned_steps if step.wave == wave]
        for step in running:
            base = begin(base, step.server, allocations_of(step.option))
        for step in running:
            base = end(base, step.server)
    return base


def follow(
    base: state.CloudState,
    planned: Iterable[Step],
    stopped: Sequence[str] = (),
    groups: Groups = NO_GROUPS,
    hypervisors: Hypervisors = NO_HYPERVISORS,
) -> state.CloudState:
    """The cloud after each step in turn, to a target that nova accepts then.

    Without ``stopped`` each server goes to another host.
    """
    for step in planned:
        claimed = allocations_of(step.option)
        elsewhere = brute_force.without_trees(base, stopped or [step.server.root_uuid])
        assert claimed in list(targets_of(base, step.server, elsewhere, groups, hypervisors))
        base = move(base, step.server, claimed)
    return base


def size(server: servers.PlacedServer) -> int:
    """The sum of its amounts."""
    return sum(sum(amounts.values()) for amounts in server.allocations.values())


def size_of_steps(planned: Sequence[Step]) -> tuple[int, int]:
    """The number of the moves, and the size of their servers."""
    return len(planned), sum(size(step.server) for step in planned)


def least(
    base: state.CloudState,
    is_reached: Callable[[state.CloudState], bool],
    movable: Sequence[servers.PlacedServer],
    limit: int,
    groups: Groups = NO_GROUPS,
    hypervisors: Hypervisors = NO_HYPERVISORS,
    only_to: Collection[str] | None = None,
) -> tuple[int, int] | None:
    """``size_of_steps`` of the best plan, by trying all of them; None if there is none.

    No server moves twice; ``only_to`` are the hosts to which servers move.
    """
    state_of = places if groups or only_to else brute_force.usage
    reached = {(frozenset[str](), state_of(base)): (base, 0)}
    for depth in range(limit + 1):
        sizes = [moved for current, moved in reached.values() if is_reached(current)]
        if sizes:
            return depth, min(sizes)
        after = {}
        for (moved, _), (current, total) in reached.items():
            for server in movable:
                if server.key in moved:
                    continue
                allowed = brute_force.without_trees(current, [server.root_uuid])
                sums = total + size(server)
                for target in targets_of(current, server, allowed, groups, hypervisors):
                    roots = {base.providers[uuid].root_uuid for uuid in target}
                    if only_to is not None and roots.isdisjoint(only_to):
                        continue
                    new = move(current, server, target)
                    key = moved | {server.key}, state_of(new)
                    if key not in after or sums < after[key][1]:
                        after[key] = new, sums
        reached = after
    return None


SHAPES: tuple[random_clouds.Shape, ...] = ("trees", "pools", "flat")


def draw_cloud(draw: random.Random, shape: random_clouds.Shape = "trees") -> state.CloudState:
    """A cloud with little capacity and some servers."""
    if shape != "trees":
        return clouds.draw_state(draw, shape)
    return brute_force.cloud_with_servers(draw, 6)[0]


POLICIES = ("affinity", "anti-affinity", "anti-affinity")


def draw_groups(
    draw: random.Random, base: state.CloudState, policies: Sequence[str] = POLICIES
) -> dict[str, ServerGroup]:
    """Server groups with some of the servers, each in one group at most."""
    left = sorted(base.consumers)
    draw.shuffle(left)
    groups = {}
    for number in range(draw.randint(1, 2)):
        members = [left.pop() for _ in range(min(draw.randint(1, 4), len(left)))]
        own = f"group {number}"
        policy, most = draw.choice(policies), draw.choice((1, 1, 2))
        groups[own] = ServerGroup(own, own, policy, tuple(members), most)
    return groups


def draw_with_nova(
    draw: random.Random,
) -> tuple[state.CloudState, list[servers.PlacedServer], dict[str, ServerGroup], Hypervisors]:
    """A cloud, its servers with conditions of nova for some, server groups, and hypervisors."""
    kind = draw.choice(SHAPES)
    base = draw_cloud(draw, kind)
    queries = {
        own: random_queries.draw_query(draw, base, microversion.MAXIMUM)
        for own in sorted(base.consumers)
        if kind == "trees" and draw.random() < 0.4
    }
    groups = draw_groups(draw, base)
    placed_servers = placed(base, queries, groups.values())
    hypervisors = draw_hypervisors(draw, base) if draw.random() < 0.5 else NO_HYPERVISORS
    return base, with_answers(base, placed_servers, hypervisors), groups, hypervisors


def with_answers(
    base: state.CloudState, placed_servers: Iterable[servers.PlacedServer], hypervisors: Hypervisors
) -> list[servers.PlacedServer]:
    """The servers, of those that move live with what nova says about the hosts."""
    compute = cases.compute_of(base, hypervisors.of_root)
    verdicts = HostVerdicts(base, compute)

    def answers(server: servers.PlacedServer) -> HostAnswers:
        in_nova = values.Server(server.uuid, host=server.root_uuid, vm_state="active")
        case = cases.case(server.query, compute, way=Way.LIVE_MIGRATE, server=in_nova)
        return verdicts.of(case)

    return [
        dataclasses.replace(placed_server, way=Way.LIVE_MIGRATE, answers=answers(placed_server))
        if placed_server.uuid in hypervisors.live
        else placed_server
        for placed_server in placed_servers
    ]


def draw_hypervisors(draw: random.Random, base: state.CloudState) -> Hypervisors:
    """Hosts of mostly one type and few versions, and the servers that move live."""
    kinds, versions = ("QEMU", "QEMU", "QEMU", "VMware", ""), (8, 8, 9, 7, 0)
    return Hypervisors(
        {root: (draw.choice(kinds), draw.choice(versions)) for root in hosts_of(base)},
        frozenset(own for own in sorted(base.consumers) if draw.random() < 0.7),
    )


def hard(draw: random.Random, *old: str) -> state.CloudState:
    """Servers on old hosts that almost fill the others: a proof would take very long."""
    new = [{name: draw.randint(40, 60) for name in ("VCPU", "DISK_GB")} for _ in range(9)]
    left = {name: sum(offers[name] for offers in new) for name in ("VCPU", "DISK_GB")}
    placed: dict[str, model.Allocations] = {}
    while min(left.values()) > 25:
        amounts = {name: draw.randint(7, 23) for name in left}
        left = {name: amount - amounts[name] for name, amount in left.items()}
        placed[f"s{len(placed)}"] = {old[len(placed) % len(old)]: amounts}
    return clouds.cloud(
        *(provider(name, VCPU=2000, DISK_GB=2000) for name in old),
        *(provider(f"h{number}", **offers) for number, offers in enumerate(new)),
        servers=placed,
    )
