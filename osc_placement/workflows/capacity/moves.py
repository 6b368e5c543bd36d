"""Where the servers of some hosts could go. Pure."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import candidate
from osc_placement.workflows.capacity import servers
from osc_placement.workflows.cloud import options, packing, placing

Placement = placing.Placement


class Moves:
    """The servers of a cloud, and everything that could serve each of them elsewhere.

    The options of a server are those in the cloud without any allocation; what is free decides
    among them. So they are found once for all sets of hosts that stop. ``without`` are the root
    UUIDs of hosts that receive no server.
    """

    def __init__(
        self,
        base: state.State,
        known: Sequence[servers.Server],
        budget: budgets.SearchBudget,
        more: Iterable[candidate.CandidateQuery] = (),
        without: Collection[str] = (),
    ) -> None:
        self.base, self.budget = base, budget
        self._without = frozenset(without)
        self._by_root: dict[str, list[servers.Server]] = {}
        for server in known:
            self._by_root.setdefault(server.root_uuid, []).append(server)
        empty = _without_allocations(base)
        queries = [*(server.query for server in known), *more]
        self.is_complete = True
        self._options: dict[Hashable, Sequence[packing.Option]] = {}
        for query in queries:
            key = servers.query_key(query)
            if key not in self._options:
                found = options.find(empty, query, budget)
                self.is_complete = self.is_complete and found.is_complete
                self._options[key] = [each for each in found.options if each.is_of_host]
        every = [option for each in self._options.values() for option in each]
        self._free = dict(options.free_amounts(base, every))

    def servers_on(self, roots: Iterable[str]) -> list[servers.Server]:
        """The servers of some hosts."""
        return [server for root in roots for server in self._by_root.get(root, ())]

    def options_of(
        self, query: candidate.CandidateQuery, stopped: Collection[str]
    ) -> list[packing.Option]:
        """The options of a request on the hosts that do not stop, used or not."""
        found = self._options[servers.query_key(query)]
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
        queries = {server.key: server.query for server in moved}
        queries |= {f"request {number}": query for number, query in enumerate(more)}
        requests = {name: servers.query_key(query) for name, query in queries.items()}
        first = {key: queries[name] for name, key in requests.items()}
        left = self.free(stopped, moved)
        for option in taken:
            for slot, amount in option.amounts.items():
                left[slot] -= amount
        return (
            requests,
            {key: self.options_of(query, stopped) for key, query in first.items()},
            left,
        )

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
