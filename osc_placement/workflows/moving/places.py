# SPDX-License-Identifier: Apache-2.0
"""Where the servers of some hosts could go. Pure."""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.scheduling import filters
from osc_placement.scheduling.case import GroupMembers
from osc_placement.search import placing
from osc_placement.workflows.cloud import options, servers
from osc_placement.workflows.cloud.host_verdicts import NO_ANSWERS, HostAnswers
from osc_placement.workflows.cloud.hosts import hosts_of

Placement = placing.Placement

_DIFFERENT = "the possible releases of nova send different requests"


@dataclasses.dataclass(frozen=True, slots=True)
class KindOptions:
    """The options of one kind of request. ``certain`` are the hosts that surely take it.

    On the other hosts a fact is not known. ``alike`` and ``surely_alike`` are equal for kinds with
    the same options, and with the same certain ones: the search tries only one of them.
    """

    options: Sequence[placing.Option]
    certain: frozenset[str]
    alike: Hashable
    surely_alike: Hashable

    @classmethod
    def of(cls, options: Sequence[placing.Option], certain: frozenset[str]) -> KindOptions:
        """Some options and what they are alike with."""
        amounts = {id(option): frozenset(option.amounts.items()) for option in options}
        sure = frozenset(amounts[id(each)] for each in options if each.root_uuid in certain)
        return cls(options, certain, frozenset(amounts.values()), sure)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A request that is no server's yet: nova's queries, and what its filters say."""

    queries: servers.Queries
    answers: HostAnswers = NO_ANSWERS

    @property
    def kind(self) -> Hashable:
        """Equal for requests with the same options."""
        return servers.kind_of(self.queries), self.answers.key


class Moves:
    """The servers of a cloud, and everything that could serve each of them elsewhere.

    The options of a server are those in the cloud without any allocation; what is free decides
    among them. So they are found once for all sets of hosts that stop. ``more`` are further
    requests. ``without`` are the root UUIDs of trees that are left out; ``refused`` is ``{root
    UUID: why}`` for hosts that take no server, though other hosts may use what their trees share:
    ``not_counted`` are the ones that could serve a request. ``groups`` are nova's server groups,
    ``root_of`` gives the root of a host of nova; each place that a host has for a group with anti-
    affinity is an amount of the host. A server with affinity goes to a host of another member that
    does not stop: nova's filter compares the target with the present hosts of all members, so it
    moves none of them away from the last host. With ``is_aimed``, a step names its target: nova
    then takes what its unsuffixed group requests from the target's own tree.
    """

    def __init__(
        self,
        base: state.CloudState,
        known: Sequence[servers.PlacedServer],
        budget: SearchBudget,
        more: Iterable[Wanted] = (),
        without: Collection[str] = (),
        groups: Mapping[str, GroupMembers] | None = None,
        refused: Mapping[str, str] | None = None,
        root_of: Callable[[str], str | None] = lambda _: None,
        *,
        is_aimed: bool = False,
    ) -> None:
        self.base, self.budget, self.refused = base, budget, refused or {}
        self.not_counted: dict[str, None] = {}
        self._groups = groups or {}
        self._members = {uuid: _by_root(own, root_of) for uuid, own in self._groups.items()}
        self.without, self.is_aimed = frozenset(without), is_aimed
        self._by_root: dict[str, list[servers.PlacedServer]] = {}
        for server in known:
            self._by_root.setdefault(server.root_uuid, []).append(server)
        empty = base.without_allocations()
        self.is_complete = True
        self._options: dict[Hashable, KindOptions] = {}
        self._free: dict[placing.Slot, int] = {}
        for wanted in more:
            self._add(empty, wanted.kind, wanted.queries, "", wanted.answers)
        for server in known:
            if server.kind not in self._options:
                self._add(empty, server.kind, server.queries, server.apart, server.answers)

    def _add(
        self,
        empty: state.CloudState,
        kind: Hashable,
        queries: servers.Queries,
        group: str,
        answers: HostAnswers,
    ) -> None:
        """Find the options of a kind of request."""
        distinct: dict[frozenset[tuple[placing.Slot, int]], placing.Option] = {}
        certain: list[set[str]] = []
        for several in queries:
            roots: set[str] = set()
            for query in several:
                usable = [
                    option
                    for option in self._find(empty, query)
                    if option.is_of_host and option.root_uuid not in answers.refused
                ]
                distinct |= {frozenset(option.amounts.items()): option for option in usable}
                roots |= {option.root_uuid for option in usable}
            certain.append(roots)
        usable = list(distinct.values())
        self._free |= options.free_amounts(self.base, usable)
        if group:
            usable = self._in_group(group, usable)
        sure = frozenset(set.intersection(*certain)).difference(answers.unknown)
        self._options[kind] = KindOptions.of(usable, sure)

    def _find(
        self, empty: state.CloudState, query: candidate.CandidateQuery
    ) -> Iterator[placing.Option]:
        """The options of a query; those of a target that a step names, if it names one."""
        options_found = options.find(empty, query, self.budget, self.refused)
        self.is_complete = self.is_complete and options_found.is_complete
        self.not_counted |= dict.fromkeys(options_found.not_counted)
        if not self.is_aimed:
            yield from options_found.options
            return
        outside: dict[str, None] = {}
        for option in options_found.options:
            if all(uuid in empty.tree[option.root_uuid] for uuid, _ in option.amounts):
                yield option
            elif any(group.suffix for group in query.groups):
                outside[option.root_uuid] = None
        for root in outside:
            aimed = self.query_for(query, root)
            yield from options.find(empty, aimed, self.budget, self.refused, [root]).options

    def query_for(self, query: candidate.CandidateQuery, root: str) -> candidate.CandidateQuery:
        """The query that nova sends for a target."""
        if not self.is_aimed:
            return query
        first, *others = query.groups
        groups = (dataclasses.replace(first, in_tree=root), *others)
        return dataclasses.replace(query, groups=groups)

    def _in_group(self, uuid: str, usable: Iterable[placing.Option]) -> list[placing.Option]:
        """The options with one place of a server group with anti-affinity on the host."""
        group, members = self._groups[uuid].group, self._members[uuid]
        name = _places(group)
        changed = []
        for option in usable:
            slot = option.root_uuid, name
            # Negative where the group has too many members: none fits until some have left.
            self._free[slot] = group.most_per_host - members[option.root_uuid]
            changed.append(dataclasses.replace(option, amounts={**option.amounts, slot: 1}))
        return changed

    def group_place(self, server: servers.PlacedServer) -> placing.Slot | None:
        """The amount of its host that a server of a group with anti-affinity uses."""
        return (
            (server.root_uuid, _places(self._groups[server.apart].group)) if server.apart else None
        )

    def freed_by(self, server: servers.PlacedServer) -> dict[placing.Slot, int]:
        """What is free once a server has left its host, of what some option uses."""
        freed: dict[placing.Slot, int] = {
            (uuid, name): amount
            for uuid, resources in server.allocations.items()
            for name, amount in resources.items()
            if (uuid, name) in self._free
        }
        place = self.group_place(server)
        return freed | {place: 1} if place in self._free else freed

    def servers_on(self, roots: Iterable[str]) -> list[servers.PlacedServer]:
        """The servers of some hosts."""
        return [server for root in roots for server in self._by_root.get(root, ())]

    def options_of(self, kind: Hashable, stopped: Collection[str]) -> list[placing.Option]:
        """The options of a kind of request on the hosts that do not stop, used or not."""
        stopped = self.without.union(stopped)
        return [
            option
            for option in self._options[kind].options
            if not options.uses_trees(self.base, option, stopped)
        ]

    def options_for(
        self, server: servers.PlacedServer, stopped: Collection[str]
    ) -> list[placing.Option]:
        """The options of a server, used or not."""
        options = self.options_of(server.kind, stopped)
        if not server.together:
            return options
        members = self.hosts_of_group(server.together)
        return [option for option in options if option.root_uuid in members]

    def is_sure(self, server: servers.PlacedServer, root: str) -> bool:
        """Whether a host surely takes a server, if it has room."""
        return root in self._options[server.kind].certain

    def why_unsure(self, server: servers.PlacedServer, root: str) -> str:
        """Why it is not known whether a host takes a server."""
        return "; ".join(server.answers.unknown.get(root, (_DIFFERENT,)))

    def refusals(self, server: servers.PlacedServer) -> Iterator[tuple[str, str]]:
        """``(root UUID, why)`` for the hosts that take no such server, whatever room they have."""
        yield from server.answers.refused.items()
        yield from self.refused.items()
        if uuid := server.apart or server.together:
            members = self._groups[uuid]
            for root in hosts_of(self.base):
                if why := members.refusal(self._members[uuid][root]):
                    yield root, f"{filters.GROUP_FILTERS[members.group.policy]}: {why}"

    def hosts_of_group(self, uuid: str) -> frozenset[str]:
        """The hosts of the members of a server group (root UUIDs)."""
        return frozenset(self._members[uuid])

    def free(
        self, stopped: Collection[str], moved: Iterable[servers.PlacedServer]
    ) -> dict[placing.Slot, int]:
        """What is free on the other hosts once servers have left the hosts that stop."""
        left = dict(self._free)
        for server in moved:
            for uuid, resources in server.allocations.items():
                for name, amount in resources.items():
                    if (uuid, name) in left and self.base.providers[uuid].root_uuid not in stopped:
                        left[uuid, name] += amount
        return left

    def place(
        self,
        stopped: Collection[str],
        moved: Sequence[servers.PlacedServer] | None = None,
        more: Sequence[Wanted] = (),
        taken: Iterable[placing.Option] = (),
    ) -> Placement | None:
        """A place for each server of the hosts that stop, and for ``more`` requests.

        ``moved`` restricts the servers, ``taken`` is used by others. None if it is proved that not
        all fit, provided that the options are complete. Raises the errors of the budget.
        """
        moved = self.servers_on(stopped) if moved is None else moved
        return placing.place(self._problem(stopped, moved, more, taken), self.budget)

    def surest_first(self) -> list[Moves]:
        """These moves with the hosts that surely take the servers, then with all hosts."""
        return [self.only_certain(), self] if self.has_doubt else [self]

    @property
    def has_doubt(self) -> bool:
        """Whether a host takes some server only perhaps."""
        return any(
            option.root_uuid not in options.certain
            for options in self._options.values()
            for option in options.options
        )

    def only_certain(self) -> Moves:
        """These moves, only with hosts that surely take the servers."""
        certain = copy.copy(self)
        certain._options = {
            kind: KindOptions(
                [option for option in options.options if option.root_uuid in options.certain],
                options.certain,
                options.surely_alike,
                options.surely_alike,
            )
            for kind, options in self._options.items()
        }
        return certain

    def all_doubts(self) -> list[str]:
        """Why it is not known whether hosts take the servers."""
        texts = {
            text: None
            for several in self._by_root.values()
            for server in several
            for texts in server.answers.unknown.values()
            for text in texts
        }
        return list(texts) or [_DIFFERENT]

    def doubts(self, placement: Placement, moved: Iterable[servers.PlacedServer]) -> Iterator[str]:
        """Why it is not known whether nova accepts the places of servers."""
        for server in moved:
            option = placement.get(server.key)
            if option is not None and not self.is_sure(server, option.root_uuid):
                yield self.why_unsure(server, option.root_uuid)

    def first_fit(
        self, stopped: Collection[str], moved: Sequence[servers.PlacedServer]
    ) -> Placement:
        """Places for the servers that fit one after the other."""
        problem = self._problem(stopped, moved, (), ())
        return placing.first_fit(problem, order=[server.key for server in moved]).placed

    def shortage(self, stopped: Collection[str], moved: Sequence[servers.PlacedServer]) -> str:
        """Why the servers do not fit together."""
        problem = self._problem(stopped, moved, (), ())
        if alike := problem.too_many_alike:
            number, fitting = alike
            return f"{number} of the servers are alike, and at most {fitting} of them fit"
        if lacking := problem.lacking:
            return "{1} {0} are needed, and there is room for {2}".format(*lacking)
        return "no distribution among the other hosts fits"

    def _problem(
        self,
        stopped: Collection[str],
        moved: Sequence[servers.PlacedServer],
        more: Sequence[Wanted],
        taken: Iterable[placing.Option],
    ) -> placing.Problem:
        free = self.free(stopped, moved)
        requests: dict[str, Hashable] = {}
        by_kind: dict[Hashable, Sequence[placing.Option]] = {}
        # The answer does not depend on the order in which nova lists servers.
        for server in sorted(moved, key=lambda server: server.key):
            kind = (self._options[server.kind].alike, server.together)
            requests[server.key] = kind
            if kind not in by_kind:
                by_kind[kind] = self.options_for(server, stopped)
        for number, wanted in enumerate(more):
            kind = (self._options[wanted.kind].alike, "")
            requests[f"request {number}"] = kind
            if kind not in by_kind:
                by_kind[kind] = self.options_of(wanted.kind, stopped)
        for option in taken:
            for slot, amount in option.amounts.items():
                free[slot] -= amount
        kinds = {kind: at for at, kind in enumerate(dict.fromkeys(requests.values()))}
        return placing.Problem(
            dict(sorted(requests.items(), key=lambda item: kinds[item[1]])),
            {kind: placing.fullest_first(options, free) for kind, options in by_kind.items()},
            free,
        )

    def arrived(
        self,
        base: state.CloudState,
        arrivals: Sequence[tuple[servers.PlacedServer, placing.Option, servers.PlacedServer]],
    ) -> Moves:
        """The moves on the state ``base``, in which servers have moved and nothing else changed.

        An arrival is a server, its option, and the server on the other host.
        """
        changed = copy.copy(self)
        changed.base, changed._free = base, dict(self._free)
        changed._by_root, changed._members = dict(self._by_root), dict(self._members)
        changed._options = dict(self._options)
        for before, option, after in arrivals:
            for sign, amounts in ((-1, option.amounts), (1, self.freed_by(before))):
                for slot in amounts.keys() & changed._free.keys():
                    changed._free[slot] += sign * amounts[slot]
            if group := before.apart or before.together:
                own = collections.Counter(changed._members[group])
                own.update((after.root_uuid,))
                # The counter has no hosts without a member.
                changed._members[group] = own - collections.Counter((before.root_uuid,))
            own_servers = changed._by_root.get(before.root_uuid, ())
            if any(server.key == before.key for server in own_servers):
                changed._by_root[before.root_uuid] = [
                    server for server in own_servers if server.key != before.key
                ]
                there = changed._by_root.get(after.root_uuid, [])
                changed._by_root[after.root_uuid] = [*there, after]
                if after.kind not in changed._options:
                    changed._add(
                        base.without_allocations(),
                        after.kind,
                        after.queries,
                        after.apart,
                        after.answers,
                    )
        return changed

    def near(
        self,
        former: Placement,
        stopped: Collection[str],
        moved: Iterable[servers.PlacedServer],
    ) -> Placement | None:
        """As ``place``, by one attempt that changes a former placement as little as it can."""
        left: dict[placing.Slot, int] = {}
        placement: dict[str, placing.Option] = {}
        for server in moved:
            members = self.hosts_of_group(server.together) if server.together else None
            before = former.get(server.key)
            for option in itertools.chain([before] if before else (), self.all_options(server)):
                if (
                    (members is None or option.root_uuid in members)
                    and all(
                        amount <= left.get(slot, self._free[slot])
                        for slot, amount in option.amounts.items()
                    )
                    and not options.uses_trees(self.base, option, stopped)
                ):
                    break
            else:
                return None
            placement[server.key] = option
            for slot, amount in option.amounts.items():
                left[slot] = left.get(slot, self._free[slot]) - amount
        return placement

    def all_options(self, server: servers.PlacedServer) -> Sequence[placing.Option]:
        """The options of a server on all hosts, used or not."""
        return self._options[server.kind].options

    def limited_to(self, seconds: float) -> Moves:
        """These moves, with a budget of ``seconds`` for the searches."""
        limited = copy.copy(self)
        limited.budget = SearchBudget(seconds)
        return limited

    def released(self, stopped: Collection[str]) -> state.CloudState:
        """The state after the servers of some hosts have left them."""
        left = self.base.copy()
        changed: dict[str, record.ConsumerRecord] = {}
        for server in self.servers_on(stopped):
            consumer = changed.get(server.uuid, self.base.consumers[server.uuid])
            kept = {
                uuid: resources
                for uuid, resources in consumer.allocations.items()
                if uuid not in server.allocations
            }
            changed[server.uuid] = dataclasses.replace(consumer, allocations=kept)
        left.apply(record.Changes(consumers=changed))
        return left


def _by_root(
    members: GroupMembers, root_of: Callable[[str], str | None]
) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    for host, number in members.on_host().items():
        root = root_of(host)
        if root is not None:
            counts[root] += number
    return counts


def _places(group: ServerGroup) -> str:
    return f"places of server group {group.name}"
