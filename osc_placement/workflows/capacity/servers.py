"""The servers of hosts, and what each of them requests elsewhere. Pure.

A server is a consumer with allocations in the tree of a host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from osc_placement.engine import standard, state
from osc_placement.model import allocation, candidate

#: The trait of a disabled host; nova's scheduler never places a server there.
DISABLED = "COMPUTE_STATUS_DISABLED"


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A consumer on one host.

    ``allocations`` are those that it has in the tree of the host and of sharing providers: what it
    frees when it leaves. ``query`` is what it requests on another host.
    """

    uuid: str
    root_uuid: str
    allocations: allocation.Allocations
    query: candidate.CandidateQuery

    @property
    def key(self) -> str:
        """Its name in a placement: a consumer may have allocations on several hosts."""
        return f"{self.uuid} {self.root_uuid}"


def servers_on(
    base: state.State,
    roots: Iterable[str],
    queries: Mapping[str, candidate.CandidateQuery] | None = None,
) -> list[Server]:
    """The servers of hosts, without the consumers that hold allocations for a migration.

    ``queries`` are the requests of servers that are known from nova; the others request what they
    have.
    """
    known = queries or {}
    found = []
    for root in roots:
        consumers = {each: None for uuid in base.tree[root] for each in base.consumers_of[uuid]}
        for uuid in consumers:
            consumer = base.consumers[uuid]
            if consumer.consumer_type == allocation.MIGRATION:
                continue
            own = _own_allocations(base, root, consumer.allocations)
            query = known.get(uuid) or query_of(base, root, own)
            found.append(Server(uuid, root, own, query))
    return found


def migrations_on(base: state.State, root: str) -> list[str]:
    """The UUIDs of migrations that hold allocations on a host."""
    consumers = {each: None for uuid in base.tree[root] for each in base.consumers_of[uuid]}
    return [
        uuid for uuid in consumers if base.consumers[uuid].consumer_type == allocation.MIGRATION
    ]


def _own_allocations(
    base: state.State, root: str, allocations: allocation.Allocations
) -> allocation.Allocations:
    return {
        uuid: resources
        for uuid, resources in allocations.items()
        if uuid in base.tree[root] or standard.SHARING_TRAIT in base.providers[uuid].traits
    }


def query_of(
    base: state.State, root: str, allocations: allocation.Allocations
) -> candidate.CandidateQuery:
    """The request for the same amounts on another host.

    The amounts of the root and of sharing providers are requested without a suffix, so that any
    provider of a host may supply them; those of each other provider together from one provider.
    """
    unsuffixed: dict[str, int] = {}
    groups = []
    for uuid, resources in allocations.items():
        may_split = uuid == root or uuid not in base.tree[root]
        if may_split and unsuffixed.keys().isdisjoint(resources):
            unsuffixed |= resources
        else:
            groups.append(dict(resources))
    numbered = [
        candidate.RequestGroup(str(number), each)
        for number, each in enumerate(sorted(groups, key=lambda each: sorted(each.items())), 1)
    ]
    first = [candidate.RequestGroup("", dict(sorted(unsuffixed.items())))] if unsuffixed else []
    return candidate.CandidateQuery((*first, *numbered), root_forbidden=frozenset({DISABLED}))


def query_key(query: candidate.CandidateQuery) -> object:
    """Equal for queries with equal groups and conditions."""
    groups = frozenset(
        (
            group.suffix,
            frozenset(group.resources.items()),
            frozenset(group.required),
            group.forbidden,
            frozenset(group.member_of),
            group.forbidden_aggregates,
            group.in_tree,
        )
        for group in query.groups
    )
    between = (query.isolate, frozenset(query.same_subtree))
    return groups, between, query.root_required, query.root_forbidden
