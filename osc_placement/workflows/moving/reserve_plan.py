# SPDX-License-Identifier: Apache-2.0
"""Whether the cloud can lose hosts after a drain, as it could before. Pure.

A failure of some hosts is survived if their servers find room on the others. The hosts that are
emptied give no room. What is survived after all steps of a plan is survived after each of them:
the servers that wait are those that the further steps place. Only a shared pool that a step frees
can be an exception.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget, SearchTooLong
from osc_placement.model.name import and_more, counted
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, servers, ways
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import steps
from osc_placement.workflows.moving.places import Moves, Placement
from osc_placement.workflows.moving.planner import StepNames

Failure = tuple[str, ...]


class FailureReserve:
    """Which failures of ``failures`` hosts are survived; ``known`` is about all servers.

    ``lost`` are the failures (root UUIDs) that are not survived even while the hosts to drain are
    in service: they do not count. Raises SearchTooLong.
    """

    def __init__(
        self,
        base: state.CloudState,
        known: nova_servers.ServerCases,
        compute: ServerHosts,
        failures: int,
        budget: SearchBudget,
        drained: Collection[str],
    ) -> None:
        self._budget, self._failures, self._hosts = budget, failures, hosts_of(base)
        base = in_service(base, drained)
        left = ways.leaving(
            known.on(base, self._hosts),
            known.cases,
            HostVerdicts(base, compute),
            ways.OFF_A_DEAD_HOST,
            source_fails=True,
        )
        refused = compute.refused(base.tree)
        self._moves = Moves(
            base,
            left.moving,
            budget,
            groups=known.groups,
            refused={root: why for root, why in refused.items() if root not in drained},
            root_of=compute.root_of,
        )
        #: Where the servers of a failure found room: mostly they find it there again.
        self._placements: dict[Failure, Placement] = {}
        self._last: Failure = ()
        self.lost: tuple[Failure, ...] = ()
        self.lost = tuple(
            failure for failure in self._all(self._moves, ()) if not self._is_survived(failure)
        )

    def is_kept(self, stopped: Sequence[str], done: Sequence[steps.DrainStep]) -> bool:
        """Whether the cloud survives after steps what it survived before."""
        after = self.after(done)
        for failure in after._all(after._moves, stopped):
            self._budget.check()
            if failure not in self.lost and not after._is_survived(failure, stopped):
                self._last = failure
                return False
        return True

    def after(self, done: Sequence[steps.DrainStep]) -> FailureReserve:
        """The same after steps."""
        by_key = {
            server.key: server
            for server in self._moves.servers_on(step.server.root_uuid for step in done)
        }
        changed = copy.copy(self)
        changed._moves = steps.moves_after(
            self._moves,
            [
                dataclasses.replace(step, server=by_key.get(step.server.key, step.server))
                for step in done
            ],
        )
        return changed

    def _is_survived(self, failure: Failure, stopped: Sequence[str] = ()) -> bool:
        moved, gone = self._moves.servers_on(failure), {*failure, *stopped}
        former = self._placements.get(failure, {})
        placement = self._moves.near(former, gone, moved) or self._moves.place(gone, moved)
        if placement is not None:
            self._placements[failure] = placement
        return placement is not None

    def _all(self, moves: Moves, stopped: Collection[str]) -> Iterator[Failure]:
        """The failures that concern a server; first the one that was not survived last."""
        hosts = [root for root in self._hosts if root not in stopped]
        if self._last and not set(self._last) & set(stopped):
            yield self._last
        for failure in itertools.combinations(hosts, min(self._failures, len(hosts))):
            if moves.servers_on(failure):
                yield failure


def before_plan(
    names: StepNames,
    everywhere: nova_servers.ServerCases | None,
    failures: int,
    seconds: float,
    drained: Collection[str] = (),
) -> tuple[FailureReserve | None, Caveats]:
    """What the cloud survives, and what is open about it or lost without a plan.

    None if it is not asked for (``failures`` is 0, or nothing was read ``everywhere``), or if the
    time is too short.
    """
    if everywhere is None or not failures:
        return None, Caveats()
    budget = SearchBudget(seconds)
    try:
        kept = FailureReserve(names.base, everywhere, names.compute, failures, budget, drained)
    except SearchTooLong as error:
        return None, too_long(failures, error)
    lost = [" and ".join(map(names.host, failure)) for failure in kept.lost]
    notes = (f"not kept, because it is so without the plan: {and_more(lost)} may not fail",)
    doubts = tuple(f"{_what(failures)}: {text}" for text in everywhere.caveats.doubts)
    return kept, Caveats(doubts, notes if lost else ())


def too_long(failures: int, error: SearchTooLong) -> Caveats:
    """That the time did not suffice to keep the reserve."""
    return Caveats((f"{_what(failures)}: {error}",))


def _what(failures: int) -> str:
    return f"whether any {counted(failures, 'host')} may fail after the plan"


def in_service(base: state.CloudState, roots: Collection[str]) -> state.CloudState:
    """The state as if nova-compute of these hosts was enabled."""
    changed = base.copy()
    providers = (base.providers[root] for root in roots)
    changed.apply(
        record.Changes(
            {
                provider.uuid: dataclasses.replace(
                    provider, traits=provider.traits - {servers.DISABLED}
                )
                for provider in providers
            }
        )
    )
    return changed
