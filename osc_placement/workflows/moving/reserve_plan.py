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
from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.scheduling.case import GroupMembers
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, servers, ways
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
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
        compute: ServerHosts,
        failures: int,
        budget: SearchBudget,
        drained: Collection[str],
    ) -> None:
        self._base, self._known, self._compute = base, known, compute
        self._refused = compute.refused(base.tree)
        self._failures, self._budget = failures, budget
        self._hosts = hosts_of(base)
        self._last: Failure = ()
        kept = {root: why for root, why in self._refused.items() if root not in drained}
        moves = self._moves(_in_service(base, drained), (), kept)
        self.lost = tuple(each for each in self._all(moves, ()) if moves.place(each) is None)

    def is_kept(self, stopped: Sequence[str], done: Sequence[steps.DrainStep]) -> bool:
        """Whether the cloud survives after steps what it survived before."""
        after = steps.after(self._base, done)
        moves = self._moves(after, stopped, self._refused, self._groups_after(done))
        for failure in self._all(moves, stopped):
            self._budget.check()
            if failure not in self.lost and moves.place(failure) is None:
                self._last = failure
                return False
        return True

    def _moves(
        self,
        base: state.CloudState,
        stopped: Sequence[str],
        refused: Mapping[str, str],
        groups: Mapping[str, GroupMembers] | None = None,
    ) -> Moves:
        known = self._known
        groups = known.groups if groups is None else groups
        placed = servers.servers_on(base, self._hosts, known.cases, groups, known.migrations)
        left = ways.leaving(
            placed,
            known.cases,
            HostVerdicts(base, self._compute),
            ways.OFF_A_DEAD_HOST,
            source_fails=True,
        )
        return Moves(
            base,
            left.moving,
            self._budget,
            without=stopped,
            groups=groups,
            refused=refused,
            root_of=self._compute.root_of,
        )

    def _groups_after(self, done: Sequence[steps.DrainStep]) -> dict[str, GroupMembers]:
        """The server groups once the servers of steps are on their targets."""
        hosts = {step.server.uuid: self._host(step.option.root_uuid) for step in done}
        return {
            uuid: dataclasses.replace(
                members,
                hosts={
                    **members.hosts,
                    **{server: hosts[server] for server in hosts.keys() & members.group.members},
                },
            )
            for uuid, members in self._known.groups.items()
        }

    def _host(self, root: str) -> str:
        node = self._compute.node(root)
        return node.host if node else root

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
