# SPDX-License-Identifier: Apache-2.0
"""Where the servers of some hosts could go. Pure."""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.search import placing
from osc_placement.workflows.cloud import options, servers

Placement = placing.Placement


class Moves:
    """The servers of a cloud, and everything that could serve each of them elsewhere.

    The options of a server are those in the cloud without any allocation; what is free decides
    among them. So they are found once for all sets of hosts that stop. ``without`` are the root
    UUIDs of trees that are left out; ``refused`` those of hosts that take no server, though other
    hosts may use what their trees share: ``not_counted`` are the ones that could serve a request.
    ``groups`` are nova's server groups; each place that a host has for a group with anti-affinity
    is an amount of the host. A server with affinity goes to a host of another member that does not
    stop: nova's filter compares the target with the present hosts of all members, so it moves none
    of them away from the last host.
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
        self.without = frozenset(without)
        self._by_root: dict[str, list[servers.PlacedServer]] = {}
        for server in known:
            self._by_root.setdefault(server.root_uuid, []).append(server)
        empty = base.without_allocations()
        kinds = {servers.kind_of(query): (query, "", frozenset[str]()) for query in more}
        kinds |= {each.kind: (each.query, each.apart, each.barred) for each in known}
        self.is_complete = True
        self._options: dict[Hashable, Sequence[placing.Option]] = {}
        self._free: dict[placing.Slot, int] = {}
        for kind, (query, group, barred) in kinds.items():
            found = options.find(empty, query, budget, self.refused)
            self.is_complete = self.is_complete and found.is_complete
            usable = [
                each for each in found.options if each.is_of_host and each.root_uuid not in barred
            ]
            self.not_counted |= dict.fromkeys(found.not_counted)
            self._free |= options.free_amounts(base, usable)
            self._options[kind] = self._in_group(group, usable) if group else usable

    def _in_group(self, uuid: str, found: Iterable[placing.Option]) -> list[placing.Option]:
        """The options with one place of a server group with anti-affinity on the host."""
        group = self.groups[uuid]
        name = _places(group)
        members = collections.Counter(
            root for each in group.members for root in servers.hosts_of_server(self.base, each)
        )
        changed = []
        for option in found:
            slot = option.root_uuid, name
            # Negative where the group has too many members: none fits until some have left.
            self._free[slot] = group.most_per_host - members[option.root_uuid]
            changed.append(dataclasses.replace(option, amounts={**option.amounts, slot: 1}))
        return changed

    def group_place(self, server: servers.PlacedServer) -> placing.Slot | None:
        """The amount of its host that a server of a group with anti-affinity uses."""
        return (server.root_uuid, _places(self.groups[server.apart])) if server.apart else None

    def servers_on(self, roots: Iterable[str]) -> list[servers.PlacedServer]:
        """The servers of some hosts."""
        return [server for root in roots for server in self._by_root.get(root, ())]

    def options_of(self, kind: Hashable, stopped: Collection[str]) -> list[placing.Option]:
        """The options of a kind of request on the hosts that do not stop, used or not."""
        found = self._options[kind]
        stopped = self.without.union(stopped)
        return [each for each in found if not options.uses_trees(self.base, each, stopped)]

    def options_for(
        self, server: servers.PlacedServer, stopped: Collection[str]
    ) -> list[placing.Option]:
        """The options of a server, used or not."""
        found = self.options_of(server.kind, stopped)
        if not server.together:
            return found
        members = self.hosts_of_group(server.together)
        return [each for each in found if each.root_uuid in members]

    def hosts_of_group(self, uuid: str) -> frozenset[str]:
        """The hosts of the members of a server group (root UUIDs)."""
        members = self.groups[uuid].members
        return frozenset(
            root for each in members for root in servers.hosts_of_server(self.base, each)
        )

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
        return placing.place(self._problem(stopped, moved, more, taken), self.budget)

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
        more: Sequence[candidate.CandidateQuery],
        taken: Iterable[placing.Option],
    ) -> placing.Problem:
        free = self.free(stopped, moved)
        requests: dict[str, Hashable] = {}
        by_kind: dict[Hashable, Sequence[placing.Option]] = {}
        for server in moved:
            kind = (server.kind, server.together) if server.together else server.kind
            requests[server.key] = kind
            if kind not in by_kind:
                by_kind[kind] = self.options_for(server, stopped)
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
        return placing.Problem(
            dict(sorted(requests.items(), key=lambda item: (kinds[item[1]], item[0]))),
            {kind: placing.fullest_first(options, free) for kind, options in by_kind.items()},
            free,
        )

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


def _places(group: ServerGroup) -> str:
    return f"places of server group {group.name}"
