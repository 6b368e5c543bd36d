# SPDX-License-Identifier: Apache-2.0
"""The servers of hosts, and what nova requests for each of them elsewhere. Pure.

A server is a consumer with allocations in the tree of a host. What nova requests for it is known
from nova; without nova, it is the amounts that it has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.engine import record, standard, state
from osc_placement.model import allocation, candidate, name
from osc_placement.scheduling.case import Case, GroupMembers, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import selector
from osc_placement.workflows.cloud.host_verdicts import NO_ANSWERS, HostAnswers

#: The trait of a disabled host; nova's scheduler never places a server there.
DISABLED = "COMPUTE_STATUS_DISABLED"


#: Nova's queries for a server in its order, for each release that this nova may be.
Queries = tuple[tuple[candidate.CandidateQuery, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedServer:
    """A consumer on one host.

    ``allocations`` are those that it has in the tree of the host and of sharing providers: what it
    frees when it leaves. ``queries`` are those for another host. ``apart`` is the UUID of its
    server group with anti-affinity, ``together`` of one with affinity. ``way`` is how it leaves,
    None if nova was not asked; ``answers`` are those of nova's filters for this way.
    """

    uuid: str
    root_uuid: str
    allocations: allocation.Allocations
    queries: Queries
    apart: str = ""
    together: str = ""
    way: Way | None = None
    answers: HostAnswers = NO_ANSWERS

    @property
    def kind(self) -> Hashable:
        """Equal for servers that have the same options on other hosts."""
        return kind_of(self.queries, self.apart), self.answers.key

    @property
    def query(self) -> candidate.CandidateQuery:
        """Nova's first query by its newest release."""
        return self.queries[0][0]

    @property
    def key(self) -> str:
        """Its name in a placement: a consumer may have allocations on several hosts."""
        return f"{self.uuid} {self.root_uuid}"

    @property
    def size(self) -> tuple[int, str]:
        """All its amounts together, for an order of servers that never depends on nova's."""
        return sum(sum(amounts.values()) for amounts in self.allocations.values()), self.key


def servers_on(
    base: state.CloudState,
    roots: Iterable[str],
    cases: Mapping[str, Case] | None = None,
    groups: Mapping[str, GroupMembers] | None = None,
    migrations: Collection[str] = (),
) -> list[PlacedServer]:
    """The servers of hosts, without the consumers that hold allocations for a migration.

    ``cases`` are those of servers: nova's requests count. ``groups`` are nova's server groups with
    affinity or anti-affinity. ``migrations`` are the UUIDs of migrations, see ``is_migration``.
    """
    of_server = cases or {}
    group_of = {
        uuid: members.group for members in (groups or {}).values() for uuid in members.group.members
    }
    placed = []
    for root in roots:
        for uuid in sorted(consumers_on(base, root)):
            consumer = base.consumers[uuid]
            if is_migration(consumer, migrations):
                continue
            own = _own_allocations(base, root, consumer.allocations)
            case = of_server.get(uuid)
            queries = (
                queries_of(case) if case and case.requests else ((query_of(base, root, own),),)
            )
            group = group_of.get(uuid)
            apart = group.uuid if group and group.policy == "anti-affinity" else ""
            together = group.uuid if group and not apart else ""
            placed.append(PlacedServer(uuid, root, own, queries, apart, together))
    return placed


def queries_of(case: Case) -> Queries:
    """Nova's queries for a case, by release; without limits."""
    return tuple(
        tuple(dataclasses.replace(query, limit=None) for query in single.queries)
        for single in case.requests
    )


def consumers_on(base: state.CloudState, root: str) -> Iterable[str]:
    """The UUIDs of the consumers with allocations in the tree of a host."""
    return dict.fromkeys(
        consumer for uuid in base.tree[root] for consumer in base.consumers_of[uuid]
    )


def is_migration(consumer: record.ConsumerRecord, migrations: Collection[str]) -> bool:
    """Whether a consumer holds allocations for a migration.

    Nova itself sets no consumer type, so ``migrations`` are those that nova lists.
    """
    return consumer.consumer_type == allocation.MIGRATION or consumer.uuid in migrations


def _own_allocations(
    base: state.CloudState, root: str, allocations: allocation.Allocations
) -> allocation.Allocations:
    return {
        uuid: resources
        for uuid, resources in allocations.items()
        if uuid in base.tree[root] or standard.SHARING_TRAIT in base.providers[uuid].traits
    }


def query_of(
    base: state.CloudState, root: str, allocations: allocation.Allocations
) -> candidate.CandidateQuery:
    """The request for the same amounts on another host, where nova was not read.

    The amounts of the root and of sharing providers are requested without a suffix, so that any
    provider of a host may supply them; those of each other provider together from one provider.
    """
    unsuffixed: dict[str, int] = {}
    groups = []
    # The sources of allocations have them in different orders.
    for uuid, resources in sorted(allocations.items(), key=lambda it: (it[0] != root, it[0])):
        may_split = uuid == root or uuid not in base.tree[root]
        if may_split and unsuffixed.keys().isdisjoint(resources):
            unsuffixed |= resources
        else:
            groups.append(dict(sorted(resources.items())))
    numbered = [
        candidate.RequestGroup(str(number), group)
        for number, group in enumerate(sorted(groups, key=lambda group: sorted(group.items())), 1)
    ]
    first = [candidate.RequestGroup("", dict(sorted(unsuffixed.items())))] if unsuffixed else []
    return candidate.CandidateQuery((*first, *numbered), root_forbidden=frozenset({DISABLED}))


def kind_of(queries: Queries, apart: str = "") -> Hashable:
    """Equal for requests with equal queries and server groups."""
    return tuple(tuple(map(_kind, several)) for several in queries), apart


def _kind(query: candidate.CandidateQuery) -> Hashable:
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


def roots_named(
    base: state.CloudState,
    texts: Iterable[str],
    compute: ServerHosts,
    before: Collection[str] = (),
) -> list[str]:
    """The root UUIDs of hosts by nova's name, or by the name or UUID of a provider.

    Hosts that a former plan named ``before`` may be gone. Errors: UnknownProvider.
    """
    texts = [it for it in texts if it not in before or compute.root_of(it) or _uuid(base, it)]

    def find(names: Sequence[str]) -> dict[str, str]:
        return {text: uuid for text in names if (uuid := _uuid(base, text))}

    uuids = selector.host_uuids(find, texts, compute.hosts, compute.why_no_names)
    roots = (base.providers[uuid].root_uuid for several in uuids.values() for uuid in several)
    return list(dict.fromkeys(roots))


def chosen_roots(
    base: state.CloudState,
    texts: Iterable[str],
    aggregates: Mapping[str, Iterable[str]],
    hosts: Collection[str],
    compute: ServerHosts,
) -> list[str]:
    """The root UUIDs of hosts as in ``roots_named``, and of the hosts in aggregates.

    ``aggregates`` is ``{aggregate: UUIDs of its members}``; ``hosts`` are the roots of all hosts.
    Errors: UnknownProvider; PlacementError for an aggregate without hosts.
    """
    selected = roots_named(base, texts, compute)
    for aggregate, members in aggregates.items():
        roots = {base.providers[uuid].root_uuid for uuid in members if uuid in base.providers}
        if roots.isdisjoint(hosts):
            raise errors.PlacementError(f"aggregate {aggregate} has no hosts")
        selected += sorted(roots.intersection(hosts), key=lambda root: base.providers[root].name)
    return list(dict.fromkeys(selected))


def _uuid(base: state.CloudState, text: str) -> str:
    if name.is_uuid(text) and name.canonical_uuid(text) in base.providers:
        return name.canonical_uuid(text)
    return base.named.get(text, "")
