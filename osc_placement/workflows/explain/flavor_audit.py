# SPDX-License-Identifier: Apache-2.0
"""The audit of flavors: one candidates query of nova for each."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors, responses, retry
from osc_placement.client.query import candidate_pairs
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.nova import flavors
from osc_placement.nova.api import Nova
from osc_placement.scheduling import filters, request
from osc_placement.workflows.cloud import nova_request, observe, selector, wide
from osc_placement.workflows.cloud.compute_nodes import ServerHosts
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import HostSearch


class FlavorCode(enum.StrEnum):
    """What the audit finds about a flavor."""

    OK = "ok"
    #: Nova refuses the flavor, or its query is invalid.
    INVALID = "invalid"
    #: Nova has no flavor with this name or ID.
    UNKNOWN_FLAVOR = "unknown-flavor"
    #: Placement refuses the query: a trait or class does not exist.
    UNKNOWN_NAME = "unknown-name"
    #: No host can serve it, not even without any allocation.
    NO_HOST = "no-host"
    #: Placement has hosts for it, but nova places no server on any of them.
    OUT_OF_SERVICE = "out-of-service"
    #: A host could serve it if nothing were allocated.
    FULL = "full"
    ONE_HOST = "one-host"
    #: Hosts can serve the query, but nova also checks what Placement does not have or not answer.
    UNKNOWN = "unknown"
    #: Placement returns only some of the candidates.
    MANY_CANDIDATES = "many-candidates"


#: Hosts that are read only to count those that could serve a flavor if nothing were allocated.
_MOST_READ = 20


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedFlavor:
    """A flavor, and on how many hosts it can start.

    ``is_bound``: Placement returns not all candidates, so that nova may see fewer hosts.
    ``empty_hosts`` is the number without any allocation, None for a flavor without a valid query;
    ``empty_hosts_at_most`` is larger if the max_unit of some full hosts was not read.
    ``reason`` explains the code. ``assumptions`` are sentences about what nova's query was assumed
    to be; ``not_checked`` about what nova also checks; ``notes`` about what the flavor alone leaves
    open. ``releases`` are the releases of nova that
    send the query; empty for a flavor that all refuse. ``condition`` is when they do, if that is
    not known. ``not_counted`` is ``{host: why it takes no server}`` for the hosts that Placement
    would use.
    """

    id: str
    name: str
    code: FlavorCode
    hosts: int = 0
    is_bound: bool = False
    candidates: int = 0
    empty_hosts: int | None = None
    empty_hosts_at_most: int | None = None
    reason: str = ""
    assumptions: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    releases: tuple[int, ...] = ()
    condition: str = ""
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)


#: The codes that are no finding.
NO_FINDING = frozenset({FlavorCode.OK, FlavorCode.UNKNOWN})


def audit(
    client: api.Client,
    nova: Nova,
    names: Sequence[str],
    options: request.SchedulerOptions,
    context: ReadContext,
    compute: ServerHosts | None = None,
) -> list[AuditedFlavor]:
    """Audit the flavors with these names or IDs, by name; all flavors without any.

    A flavor has several results if the releases of nova that this nova may be send different
    queries. ``compute`` decides which hosts take a server.

    Requests: those of ``nova_request.observe_rules``; to nova one per 1000 flavors, to Placement
    one per flavor, and one listing of traits if a flavor without candidates names any; on a service
    also those of ``wide.read`` for the flavors that Placement accepts,
    and of ``_read_undecided``.
    Errors: InvalidInput if nova has none of the flavors.
    """
    known = flavors.flavors(nova)
    unknown = flavors.unknown(known, names)
    if names and len(unknown) == len({*names}):
        raise errors.InvalidInput(list(unknown.values()))
    named = [text for text in names if text not in unknown]
    chosen = flavors.select(known, named) if named else known
    missing = [
        AuditedFlavor("", text, FlavorCode.UNKNOWN_FLAVOR, reason=reason)
        for text, reason in unknown.items()
    ]
    rules = nova_request.observe_rules(
        nova, options, functools.partial(nova_request.has_owner, client)
    )
    requests = [
        asked
        for named in sorted(chosen, key=lambda named: named.name)
        for asked in _requests(named, rules)
    ]
    asked_of = list(context.each(functools.partial(_ask, client), requests, "auditing flavors"))
    answered = list(_with_unknown_traits(client, asked_of))
    valid = [each.query for each in answered if each.query is not None]
    if not valid:
        return [*(each.found for each in answered), *missing]
    with wide.observed(client, valid, context) as cloud:
        _read_undecided(cloud, valid, compute or ServerHosts())
        base = cloud.base
        empty = base.without_allocations()
        open_trees = set(cloud.open_trees())
        judged = [
            _judged(each, base, empty, open_trees, compute or ServerHosts()) for each in answered
        ]
    return [*judged, *missing]


def _capable(
    base: state.CloudState, query: candidate.CandidateQuery, compute: ServerHosts
) -> tuple[list[str], set[str]]:
    """The hosts that may serve a query without any allocation, and those that serve it now.

    Without those that take no server.
    """
    capable = HostSearch(base.without_allocations(), query).serving()
    refused = compute.refused(capable)
    serving = HostSearch(base, query).serving()
    return [root for root in capable if root not in refused], set(serving) - refused.keys()


def _read_undecided(
    cloud: wide.ObservedCloud, queries: Sequence[candidate.CandidateQuery], compute: ServerHosts
) -> None:
    """Read hosts of which only their max_unit decides whether they could serve a query if empty.

    All of them if they are few. Otherwise so many that one host is certain, or none is left, for
    each query that no host serves now. Requests: those of ``ObservedCloud.refine``.
    """
    open_trees = set(cloud.open_trees())
    if not open_trees:
        return
    undecided = dict[str, None]()
    for query in queries:
        capable, serving = _capable(cloud.base, query, compute)
        undecided |= dict.fromkeys(
            root for root in capable if root in open_trees and root not in serving
        )
    if len(undecided) <= _MOST_READ:
        cloud.refine([*undecided])
        return
    for query in queries:
        for count in (1, 2, None):
            open_trees = set(cloud.open_trees())
            capable, serving = _capable(cloud.base, query, compute)
            left = [root for root in capable if root in open_trees]
            if serving or len(left) < len(capable) or not left:
                break
            cloud.refine(left[:count])


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """A flavor with its query, None if it is refused, and Placement's answer, None without one."""

    found: AuditedFlavor
    query: candidate.CandidateQuery | None = None
    answer: responses.Candidates | None = None


def _requests(named: flavors.NamedFlavor, rules: nova_request.Rules) -> Iterator[_Asked]:
    found = AuditedFlavor(named.id, named.name, FlavorCode.OK)
    spec = request.ServerSpec(named.flavor, named.name)
    try:
        for single in request.requests_by_release(spec, (), rules.options, rules.releases):
            yield _Asked(
                dataclasses.replace(
                    found,
                    assumptions=(*rules.notes, *single.assumptions),
                    not_checked=(*single.not_checked, *hidden(spec)),
                    notes=single.notes,
                    releases=single.releases,
                    condition=single.condition,
                ),
                single.query,
            )
    except errors.InvalidInput as error:
        reason = "; ".join(error.reasons)
        yield _Asked(dataclasses.replace(found, code=FlavorCode.INVALID, reason=reason))


def hidden(spec: request.ServerSpec) -> Iterator[str]:
    """What nova compares with data of hosts that its API does not show."""
    for name in ("NUMATopologyFilter", "ComputeCapabilitiesFilter"):
        compares, data = filters.HIDDEN[name]
        compared = compares(spec, ())
        if compared:
            yield f"{compared}: nova does not show {data}"


def _ask(client: api.Client, asked: _Asked) -> _Asked:
    if asked.query is None:
        return asked
    pairs = candidate_pairs(asked.query)
    try:
        answer = retry.read(lambda: client.list_allocation_candidates(pairs))
    except (api_errors.TimedOut, api_errors.TooLarge) as error:
        return _unanswered(asked, error)
    except api_errors.ApiError as error:
        if error.status == 504:
            return _unanswered(asked, error)
        if error.status != 400:
            raise
        reason = api_errors.one_line(error.detail)
        refused = dataclasses.replace(asked.found, code=FlavorCode.UNKNOWN_NAME, reason=reason)
        return _Asked(refused)
    return dataclasses.replace(asked, answer=answer)


def _with_unknown_traits(client: api.Client, answered: Sequence[_Asked]) -> Iterator[_Asked]:
    """Refuse flavors with traits that Placement did not look up because nothing has room.

    Requests: one listing of traits, if a flavor without candidates names any.
    """
    # Placement always looks the traits of the root up.
    groups = {
        id(each): candidate.CandidateQuery(each.query.groups)
        for each in answered
        if each.query and each.answer and not each.answer.requests
    }
    unknown = selector.unknown_traits(client, sorted(observe.traits(groups.values())))
    for each in answered:
        own = observe.traits([groups[id(each)]]).intersection(unknown) if id(each) in groups else ()
        reason = "; ".join(map(selector.unknown_trait_message, sorted(own)))
        refused = dataclasses.replace(each.found, code=FlavorCode.UNKNOWN_NAME, reason=reason)
        yield _Asked(refused) if own else each


def _unanswered(asked: _Asked, error: Exception) -> _Asked:
    """A flavor whose query is too much for the service: hosts are counted, candidates are not."""
    text = f"how many candidates Placement returns to nova: {error}"
    not_checked = (*asked.found.not_checked, text)
    return dataclasses.replace(
        asked, found=dataclasses.replace(asked.found, not_checked=not_checked)
    )


def _judged(
    asked: _Asked,
    base: state.CloudState,
    empty: state.CloudState,
    open_trees: Collection[str],
    compute: ServerHosts,
) -> AuditedFlavor:
    query = asked.query
    if query is None:
        return asked.found
    candidates = len(asked.answer.requests) if asked.answer else 0
    serving = HostSearch(base, query).serving()
    refused = compute.refused(serving)
    hosts = len(serving) - len(refused)
    is_bound = candidates == query.limit
    capable = HostSearch(empty, query).serving()
    refused_empty = compute.refused(capable)
    without = len(capable) - len(refused_empty)
    undecided = set(open_trees).intersection(capable) - set(serving) - refused_empty.keys()
    if hosts == 0 and capable and not without:
        code = FlavorCode.OUT_OF_SERVICE
    elif hosts == 0:
        code = FlavorCode.FULL if without else FlavorCode.NO_HOST
    elif is_bound:
        code = FlavorCode.MANY_CANDIDATES
    else:
        code = FlavorCode.ONE_HOST if hosts == 1 else FlavorCode.OK
    reason = _REASONS.get(code, "").format(limit=query.limit)
    if code is FlavorCode.OK and asked.found.not_checked:
        code, reason = FlavorCode.UNKNOWN, "; ".join(asked.found.not_checked)
    return dataclasses.replace(
        asked.found,
        code=code,
        hosts=hosts,
        is_bound=is_bound,
        candidates=candidates,
        empty_hosts=without - len(undecided),
        empty_hosts_at_most=without,
        notes=(*asked.found.notes, *_bounds(without - len(undecided), without)),
        reason=reason,
        not_counted={
            base.providers[root].name: why for root, why in {**refused_empty, **refused}.items()
        },
    )


def _bounds(least: int, most: int) -> Iterator[str]:
    if least < most:
        yield (
            f"hosts_if_empty is {least} to {most}: the max_unit of full hosts was not read; a"
            " snapshot has it"
        )


_REASONS: Mapping[FlavorCode, str] = {
    FlavorCode.NO_HOST: "no host could serve it, not even without any allocation",
    FlavorCode.OUT_OF_SERVICE: "nova places no server on any host that could serve it",
    FlavorCode.FULL: "a host could serve it without the present allocations",
    FlavorCode.ONE_HOST: "only one host can serve it",
    FlavorCode.MANY_CANDIDATES: "Placement returns {limit} candidates (max_placement_results): nova"
    " may not see all hosts",
}
