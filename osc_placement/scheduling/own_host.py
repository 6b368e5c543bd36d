# SPDX-License-Identifier: Apache-2.0
"""Whether nova would choose the host on which a server is. Pure.

The queries and the filters are those of the server's case. What changes without the server is no
reason: the service of the host, the servers there, and the devices and CPUs that nova-compute has
claimed for it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement.model.constraint import Kind
from osc_placement.scheduling import filters, request, verdict
from osc_placement.scheduling.case import Case
from osc_placement.scheduling.rule import Host


class Need(enum.StrEnum):
    """What a server needs of its host."""

    TRAIT = "trait"
    ZONE = "zone"
    AGGREGATE = "aggregate"


class UnmetNeed(NamedTuple):
    """Why nova would not choose the host, or which fact is not known (``is_known`` is False)."""

    need: Need
    text: str
    is_known: bool = True


#: ``{trait: the providers (UUIDs) that have it}``.
_HavingTrait = Mapping[str, frozenset[str]]

#: What the state of the host adds to a query, not the server.
_OF_HOST = frozenset({request.STATUS, request.OWNER})


class OwnHosts:
    """Whether nova would choose the hosts of many servers.

    ``having`` has every trait of their queries. The filters answer once for the servers that are
    alike on all hosts with the same profile.
    """

    def __init__(self, having: _HavingTrait) -> None:
        self._having = having
        self._by_filters: dict[Hashable, Sequence[UnmetNeed]] = {}

    def unmet_needs(self, case: Case, host: Host, tree: Collection[str]) -> list[UnmetNeed]:
        """Every reason, none if nova would choose the host.

        ``tree`` are the providers of the host and those that share with it.
        """
        why = case.spec.why_no_image or case.why_no_request
        unread = [UnmetNeed(Need.TRAIT, why, is_known=False)] if why else []
        key = case.kind or case.spec.uuid, host.profile
        if key not in self._by_filters:
            self._by_filters[key] = [*_of_filters(case, host)]
        of_queries = _of_queries(case, host, tree, self._having)
        return [*of_queries, *self._by_filters[key], *unread]


def traits_of(case: Case) -> set[str]:
    """The traits that the queries name."""
    return {
        name
        for single in case.requests
        for sent in filter(None, (single, single.second))
        for constraint, source in sent.sources.items()
        if constraint.kind in _TRAITS and source.step not in _OF_HOST
        for name in constraint.names
    }


_TRAITS = frozenset({Kind.REQUIRED, Kind.ROOT_REQUIRED, Kind.FORBIDDEN, Kind.ROOT_FORBIDDEN})


def _of_queries(
    case: Case, host: Host, tree: Collection[str], having: _HavingTrait
) -> list[UnmetNeed]:
    """Why the host is in the answer of none of nova's queries.

    The requests are those of several releases: a refusal of only some of them is not certain.
    """
    by_request: list[list[UnmetNeed]] = []
    for single in case.requests:
        sent = [query for query in (single, single.second) if query]
        answers = [list(_of_query(query, host, tree, having)) for query in sent]
        by_request.append([] if [] in answers else answers[0])
    refused = next(filter(None, by_request), [])
    if [] not in by_request:
        return refused
    return [query._replace(is_known=False) for query in refused]


def _of_query(
    sent: request.NovaRequest, host: Host, tree: Collection[str], having: _HavingTrait
) -> Iterator[UnmetNeed]:
    lacking = []
    for constraint, source in sent.sources.items():
        if source.step in _OF_HOST:
            continue
        if constraint.kind in (Kind.REQUIRED, Kind.ROOT_REQUIRED):
            if not any(not having[name].isdisjoint(tree) for name in constraint.names):
                lacking.append(" or ".join(constraint.names))
        elif constraint.kind in (Kind.FORBIDDEN, Kind.ROOT_FORBIDDEN):
            if host.uuid in having[constraint.names[0]]:
                yield UnmetNeed(Need.TRAIT, f"it has {constraint.names[0]}, which is forbidden")
        elif source.step == request.ZONE and not any(
            aggregate.uuid in constraint.names for aggregate in host.aggregates
        ):
            yield UnmetNeed(Need.ZONE, f"not in zone {source.origin}")
    if lacking:
        yield UnmetNeed(Need.TRAIT, f"no {', '.join(lacking)}")


def _of_filters(case: Case, host: Host) -> Iterator[UnmetNeed]:
    for rule, is_enabled in verdict.enabled(case):
        if rule.is_always or rule.by_host:
            # The server is there already: it has passed, and is counted itself.
            continue
        says = rule.verdict(case, host)
        # Only this filter reads the scope, so that it is meant to be enabled.
        is_meant = rule.check is filters.extra_specs and _is_scoped(case)
        if says.refused and (is_enabled or is_meant):
            yield UnmetNeed(Need.AGGREGATE, says.text)
        elif says.refused:
            text = f"{rule.name}: nova.conf says whether it is enabled"
            yield UnmetNeed(Need.AGGREGATE, text, is_known=False)
        elif says.unknown and is_enabled:
            yield UnmetNeed(Need.AGGREGATE, f"{rule.name}: {says.text}", is_known=False)


def _is_scoped(case: Case) -> bool:
    specs = case.spec.flavor.extra_specs
    return any(key.startswith(f"{filters.AGGREGATE_SCOPE}:") for key in specs)
