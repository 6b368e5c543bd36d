# SPDX-License-Identifier: Apache-2.0
"""The smallest changes that give a request a host. Pure.

Two views: ``of_host`` changes the cloud (free, add, traits, aggregates, units of inventories), and
``of_query`` changes the request. Only what somebody can change is searched: of what nova-compute
counts, that is a ratio and an amount of reserve, and no trait of its driver. Each change is enough,
and no part of it is. An example: a host with 2 VCPU free and without a trait gets one change with
two steps, "free 2 VCPU; add the trait", because neither step helps alone.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import heapq
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import plans
from osc_placement.engine.candidates.forest import Forest
from osc_placement.model import candidate, constraint
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.model.inventory import Inventory
from osc_placement.model.name import CUSTOM_PREFIX
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.explain import amounts
from osc_placement.workflows.explain.relaxations import (
    MOST_CONDITIONS,
    Relaxations,
    Removed,
    minimal,
)

#: Changes of the query that are worked out, and changes of one host that are shown.
MOST_CHANGES = 10
_PER_HOST = 3

#: Hosts of which changes are worked out if none is named.
NEAREST = 3

#: Ways to fill the slots of a request on one host that are checked, and choices of alternatives.
_MOST_WAYS = 3_000
_MOST_PICKS = 40

#: The class that nova sells several times, also where its ratio is 1 now.
VCPU = "VCPU"

#: The trait of a root whose compute service is disabled.
DISABLED = "COMPUTE_STATUS_DISABLED"

#: The classes whose ratio and reserve nova.conf sets.
CONFIGURED = frozenset({VCPU, "MEMORY_MB", "DISK_GB"})

#: The beginning of the classes that neutron's agents count in the trees of hosts.
_OF_NEUTRON = "NET_"


class Action(enum.StrEnum):
    """What a step changes."""

    FREE = "free"
    RAISE = "raise"
    AMEND = "amend"
    ADD_TRAIT = "add_trait"
    REMOVE_TRAIT = "remove_trait"
    ENABLE = "enable"
    MIRROR = "mirror"
    JOIN = "join"
    LEAVE = "leave"


#: The actions that are counted in units of a class.
_ROOM = (Action.FREE, Action.RAISE)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Step:
    """A change of one ``provider`` (its name).

    FREE an ``amount`` of the class ``name`` that is used, RAISE its capacity by it (``value`` is
    the new value of ``field``), or AMEND a ``field`` of its inventory, with ``amount`` as the new
    value. The other actions are about the trait or aggregate ``name``.
    ENABLE is for the trait of a disabled compute service, MIRROR for an
    aggregate that nova has, and Placement has not.
    """

    provider: str
    action: Action
    name: str
    field: str = ""
    amount: int = 0
    value: float = 0.0

    @property
    def kind(self) -> str:
        """The action; RAISE with its field: ``raise total``."""
        return f"{self.action} {self.field}" if self.action is Action.RAISE else str(self.action)

    @property
    def text(self) -> str:
        """``free 2 VCPU on cmp-1``."""
        return _STEPS[self.kind].format(**dataclasses.asdict(self))


#: What a step of a change says.
_STEPS = {
    "free": "free {amount} {name} on {provider}",
    "raise total": "raise the total of {name} on {provider} to {value:.15g}",
    "raise reserved": "reserve {value:.15g} {name} on {provider}",
    "raise allocation_ratio": "raise the ratio of {name} on {provider} to {value:.15g}",
    "amend": "set {field} of {name} on {provider} to {amount}",
    "add_trait": "add the trait {name} to {provider}",
    "remove_trait": "remove the trait {name} from {provider}",
    "enable": "enable the compute service of {provider}",
    "mirror": "mirror nova's host aggregate {name}, which has {provider}, to Placement",
    "join": "add {provider} to the aggregate {name}",
    "leave": "remove {provider} from the aggregate {name}",
}


@dataclasses.dataclass(frozen=True, slots=True)
class SmallestChange:
    """A change after which ``hosts`` hosts can serve the request, without those that nova refuses.

    ``steps`` change the cloud, for the host ``host``. Otherwise the request changes: without the
    constraints ``removed``, and with the largest ``amounts`` in place of the requested ones; 0
    removes the class. A larger amount is the next one that min_unit and step_size allow.
    """

    hosts: int
    steps: tuple[Step, ...] = ()
    host: str | None = None
    removed: tuple[Constraint, ...] = ()
    amounts: Mapping[Constraint, int] = dataclasses.field(default_factory=dict)

    def of(self, query: candidate.CandidateQuery) -> candidate.CandidateQuery:
        """The changed request."""
        return amounts.reduced(constraint.without(query, self.removed), self.amounts)

    @property
    def text(self) -> str:
        """What to change: ``remove required=CUSTOM_X; request 12 VCPU instead of 16``."""
        parts = [step.text for step in self.steps]
        parts += [f"remove {part}" for part in self.removed]
        for removed, amount in self.amounts.items():
            name = f"{removed.names[0]}{f' in group {removed.suffix}' if removed.suffix else ''}"
            instead = f"{amount} {name} instead of {removed.amount}" if amount else f"no {name}"
            parts.append(f"request {instead}")
        return "; ".join(parts)


def of_query(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    relaxations: Relaxations,
    roots: Iterable[str],
    refused: Collection[str] = (),
) -> list[SmallestChange]:
    """The smallest changes of the query: the fewest constraints first, then the most hosts.

    ``refused`` are the root UUIDs of hosts on which nova places no server. A change that helps only
    them is left out.
    """
    sets = minimal(smallest for root in roots for smallest in relaxations.smallest(root))
    of_sets = (
        _of_set(base, query, relaxations, removed, refused) for removed in sets[:MOST_CHANGES]
    )
    larger = (
        _larger(base, query, part, refused)
        for part in constraint.constraints_of(query)
        if part.kind is Kind.RESOURCES
    )
    return sorted(
        (change for change in (*of_sets, *larger) if change is not None),
        key=lambda change: (len(change.removed) + len(change.amounts), -change.hosts),
    )


def _of_set(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    relaxations: Relaxations,
    removed: Removed,
    refused: Collection[str],
) -> SmallestChange | None:
    lowered = sorted(part for part in removed if part.kind is Kind.RESOURCES)
    others = tuple(sorted(removed - set(lowered)))
    best: Mapping[Constraint, int] = {}
    if lowered:
        lowering = amounts.Lowering(
            base, constraint.without(query, others), lowered, relaxations.kind, refused
        )
        found = lowering.best()
        if found is None:
            return None
        best = found
    change = SmallestChange(0, removed=others, amounts=best)
    hosts = set(HostSearch(base, change.of(query)).hosts()).difference(refused)
    return dataclasses.replace(change, hosts=len(hosts)) if hosts else None


def _larger(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    requested: Constraint,
    refused: Collection[str],
) -> SmallestChange | None:
    """The change to the next larger amount of a class that the units of a host allow."""
    wanted = requested.amount or 0
    units = {
        (offered.min_unit, offered.step_size)
        for provider in base.providers.values()
        if (offered := provider.inventories.get(requested.names[0])) is not None
        and (wanted < offered.min_unit or wanted % offered.step_size)
    }
    steps = {max(-(-max(wanted, least) // step) * step, wanted) for least, step in units}
    for amount in sorted(steps):
        change = SmallestChange(0, amounts={requested: amount})
        hosts = set(HostSearch(base, change.of(query)).hosts()).difference(refused)
        if hosts:
            return dataclasses.replace(change, hosts=len(hosts))
    return None


def of_host(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    root_uuid: str,
    nova_members: Mapping[str, Collection[str]],
    serving: Collection[str] = (),
    refused: Collection[str] = (),
    counted: Collection[str] = (),
) -> list[SmallestChange]:
    """The smallest changes of a host, or of a provider that shares with it; at most three.

    ``nova_members`` is ``{aggregate: names of the hosts in nova}``; ``serving`` are the root UUIDs
    that can serve the query already, and ``refused`` those on which nova places no server: they are
    not counted after a change. ``counted`` are the providers (UUIDs) that nova-compute counts.
    """
    plan = plans.prepare(base, query)
    repair = _Repair(base, plan, root_uuid, nova_members, counted)
    return _Changes(base, query, repair, serving, refused).changes()


def counted_by_nova(base: state.CloudState, compute: ServerHosts) -> frozenset[str]:
    """The providers (UUIDs) of which nova-compute writes inventories and traits."""
    nodes = compute.hosts.nodes if compute.hosts else ()
    return frozenset(
        uuid for node in nodes if node.uuid in base.tree for uuid in base.tree[node.uuid]
    )


def lack(
    base: state.CloudState,
    plan: plans.QueryPlan,
    root_uuid: str,
    nova_members: Mapping[str, Collection[str]],
) -> tuple[int, int, int, float]:
    """What a host lacks for each slot at least: classes, moves, conditions, shares of amounts.

    A move is needed if the host must join an aggregate that nova has without it.
    """
    root = base.providers[root_uuid]
    conditions = len(plan.root_required - root.traits) + len(plan.root_forbidden & root.traits)
    lacking = [(0, 0, conditions, 0.0)]
    repair = _Repair(base, plan, root_uuid, nova_members)
    for slot in plan.slots:
        ways = repair.ways(slot)
        if ways:
            steps, short = ways[0].steps, ways[0].short
            moves = sum(step.action is Action.JOIN and step.name in nova_members for step in steps)
            lacking.append((0, moves, len(steps) + (short > 0), short))
        else:
            lacking.append((len(slot.resources) or 1, 0, 0, 0.0))
    classes, moves, conditions, short = map(sum, zip(*lacking, strict=True))
    return classes, moves, conditions, short


def nearest(
    base: state.CloudState,
    plan: plans.QueryPlan,
    roots: Iterable[str],
    nova_members: Mapping[str, Collection[str]],
    number: int = NEAREST,
) -> list[str]:
    """The hosts that lack least."""
    lacking = {root: lack(base, plan, root, nova_members) for root in roots}
    return heapq.nsmallest(
        number, lacking, key=lambda root: (lacking[root], base.providers[root].name)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Pick:
    """What to add of alternatives: ``names`` is ``{(suffix, alternatives): name}``.

    Without a name it is the usual one. ``at_root``: a root joins an aggregate for its tree.
    """

    names: Mapping[tuple[str, frozenset[str]], str] = dataclasses.field(default_factory=dict)
    at_root: bool = True

    def one_of(self, group: plans.Group, any_of: frozenset[str]) -> frozenset[str]:
        """The name to add, or all alternatives that the group does not forbid."""
        named = self.names.get((group.suffix, any_of))
        if named is not None:
            return frozenset({named})
        return any_of - group.forbidden - group.forbidden_aggregates


_USUAL = _Pick()


@dataclasses.dataclass(frozen=True, slots=True)
class _Way:
    """A provider for a slot, and the steps that its conditions need, apart from capacity."""

    provider: record.ProviderRecord
    steps: tuple[Step, ...]
    short: float


class _Changes:
    """The changes of one host, proved by searches."""

    def __init__(
        self,
        base: state.CloudState,
        query: candidate.CandidateQuery,
        repair: _Repair,
        serving: Collection[str],
        refused: Collection[str],
    ) -> None:
        self._base, self._query = base, query
        self._serving, self._refused = serving, refused
        self._repair, self._root = repair, repair.root

    def changes(self) -> list[SmallestChange]:
        kept: list[tuple[Step, ...]] = []

        def is_known(steps: tuple[Step, ...]) -> bool:
            shape = self._shape(steps)
            return any(_covers(other, steps) or self._shape(other) == shape for other in kept)

        for steps in self._repair.sets():
            if not is_known(steps) and self._helps(steps):
                smallest = self._smallest(steps)
                if smallest and not is_known(smallest):
                    kept = [other for other in kept if not _covers(smallest, other)]
                    kept.append(smallest)
            if len(kept) == _PER_HOST:
                break
        return [SmallestChange(self._hosts(steps), steps, self._root.name) for steps in kept]

    def _shape(self, steps: Iterable[Step]) -> object:
        """Equal for sufficient changes that only add another one of alternatives.

        Also for those that add it to the root instead of another provider of the tree.
        """
        base = self._base

        def of_step(step: Step) -> tuple[str, ...]:
            if step.action is Action.ADD_TRAIT:
                return step.provider, step.action
            if step.action in (Action.JOIN, Action.MIRROR):
                return base.providers[base.named[step.provider]].root_uuid, Action.JOIN
            return step.provider, step.action, step.name, step.field, str(step.amount)

        return sorted(map(of_step, steps))

    def _smallest(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """A part of sufficient steps of which no part, and no smaller amount, is sufficient."""
        for size in range(1, len(steps)):
            for part in itertools.combinations(steps, size):
                if self._helps(part):
                    return self._smallest(part)
        for at, step in enumerate(steps):
            if step.action in _ROOM or step.field == "max_unit":
                steps = (*steps[:at], self._lowest(steps, at), *steps[at + 1 :])
        return steps

    def _lowest(self, steps: tuple[Step, ...], at: int) -> Step:
        """The step with the smallest amount with which all steps are sufficient."""
        step = steps[at]
        provider = self._base.providers[self._base.named[step.provider]]
        offered = provider.inventories[step.name]
        low = offered.max_unit if step.field == "max_unit" else 0
        high = step.amount

        def with_amount(amount: int) -> Step:
            if step.action is Action.RAISE:
                # Less than what can be raised can be raised.
                return self._repair.raise_room(provider, step.name, amount) or step
            return dataclasses.replace(step, amount=amount)

        while high - low > 1:
            middle = (low + high) // 2
            if self._helps((*steps[:at], with_amount(middle), *steps[at + 1 :])):
                high = middle
            else:
                low = middle
        return with_amount(high)

    def _helps(self, steps: Iterable[Step]) -> bool:
        return HostSearch(after(self._base, steps), self._query).can_serve(self._root.uuid)

    def _hosts(self, steps: Sequence[Step]) -> int:
        """How many hosts can serve the query after the steps.

        An aggregate is mirrored with all its hosts.
        """
        steps = [mirrored for step in steps for mirrored in self._repair.mirrored(step)]
        changed = after(self._base, steps)
        search = HostSearch(changed, self._query)
        touched = {self._base.named[step.provider] for step in steps}
        roots = {self._base.providers[uuid].root_uuid for uuid in touched}
        for uuid in touched & set(search.forest.sharing):
            for cloud in (self._base, changed):
                for aggregate in cloud.providers[uuid].aggregates:
                    members = cloud.with_aggregate[aggregate]
                    roots.update(cloud.providers[member].root_uuid for member in members)
        hosts = {*(set(self._serving) - roots), *search.hosts(sorted(roots))}
        return len(hosts.difference(self._refused))


class _Repair:
    """Sets of steps after which one host may serve a query. No search is needed."""

    def __init__(
        self,
        base: state.CloudState,
        plan: plans.QueryPlan,
        root_uuid: str,
        nova_members: Mapping[str, Collection[str]],
        counted: Collection[str] = (),
    ) -> None:
        self._base, self._plan, self.root = base, plan, base.providers[root_uuid]
        self._nova_members, self._counted = nova_members, counted
        forest = Forest(base, plan)
        uuids = {*base.tree[root_uuid], *forest.sharing_with(root_uuid)}
        self._providers = [base.providers[uuid] for uuid in base.in_order(uuids)]

    def mirrored(self, step: Step) -> Iterator[Step]:
        """The step; that of a host aggregate for each of its hosts that are not yet members."""
        if step.action is not Action.MIRROR:
            yield step
            return
        for name in self._nova_members[step.name]:
            if step.name not in self._base.providers[self._base.named[name]].aggregates:
                yield dataclasses.replace(step, provider=name)

    def sets(self) -> list[tuple[Step, ...]]:
        """Sets of steps that may be sufficient, the smallest ones first."""
        costs: dict[tuple[Step, ...], tuple[int, float, int]] = {}
        picks = self._picks()
        most = _MOST_WAYS // len(picks)
        for order, pick in enumerate(picks):
            ways = [self.ways(slot, pick) for slot in self._plan.slots]
            for chosen in itertools.islice(itertools.product(*ways), most):
                for room in (self._free_room, self._raise_room):
                    needed = self._steps(chosen, room, pick)
                    if needed is not None and len(needed[0]) <= MOST_CONDITIONS:
                        costs.setdefault(needed[0], (len(needed[0]), needed[1], order))
        return sorted(costs, key=lambda steps: (costs[steps], steps))

    def _picks(self) -> list[_Pick]:
        """The choices of alternatives, the usual one first."""
        names = {
            (group.suffix, any_of): sorted(_USUAL.one_of(group, any_of))
            for group in self._plan.groups
            for any_of in (*group.required, *group.group_required, *group.member_of)
        }
        chosen = itertools.islice(itertools.product(*names.values()), _MOST_PICKS)
        picks = [_Pick(dict(zip(names, classes, strict=True))) for classes in chosen]
        if any(group.member_of for group in self._plan.groups):
            picks += [dataclasses.replace(pick, at_root=False) for pick in picks]
        return [_USUAL, *picks]

    def ways(self, slot: plans.Slot, pick: _Pick = _USUAL) -> list[_Way]:
        """The providers for a slot, those that lack least first."""
        found = (self._way(slot, provider, pick) for provider in self._providers)
        ways = [way for way in found if way is not None]
        return sorted(ways, key=lambda way: (len(way.steps) + (way.short > 0), way.short))

    def _way(self, slot: plans.Slot, provider: record.ProviderRecord, pick: _Pick) -> _Way | None:
        group = slot.group
        if not slot.resources.keys() <= provider.inventories.keys() or group.impossible:
            return None
        if group.root_uuid is not None and provider.root_uuid != group.root_uuid:
            return None
        if any(any_of <= group.forbidden for any_of in group.required):
            return None
        if any(any_of <= group.forbidden_aggregates for any_of in group.member_of):
            return None
        steps: list[Step] = []
        short = 0.0
        for name, amount in slot.resources.items():
            offered = provider.inventories[name]
            if self._is_fixed(provider, name) and not offered.suits_units(amount):
                return None
            if amount < offered.min_unit:
                steps.append(Step(provider.name, Action.AMEND, name, "min_unit", amount))
            if amount % offered.step_size:
                step_size = math.gcd(amount, offered.step_size)
                steps.append(Step(provider.name, Action.AMEND, name, "step_size", step_size))
            most = min(self._free(provider, name), offered.max_unit)
            short += max(amount - most, 0) / amount
        for any_of in group.required:
            allowed = any_of - group.forbidden
            if provider.traits.isdisjoint(allowed):
                added = min(pick.one_of(group, any_of))
                if self._is_of_driver(provider, added):
                    return None
                steps.append(Step(provider.name, Action.ADD_TRAIT, added))
        for trait in sorted(group.forbidden & provider.traits):
            if trait == standard.SHARING_TRAIT or self._is_of_driver(provider, trait):
                return None
            steps.append(Step(provider.name, Action.REMOVE_TRAIT, trait))
        return _Way(provider, (*steps, *self._memberships(group, provider, pick)), short)

    def _memberships(
        self, group: plans.Group, provider: record.ProviderRecord, pick: _Pick
    ) -> Iterator[Step]:
        """The aggregates to join and to leave: those of the root count for an unsuffixed group."""
        root = self._base.providers[provider.root_uuid]
        places = [root, provider] if group.root_aggregates_apply else [provider]
        lacking = [
            [
                any_of
                for any_of in group.member_of
                if (any_of - group.forbidden_aggregates).isdisjoint(place.aggregates)
            ]
            for place in places
        ]
        if all(lacking):
            at = 0 if pick.at_root else -1
            for any_of in lacking[at]:
                yield self._join(places[at].name, pick.one_of(group, any_of))
        for place in {other.uuid: other for other in places}.values():
            for name in sorted(group.forbidden_aggregates.intersection(place.aggregates)):
                yield Step(place.name, Action.LEAVE, name)

    def _join(self, provider: str, any_of: Collection[str]) -> Step:
        for name in sorted(any_of):
            if provider in self._nova_members.get(name, ()):
                return Step(provider, Action.MIRROR, name)
        return Step(provider, Action.JOIN, min(any_of))

    def _steps(
        self,
        chosen: Sequence[_Way],
        room: Callable[[record.ProviderRecord, str, int], Step | None],
        pick: _Pick,
    ) -> tuple[tuple[Step, ...], float] | None:
        """All steps for one provider per slot, and the missing share of amounts."""
        of_root = dict(self._of_root())
        if any(self._is_of_driver(self.root, step.name) for step in of_root):
            return None
        steps = {step: None for way in chosen for step in way.steps} | of_root
        slots = self._plan.slots
        suffixed = [
            way.provider.uuid for slot, way in zip(slots, chosen, strict=True) if slot.group.suffix
        ]
        if self._plan.isolate and len(set(suffixed)) < len(suffixed):
            return None
        added = self._traits_of_groups(chosen, pick)
        if added is None:
            return None
        steps |= dict.fromkeys(added)
        short = 0.0
        taken: dict[tuple[str, str], int] = {}
        for slot, way in zip(slots, chosen, strict=True):
            for name, amount in slot.resources.items():
                key = way.provider.uuid, name
                taken[key] = taken.get(key, 0) + amount
        for (uuid, name), amount in taken.items():
            provider = self._base.providers[uuid]
            if amount > provider.inventories[name].max_unit:
                if self._is_fixed(provider, name):
                    return None
                steps[Step(provider.name, Action.AMEND, name, "max_unit", amount)] = None
            missing = amount - self._free(provider, name)
            if missing > 0:
                more = room(provider, name, missing)
                if more is None:
                    return None
                steps[more] = None
                short += missing / amount
        return tuple(sorted(steps)), short

    def _traits_of_groups(self, chosen: Sequence[_Way], pick: _Pick) -> list[Step] | None:
        """The traits that no provider of a group has; None if no provider may get one."""
        taking = list(zip(self._plan.slots, (way.provider for way in chosen), strict=True))
        steps: list[Step] = []
        for group in self._plan.groups:
            members = [provider for slot, provider in taking if slot.group is group]
            own = [member for member in members if member.root_uuid == self.root.uuid] or members
            there = frozenset[str]().union(*(member.traits for member in members)) - group.forbidden
            for any_of in group.group_required:
                if any_of.isdisjoint(there):
                    places = (
                        (member, name)
                        for name in sorted(pick.one_of(group, any_of))
                        for member in own
                        if not self._is_of_driver(member, name)
                        and all(
                            other.uuid != member.uuid or name not in slot.group.forbidden
                            for slot, other in taking
                        )
                        and (member.uuid != self.root.uuid or name not in self._plan.root_forbidden)
                    )
                    place = next(places, None)
                    if place is None:
                        return None
                    steps.append(Step(place[0].name, Action.ADD_TRAIT, place[1]))
        return steps

    def _of_root(self) -> Iterator[tuple[Step, None]]:
        for trait in sorted(self._plan.root_required - self.root.traits):
            yield Step(self.root.name, Action.ADD_TRAIT, trait), None
        for trait in sorted(self._plan.root_forbidden & self.root.traits):
            action = Action.ENABLE if trait == DISABLED else Action.REMOVE_TRAIT
            yield Step(self.root.name, action, trait), None

    def _free(self, provider: record.ProviderRecord, name: str) -> int:
        used = self._base.used(provider.uuid).get(name, 0)
        return provider.inventories[name].capacity - used

    def _is_fixed(self, provider: record.ProviderRecord, name: str) -> bool:
        """Whether nova-compute counts a class of a provider: nobody changes its total or units."""
        return provider.uuid in self._counted and not name.startswith(_OF_NEUTRON)

    def _is_of_driver(self, provider: record.ProviderRecord, trait: str) -> bool:
        """Whether nova-compute writes a trait of a provider, whatever an operator does."""
        is_own = trait.startswith(CUSTOM_PREFIX) or trait == DISABLED
        return provider.uuid in self._counted and not is_own

    def _free_room(self, provider: record.ProviderRecord, name: str, missing: int) -> Step | None:
        """Free what is used, if that is enough; otherwise raise the capacity."""
        if self._base.used(provider.uuid).get(name, 0) >= missing:
            return Step(provider.name, Action.FREE, name, amount=missing)
        return self.raise_room(provider, name, missing)

    def _raise_room(self, provider: record.ProviderRecord, name: str, missing: int) -> Step | None:
        """Raise the capacity by what nova-compute does not set back; otherwise free what is used.

        The ratio of VCPU may be raised; that of a class which is not sold several times is not.
        """
        offered = provider.inventories[name]
        if offered.reserved < offered.total and (name == VCPU or offered.allocation_ratio != 1):
            return self.raise_room(provider, name, missing)
        return self._free_room(provider, name, missing)

    def raise_room(self, provider: record.ProviderRecord, name: str, missing: int) -> Step | None:
        """The step that raises the capacity; None if nobody can raise it so much."""
        offered, is_fixed = provider.inventories[name], self._is_fixed(provider, name)
        # Without a ratio, no total and no reserve gives room where all is reserved.
        is_void = offered.allocation_ratio <= 0 and offered.reserved >= offered.total
        if is_void or (is_fixed and name not in CONFIGURED):
            return None
        field, value = raised(name, offered, missing, is_fixed=is_fixed)
        if is_fixed and field == "total":
            return None
        return Step(provider.name, Action.RAISE, name, field, missing, value)


def _covers(smaller: Sequence[Step], steps: Sequence[Step]) -> bool:
    """Whether every step of the first change is a step of the second, with at least its amount."""
    amounts = {_key(step): step.amount for step in steps}
    return all(
        _key(step) in amounts
        and (step.amount <= amounts[_key(step)] or step.field in ("min_unit", "step_size"))
        for step in smaller
    )


def _key(step: Step) -> tuple[str, str, str]:
    return step.provider, step.name, f"{step.action} {step.field}"


def raised(
    name: str, offered: Inventory, missing: int, *, is_fixed: bool = False
) -> tuple[str, float]:
    """The field that raises the capacity of a class by at least an amount, and its new value.

    The reserved amount if all is reserved, or if the total is fixed and the ratio is 1. The ratio
    of a class that is sold several times, because nova-compute resets the total.
    """
    wanted = offered.capacity + missing
    available = offered.total - offered.reserved
    if available > 0 and (name == VCPU or offered.allocation_ratio != 1):
        ratio = math.ceil(wanted / available * 100) / 100
        while int(available * ratio) < wanted:
            ratio = round(ratio + 0.01, 2)
        return "allocation_ratio", ratio
    reserved = offered.total - math.ceil(wanted / offered.allocation_ratio)
    while int((offered.total - reserved) * offered.allocation_ratio) < wanted:
        reserved -= 1
    if reserved >= 0 and (available <= 0 or is_fixed):
        return "reserved", reserved
    total = offered.reserved + math.ceil(wanted / offered.allocation_ratio)
    while int((total - offered.reserved) * offered.allocation_ratio) < wanted:
        total += 1
    return "total", total


def after(base: state.CloudState, steps: Iterable[Step]) -> state.CloudState:
    """A copy of the state after the steps; FREE counts as capacity, which has the same effect."""
    changed = base.copy()
    for step in steps:
        provider = changed.providers[changed.named[step.provider]]
        changed.apply(record.Changes({provider.uuid: _changed(provider, step)}))
    return changed


def _changed(provider: record.ProviderRecord, step: Step) -> record.ProviderRecord:
    replace = functools.partial(dataclasses.replace, provider)
    if step.action is Action.ADD_TRAIT:
        return replace(traits=provider.traits | {step.name})
    if step.action in (Action.REMOVE_TRAIT, Action.ENABLE):
        return replace(traits=provider.traits - {step.name})
    if step.action in (Action.JOIN, Action.MIRROR):
        return replace(aggregates=(*provider.aggregates, step.name))
    if step.action is Action.LEAVE:
        return replace(aggregates=tuple(a for a in provider.aggregates if a != step.name))
    offered = provider.inventories[step.name]
    if step.action is Action.AMEND:
        amended = dataclasses.replace(offered, **{step.field: step.amount})
    else:
        capacity = offered.capacity + step.amount
        amended = dataclasses.replace(offered, total=capacity, reserved=0, allocation_ratio=1.0)
    return replace(inventories={**provider.inventories, step.name: amended})
