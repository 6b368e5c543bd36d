# SPDX-License-Identifier: Apache-2.0
"""The smallest changes after which a server could move that has no step. Pure.

Those of ``placement allocation candidate explain``, for the state after the steps of the plan: what
a host lacks, and what the server requests too much.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from osc_placement.engine import state
from osc_placement.model import constraint
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.explain import changes
from osc_placement.workflows.explain.relaxations import Relaxations
from osc_placement.workflows.moving.places import Moves

#: Hosts of which changes are worked out: those that lack least.
_NEAREST = 3


def smallest_changes(
    moves: Moves,
    after: state.CloudState,
    server: servers.PlacedServer,
    without: Collection[str],
    counted: Collection[str] = (),
) -> list[changes.SmallestChange]:
    """Each is sufficient alone: changes of hosts first, then of the server's request.

    ``after`` is the state after the steps, ``without`` are the root UUIDs of hosts that are no
    targets, ``counted`` the providers that nova-compute counts. Empty if only another member of its
    server group would have to move.
    """
    excluded = {*without, *moves.refused, *server.answers.refused}
    excluded.update(_refused_by_group(moves, after, server))
    hosts = [root for root in hosts_of(after) if root not in excluded]
    if not hosts:
        return []
    query = server.query
    relaxations = Relaxations(after, query, constraint.constraints_of(query))
    lacking = {root: changes.lack(after, relaxations.plan, root, {}) for root in hosts}
    nearest = heapq.nsmallest(
        _NEAREST, hosts, key=lambda root: (lacking[root], after.providers[root].name)
    )
    found: list[changes.SmallestChange] = []
    for root in nearest:
        found += changes.of_host(after, query, root, {}, (), excluded, counted)
    # Nobody changes the amounts of a server that exists.
    of_query = changes.of_query(after, query, relaxations, hosts, excluded)
    return [*found, *(change for change in of_query if not change.amounts)]


def _refused_by_group(
    moves: Moves, after: state.CloudState, server: servers.PlacedServer
) -> Iterable[str]:
    """The hosts that the server group of a server excludes."""
    if server.together:
        return set(hosts_of(after)) - moves.hosts_of_group(server.together)
    if not server.apart:
        return ()
    most = moves.groups[server.apart].most_per_host
    return [root for root, number in moves.members_on(server.apart).items() if number >= most]
