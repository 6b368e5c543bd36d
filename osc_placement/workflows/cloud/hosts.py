# SPDX-License-Identifier: Apache-2.0
"""The hosts of a cloud, and which of them can serve a query. Pure.

A host is the root of a provider tree. It can serve a query if a candidate takes something from its
tree; the rest may come from providers that share with the tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import plans
from osc_placement.engine.candidates.forest import Forest
from osc_placement.model import candidate


class HostSearch:
    """The search of the engine, tree by tree."""

    def __init__(self, base: state.CloudState, query: candidate.CandidateQuery) -> None:
        self.plan = plans.prepare(base, query)
        self.forest = Forest(base, self.plan)
        self._base = base
        self._may_serve = bool(self.plan.totals) and not any(
            group.impossible for group in self.plan.groups
        )

    def can_serve(self, root_uuid: str) -> bool:
        """Whether a host can serve the query; no host serves one without resources."""
        if not self._may_serve or not self.plan.admits_root(self._base.providers[root_uuid]):
            return False
        tree = self._base.tree[root_uuid]
        return any(
            not tree.isdisjoint(offered.allocations)
            for offered in self.forest.candidates_in(root_uuid)
        )

    def shared_can_serve(self, root_uuid: str) -> bool:
        """Whether a host, or only providers that share with its tree, can serve the query."""
        if not self.plan.admits_root(self._base.providers[root_uuid]):
            return False
        return next(self.forest.candidates_in(root_uuid), None) is not None

    def hosts(self, among: Iterable[str] | None = None) -> list[str]:
        """The hosts that can serve the query, of those given or of all."""
        roots = self.forest.roots() if among is None else among
        return [uuid for uuid in roots if self.can_serve(uuid)]


def serving(
    base: state.CloudState,
    queries: Iterable[candidate.CandidateQuery],
    among: Collection[str] | None = None,
) -> frozenset[str]:
    """The hosts that can serve a request of nova, of those given or of all.

    Nova sends several queries for one request, and takes the hosts of all answers.
    """
    return frozenset(uuid for query in queries for uuid in HostSearch(base, query).hosts(among))


def hosts_of(base: state.CloudState) -> list[str]:
    """The root UUIDs of all hosts: of all trees that offer more than shared resources."""
    return [
        uuid
        for uuid, provider in base.providers.items()
        if provider.root_uuid == uuid
        and any(_is_own(base.providers[member]) for member in base.tree[uuid])
    ]


def _is_own(provider: record.ProviderRecord) -> bool:
    return bool(provider.inventories) and standard.SHARING_TRAIT not in provider.traits
