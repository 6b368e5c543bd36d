# SPDX-License-Identifier: Apache-2.0
"""Whether the cloud can lose hosts after a drain, as it could before. Pure.

A failure of some hosts is survived if their servers find room on the others. The hosts that are
emptied give no room. What is survived after all steps of a plan is survived after each of them:
the servers that wait are those that the further steps place. Only a shared pool that a step frees
can be an exception.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.workflows.cloud import nova_servers, servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import steps
from osc_placement.workflows.moving.places import Moves

Failure = tuple[str, ...]


class FailureReserve:
    """Which failures of ``failures`` hosts are survived; ``known`` is about all servers.

    ``lost`` are the failures (root UUIDs) that are not survived even while the hosts to drain are
    in service: they do not count. Raises SearchTooLong.
    """

    def __init__(
        self,
        base: state.CloudState,
        known: nova_servers.KnownServers,
        refused: Collection[str],
        failures: int,
        budget: SearchBudget,
        drained: Collection[str],
    ) -> None:
        self._base, self._known, self._refused = base, known, refused
        self._failures, self._budget = failures, budget
        self._hosts = hosts_of(base)
        self._last: Failure = ()
        moves = self._moves(_in_service(base, drained), (), set(refused).difference(drained))
        self.lost = tuple(each for each in self._all(moves, ()) if moves.place(each) is None)

    def is_kept(self, stopped: Sequence[str], done: Sequence[steps.DrainStep]) -> bool:
        """Whether the cloud survives after steps what it survived before."""
        moves = self._moves(steps.after(self._base, done), stopped, self._refused)
        for failure in self._all(moves, stopped):
            self._budget.check()
            if failure not in self.lost and moves.place(failure) is None:
                self._last = failure
                return False
        return True

    def _moves(
        self, base: state.CloudState, stopped: Sequence[str], refused: Collection[str]
    ) -> Moves:
        known = self._known
        every = servers.servers_on(base, self._hosts, known.queries, known.groups, known.migrations)
        return Moves(base, every, self._budget, (), stopped, groups=known.groups, refused=refused)

    def _all(self, moves: Moves, stopped: Collection[str]) -> Iterator[Failure]:
        """The failures that concern a server; first the one that was not survived last."""
        hosts = [root for root in self._hosts if root not in stopped]
        if self._last and not set(self._last) & set(stopped):
            yield self._last
        for failure in itertools.combinations(hosts, min(self._failures, len(hosts))):
            if moves.servers_on(failure):
                yield failure


def _in_service(base: state.CloudState, roots: Collection[str]) -> state.CloudState:
    """The state as if nova-compute of these hosts was enabled."""
    changed = base.copy()
    providers = (base.providers[root] for root in roots)
    changed.apply(
        record.Changes(
            {
                each.uuid: dataclasses.replace(each, traits=each.traits - {servers.DISABLED})
                for each in providers
            }
        )
    )
    return changed
