"""The audit of flavors: one candidates query of nova for each."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors, query as queries, responses, retry
from osc_placement.engine import standard
from osc_placement.model import candidate
from osc_placement.nova import api as nova_api, flavors, request
from osc_placement.workflows.cloud import listings, observe
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.flavors import empty_cloud


class Code(enum.StrEnum):
    """What the audit finds about a flavor."""

    OK = "ok"
    #: Nova refuses the flavor, or its query is invalid.
    INVALID = "invalid"
    #: Placement refuses the query: a trait or class does not exist.
    UNKNOWN_NAME = "unknown_name"
    #: No host can serve it, not even without any allocation.
    NO_HOST = "no_host"
    #: A host could serve it if nothing were allocated.
    FULL = "full"
    #: No host can serve it now; whether an empty one could is unknown: of some nothing is free.
    NO_HOST_NOW = "no_host_now"
    ONE_HOST = "one_host"
    #: Placement returns only some of the candidates.
    MANY_CANDIDATES = "many_candidates"


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedFlavor:
    """A flavor, and on how many hosts it can start.

    ``hosts`` is a lower bound if ``is_bound``. ``empty_hosts`` is the number without any
    allocation, None for a flavor without a valid query; on a service it is an upper bound, because
    units of inventories are unknown, without the hosts of which nothing is free. ``reason``
    explains the code. ``assumptions`` are sentences about what nova's query was assumed to be.
    """

    id: str
    name: str
    code: Code
    hosts: int = 0
    is_bound: bool = False
    candidates: int = 0
    empty_hosts: int | None = None
    reason: str = ""
    assumptions: tuple[str, ...] = ()


def audit(
    client: api.Client,
    nova: nova_api.Nova,
    names: Sequence[str],
    options: request.SchedulerOptions,
    context: ReadContext,
) -> list[AuditedFlavor]:
    """Audit the flavors with these names or IDs; all flavors without any.

    Requests: to nova one per 1000 flavors, to Placement one per flavor; on a service also those of
    ``empty_cloud.read``.
    Errors: InvalidInput for an unknown flavor.
    """
    known = flavors.flavors(nova)
    chosen = flavors.select(known, names) if names else known
    requests = [_request(named, options) for named in chosen]
    valid = [each.query for each in requests if each.query is not None]
    observe.read_part(client, valid)
    answered = list(context.each(functools.partial(_ask, client), requests, "auditing flavors"))
    with observe.whole_state(client) as base:
        empty = None
        if base is not None:
            empty = empty_cloud.of_state(base)
        elif any(each.answer for each in answered):
            empty = empty_cloud.read(client, _classes(answered), context)
        return [_judged(each, empty) for each in answered]


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """A flavor with its query and Placement's answer; None if it is refused."""

    found: AuditedFlavor
    query: candidate.CandidateQuery | None = None
    answer: responses.Candidates | None = None


def _request(named: flavors.NamedFlavor, options: request.SchedulerOptions) -> _Asked:
    found = AuditedFlavor(named.id, named.name, Code.OK)
    spec = request.ServerSpec(named.flavor, named.name)
    try:
        read = request.request_to_placement(spec, (), options)
        return _Asked(dataclasses.replace(found, assumptions=read.assumptions), read.query)
    except errors.InvalidInput as error:
        reason = "; ".join(error.reasons)
        return _Asked(dataclasses.replace(found, code=Code.INVALID, reason=reason))


def _ask(client: api.Client, asked: _Asked) -> _Asked:
    if asked.query is None:
        return asked
    pairs = queries.candidate_pairs(asked.query)
    try:
        answer = retry.read(lambda: client.list_allocation_candidates(pairs))
    except api_errors.ApiError as error:
        if error.status != 400:
            raise
        refused = dataclasses.replace(asked.found, code=Code.UNKNOWN_NAME, reason=error.detail)
        return _Asked(refused)
    return dataclasses.replace(asked, answer=answer)


def _classes(answered: Iterable[_Asked]) -> list[str]:
    """The resource classes of the queries that Placement accepts."""
    return sorted(
        {
            name
            for each in answered
            if each.answer and each.query
            for name in listings.resource_classes(each.query)
        }
    )


def _judged(asked: _Asked, empty: empty_cloud.EmptyCloud | None) -> AuditedFlavor:
    query, answer = asked.query, asked.answer
    if query is None or answer is None or empty is None:
        return asked.found
    hosts = len(_hosts(answer))
    is_bound = len(answer.requests) == query.limit
    without = len(HostSearch(empty.state, query).serving())
    reasons = _REASONS
    if hosts == 0:
        code = Code.FULL if without else Code.NO_HOST_NOW if empty.unseen else Code.NO_HOST
        reasons = _REASONS if empty.has_units else {**_REASONS, **_REASONS_OF_A_SERVICE}
    elif is_bound:
        code = Code.MANY_CANDIDATES
    else:
        code = Code.ONE_HOST if hosts == 1 else Code.OK
    return dataclasses.replace(
        asked.found,
        code=code,
        hosts=hosts,
        is_bound=is_bound,
        candidates=len(answer.requests),
        empty_hosts=max(without, hosts),
        reason=reasons.get(code, "").format(limit=query.limit, unseen=empty.unseen),
    )


_REASONS: Mapping[Code, str] = {
    Code.NO_HOST: "no host could serve it, not even without any allocation",
    Code.FULL: "a host could serve it without the present allocations",
    Code.NO_HOST_NOW: "no host can serve it now; {unseen} hosts have nothing free, so that their"
    " capacity is unknown",
    Code.ONE_HOST: "only one host can serve it",
    Code.MANY_CANDIDATES: "Placement returns {limit} candidates (max_placement_results): nova may"
    " not see all hosts",
}


_REASONS_OF_A_SERVICE: Mapping[Code, str] = {
    Code.FULL: "a host could serve it without the present allocations, unless its min_unit,"
    " max_unit or step_size prevents it",
}


def _hosts(answer: responses.Candidates) -> set[str]:
    """The roots of the trees of which candidates take something, without sharing providers."""
    shares = {
        uuid
        for uuid, summary in answer.summaries.items()
        if standard.SHARING_TRAIT in (summary.traits or ())
    }
    return {
        answer.summaries[uuid].root_uuid or uuid
        for each in answer.requests
        for uuid in (each.allocations.keys() - shares or each.allocations)
    }
