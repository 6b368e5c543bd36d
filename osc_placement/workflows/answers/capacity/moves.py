# SPDX-License-Identifier: Apache-2.0
"""Where the servers of some hosts could go. Pure."""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.search import placing
from osc_placement.workflows.answers.capacity import servers
from osc_placement.workflows.cloud import options

Placement = placing.Placement


@dataclasses.dataclass(frozen=True, slots=True)
class JointOption(placing.Option):
    """An option of one host for each of several servers; ``parts`` are in their order."""

    parts: tuple[placing.Option, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
    """Servers that move, as requests.

    ``servers`` are those of each request: several if they must share a host. Requests without
    servers are not in it.
    """

    requests: placing.Problem
    servers: Mapping[str, Sequence[servers.PlacedServer]]

    def of_servers(self, placement: Placement) -> Placement:
        """The options of servers by their keys, and those of the other requests."""
        by_key: dict[str, placing.Option] = {}
        for name, option in placement.items():
            if isinstance(option, JointOption):
                keys = [server.key for server in self.servers[name]]
                by_key |= zip(keys, option.parts, strict=True)
            else:
                by_key[name] = option
        return by_key


class Moves:
    """The servers of a cloud, and everything that could serve each of them elsewhere.

    The options of a server are those in the cloud without any allocation; what is free decides
    among them. So they are found once for all sets of hosts that stop. ``without`` are the root
    UUIDs of trees that are left out; ``refused`` those of hosts that take no server, though other
    hosts may use what their trees share: ``not_counted`` are the ones that could serve a request.
    ``groups`` are nova's server groups; each place that a host has for a group with anti-affinity
    is an amount of the host. A server with affinity goes to a host of the members that stay; if all
    of them move, they go to one host.
    """

    def __init__(
        self,
        base: state.CloudState,
        known: Sequence[servers.PlacedServer],
        budget: SearchBudget,
        more: Iterable[candidate.CandidateQuery] = (),
        without: Collection[str] = (),
        groups: Iterable[ServerGroup] = (),
        refused: Collection[str] = (),
    ) -> None:
        self.base, self.budget, self.refused = base, budget, frozenset(refused)
        self.not_counted: dict[str, None] = {}
        self.groups = {each.uuid: each for each in groups}
        self._joint: dict[Hashable, list[JointOption]] = {}
        self._without = frozenset(without)
        self._by_root: dict[str, list[servers.PlacedServer]] = {}
        for server in known:
            self._by_root.setdefault(server.root_uuid, []).append(server)
        empty = base.without_allocations()
        kinds = {servers.kind_of(query): (query, "") for query in more}
        kinds |= {server.kind: (server.query, server.apart) for server in known}
        self.is_complete = True
        self._options: dict[Hashable, Sequence[placing.Option]] = {}
        self._free: dict[placing.Slot, int] = {}
        for kind, (query, group) in kinds.items():
            found = options.find(empty, query, budget, self.refused)
            self.is_complete = self.is_complete and found.is_complete
            usable = [each for each in found.options if each.is_of_host]
            self.not_counted |= dict.fromkeys(found.not_counted)
            self._free |= options.free_amounts(base, usable)
            self._options[kind] = self._in_group(group, usable) if group else usable

    def _in_group(self, uuid: str, found: Iterable[placing.Option]) -> list[placing.Option]:
        """The options with one place of a server group with anti-affinity on the host."""
        group = self.groups[uuid]
        name = f"places of server group {group.name}"
        members = collections.Counter(
            root for each in group.members for root in servers.hosts_of_server(self.base, each)
        )
        changed = []
        for option in found:
            slot = option.root_uuid, name
            self._free[slot] = max(group.most_per_host - members[option.root_uuid], 0)
            changed.append(dataclasses.replace(option, amounts={**option.amounts, slot: 1}))
        return changed

    def servers_on(self, roots: Iterable[str]) -> list[servers.PlacedServer]:
        """The servers of some hosts."""
        return [server for root in roots for server in self._by_root.get(root, ())]

    def options_of(self, kind: Hashable, stopped: Collection[str]) -> list[placing.Option]:
        """The options of a kind of request on the hosts that do not stop, used or not."""
        found = self._options[kind]
        stopped = self._without.union(stopped)
        return [each for each in found if not options.uses_trees(self.base, each, stopped)]

    def options_for(
        self,
        server: servers.PlacedServer,
        stopped: Collection[str],
        moved: Iterable[servers.PlacedServer],
    ) -> list[placing.Option]:
        """The options of a server that moves with others, used or not."""
        found = self.options_of(server.kind, stopped)
        staying = self.staying(server, stopped, moved)
        return [each for each in found if not staying or each.root_uuid in staying]

    def staying(
        self,
        server: servers.PlacedServer,
        stopped: Collection[str],
        moved: Iterable[servers.PlacedServer],
    ) -> frozenset[str]:
        """The hosts of the members of its server group with affinity that stay."""
        if not server.together:
            return frozenset()
        stay = set(self.groups[server.together].members) - {each.uuid for each in moved}
        roots = {root for uuid in stay for root in servers.hosts_of_server(self.base, uuid)}
        return frozenset(roots.difference(stopped))

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
        more: Sequence[candidate.CandidateQuery] = (),
        taken: Iterable[placing.Option] = (),
    ) -> Placement | None:
        """A place for each server of the hosts that stop, and for ``more`` requests.

        ``moved`` restricts the servers, ``taken`` is used by others. None if it is proved that not
        all fit, provided that the options are complete. Raises the errors of the budget.
        """
        moved = self.servers_on(stopped) if moved is None else moved
        problem = self._problem(stopped, moved, more, taken)
        placement = placing.place(problem.requests, self.budget)
        return None if placement is None else problem.of_servers(placement)

    def first_fit(
        self, stopped: Collection[str], moved: Sequence[servers.PlacedServer]
    ) -> Placement:
        """Places for the servers that fit one after the other."""
        problem = self._problem(stopped, moved, (), ())
        names = {each.key: name for name, known in problem.servers.items() for each in known}
        order = dict.fromkeys(names[server.key] for server in moved)
        return problem.of_servers(placing.first_fit(problem.requests, order=order).placed)

    def shortage(self, stopped: Collection[str], moved: Sequence[servers.PlacedServer]) -> str:
        """Why the servers do not fit together."""
        problem = self._problem(stopped, moved, (), ())
        requests = problem.requests
        for name, together in problem.servers.items():
            possible = requests.options[requests.requests[name]]
            if len(together) > 1 and not any(option.fits(requests.free) for option in possible):
                group = self.groups[together[0].together].name
                return f"no other host has room for all servers of server group {group}"
        if alike := requests.too_many_alike:
            number, fitting = alike
            return f"{number} of the servers are alike, and at most {fitting} of them fit"
        if lacking := requests.lacking:
            return "{1} {0} are needed, and there is room for {2}".format(*lacking)
        return "no distribution among the other hosts fits"

    def _problem(
        self,
        stopped: Collection[str],
        moved: Sequence[servers.PlacedServer],
        more: Sequence[candidate.CandidateQuery],
        taken: Iterable[placing.Option],
    ) -> _Problem:
        free = self.free(stopped, moved)
        requests: dict[str, Hashable] = {}
        by_kind: dict[Hashable, Sequence[placing.Option]] = {}
        servers_of: dict[str, Sequence[servers.PlacedServer]] = {}
        for together, staying in self._joined(stopped, moved):
            name, kind = together[0].key, together[0].kind
            if len(together) > 1:
                kind = together[0].together
            elif staying:
                kind = (kind, staying)
            requests[name], servers_of[name] = kind, together
            if kind in by_kind:
                continue
            if len(together) > 1:
                by_kind[kind] = self._options_together(together, stopped)
            else:
                by_kind[kind] = self.options_for(together[0], stopped, moved)
        for number, query in enumerate(more):
            kind = servers.kind_of(query)
            requests[f"request {number}"] = kind
            if kind not in by_kind:
                by_kind[kind] = self.options_of(kind, stopped)
        for option in taken:
            for slot, amount in option.amounts.items():
                free[slot] -= amount
        # The answer does not depend on the order in which nova lists servers.
        kinds = {kind: at for at, kind in enumerate(dict.fromkeys(requests.values()))}
        return _Problem(
            placing.Problem(
                dict(sorted(requests.items(), key=lambda item: (kinds[item[1]], item[0]))),
                {kind: placing.fullest_first(options, free) for kind, options in by_kind.items()},
                free,
            ),
            servers_of,
        )

    def _joined(
        self, stopped: Collection[str], moved: Sequence[servers.PlacedServer]
    ) -> list[tuple[list[servers.PlacedServer], frozenset[str]]]:
        """The servers that move, and the hosts with which they must stay.

        A server is alone, or with its whole group if all members of that move.
        """
        joined: dict[str, tuple[list[servers.PlacedServer], frozenset[str]]] = {}
        for server in moved:
            staying = self.staying(server, stopped, moved)
            key = server.together if server.together and not staying else server.key
            joined.setdefault(key, ([], staying))[0].append(server)
        for together, _ in joined.values():
            # Servers of one kind are next to each other, in the order of their first one.
            kinds = {each.kind: at for at, each in reversed(list(enumerate(together)))}
            together.sort(key=lambda each: kinds[each.kind])
        return list(joined.values())

    def _options_together(
        self, together: Sequence[servers.PlacedServer], stopped: Collection[str]
    ) -> Sequence[placing.Option]:
        kinds = tuple(each.kind for each in together)
        if kinds not in self._joint:
            self._joint[kinds] = self._joint_options(kinds)
        stopped = self._without.union(stopped)
        joint = self._joint[kinds]
        return [each for each in joint if not options.uses_trees(self.base, each, stopped)]

    def _joint_options(self, kinds: Sequence[Hashable]) -> list[JointOption]:
        """The options of one host for each of several servers.

        Servers of one kind are next to each other in ``kinds``, and are interchangeable.
        """
        numbers = collections.Counter(kinds)
        by_root: dict[str, dict[Hashable, list[placing.Option]]] = {}
        for kind in numbers:
            for option in self._options[kind]:
                by_root.setdefault(option.root_uuid, {}).setdefault(kind, []).append(option)
        joint: list[JointOption] = []
        for root, by_kind in sorted(by_root.items()):
            if len(by_kind) < len(numbers):
                continue
            # Without the other orders of servers of one kind.
            choices = itertools.product(
                *(
                    itertools.combinations_with_replacement(by_kind[kind], number)
                    for kind, number in numbers.items()
                )
            )
            for choice in itertools.islice(choices, options.PER_TREE):
                parts = tuple(itertools.chain.from_iterable(choice))
                amounts: collections.Counter[placing.Slot] = collections.Counter()
                for option in parts:
                    amounts.update(option.amounts)
                joint.append(JointOption(root, dict(amounts), parts=parts))
            self.is_complete = self.is_complete and next(choices, None) is None
        return joint

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
