"""Where the servers of some hosts could go. Pure."""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.workflows.capacity import servers
from osc_placement.workflows.cloud import options, packing, placing

Placement = placing.Placement


class Moves:
    """The servers of a cloud, and everything that could serve each of them elsewhere.

    The options of a server are those in the cloud without any allocation; what is free decides
    among them. So they are found once for all sets of hosts that stop. ``without`` are the root
    UUIDs of hosts that receive no server. ``groups`` are nova's server groups; each place that a
    host has for a group with anti-affinity is an amount of the host.
    """

    def __init__(
        self,
        base: state.State,
        known: Sequence[servers.Server],
        budget: budgets.SearchBudget,
        more: Iterable[candidate.CandidateQuery] = (),
        without: Collection[str] = (),
        groups: Iterable[ServerGroup] = (),
    ) -> None:
        self.base, self.budget = base, budget
        self.groups = {each.uuid: each for each in groups if each.policy == "anti-affinity"}
        self._without = frozenset(without)
        self._by_root: dict[str, list[servers.Server]] = {}
        for server in known:
            self._by_root.setdefault(server.root_uuid, []).append(server)
        empty = _without_allocations(base)
        kinds = {servers.kind_of(query): (query, "") for query in more}
        kinds |= {server.kind: (server.query, server.apart) for server in known}
        self.is_complete = True
        self._options: dict[Hashable, Sequence[packing.Option]] = {}
        self._free: dict[packing.Slot, int] = {}
        for kind, (query, group) in kinds.items():
            found = options.find(empty, query, budget)
            self.is_complete = self.is_complete and found.is_complete
            usable = [each for each in found.options if each.is_of_host]
            self._free |= options.free_amounts(base, usable)
            self._options[kind] = self._in_group(group, usable) if group else usable

    def _in_group(self, uuid: str, found: Iterable[packing.Option]) -> list[packing.Option]:
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

    def servers_on(self, roots: Iterable[str]) -> list[servers.Server]:
        """The servers of some hosts."""
        return [server for root in roots for server in self._by_root.get(root, ())]

    def options_of(self, kind: Hashable, stopped: Collection[str]) -> list[packing.Option]:
        """The options of a kind of request on the hosts that do not stop, used or not."""
        found = self._options[kind]
        stopped = self._without.union(stopped)
        return [each for each in found if not options.uses_trees(self.base, each, stopped)]

    def free(
        self, stopped: Collection[str], moved: Iterable[servers.Server]
    ) -> dict[packing.Slot, int]:
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
        moved: Sequence[servers.Server] | None = None,
        more: Sequence[candidate.CandidateQuery] = (),
        taken: Iterable[packing.Option] = (),
    ) -> Placement | None:
        """A place for each server of the hosts that stop, and for ``more`` requests.

        ``moved`` restricts the servers, ``taken`` is used by others. None if it is proved that not
        all fit, provided that the options are complete. Raises the errors of the budget.
        """
        moved = self.servers_on(stopped) if moved is None else moved
        return placing.place(*self._problem(stopped, moved, more, taken), self.budget)

    def first_fit(self, stopped: Collection[str], moved: Sequence[servers.Server]) -> Placement:
        """Places for the servers that fit one after the other."""
        problem = self._problem(stopped, moved, (), ())
        return placing.first_fit([server.key for server in moved], *problem)

    def shortage(self, stopped: Collection[str], moved: Sequence[servers.Server]) -> str:
        """Why the servers do not fit together."""
        problem = self._problem(stopped, moved, (), ())
        return placing.shortage(*problem) or "no distribution among the other hosts fits"

    def _problem(
        self,
        stopped: Collection[str],
        moved: Sequence[servers.Server],
        more: Sequence[candidate.CandidateQuery],
        taken: Iterable[packing.Option],
    ) -> tuple[
        dict[str, Hashable], dict[Hashable, Sequence[packing.Option]], dict[packing.Slot, int]
    ]:
        """Requests, their options, and what is free."""
        requests = {server.key: server.kind for server in moved}
        requests |= {
            f"request {number}": servers.kind_of(query) for number, query in enumerate(more)
        }
        left = self.free(stopped, moved)
        for option in taken:
            for slot, amount in option.amounts.items():
                left[slot] -= amount
        kinds = dict.fromkeys(requests.values())
        return requests, {kind: self.options_of(kind, stopped) for kind in kinds}, left

    def limited_to(self, seconds: float) -> Moves:
        """The same with another budget."""
        limited = copy.copy(self)
        limited.budget = budgets.SearchBudget(seconds)
        return limited

    def released(self, stopped: Collection[str]) -> state.State:
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


def _without_allocations(base: state.State) -> state.State:
    empty = state.State()
    empty.apply(
        record.Changes(base.providers, traits=base.traits, resource_classes=base.resource_classes)
    )
    return empty
