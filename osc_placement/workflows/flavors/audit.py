"""The audit of flavors: one candidates query of nova for each."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors, query as queries, responses, retry
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate
from osc_placement.nova import api as nova_api, flavors, request, scheduler_options
from osc_placement.plan import workers
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.context import ReadContext


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
    #: No host can serve it now; whether an empty one could is unknown.
    NO_HOST_NOW = "no_host_now"
    ONE_HOST = "one_host"
    #: Placement returns only some of the candidates.
    MANY_CANDIDATES = "many_candidates"


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedFlavor:
    """A flavor, and on how many hosts it can start.

    ``hosts`` is a lower bound if ``is_bound``. ``empty_hosts`` is the number without any
    allocation; None on a service, whose API does not tell it. ``reason`` explains the code.
    """

    id: str
    name: str
    code: Code
    hosts: int = 0
    is_bound: bool = False
    candidates: int = 0
    empty_hosts: int | None = None
    reason: str = ""


def audit(
    client: api.Client,
    nova: nova_api.Nova,
    names: Sequence[str],
    options: scheduler_options.SchedulerOptions,
    context: ReadContext,
) -> list[AuditedFlavor]:
    """Audit the flavors with these names or IDs; all flavors without any.

    Requests: to nova one per 1000 flavors, to Placement one per flavor.
    Errors: InvalidInput for an unknown flavor.
    """
    known = flavors.flavors(nova)
    chosen = flavors.select(known, names) if names else known
    with observe.whole_state(client) as base:
        empty = None if base is None else _without_allocations(base)
        audit_one = functools.partial(_audit_one, client, options, empty)
        context.progress.start("auditing flavors", len(chosen))
        found = []
        for each in workers.each(audit_one, chosen, context.workers):
            context.progress.advance()
            found.append(each)
        return found


def _without_allocations(base: state.State) -> state.State:
    """The same cloud with nothing allocated."""
    empty = state.State()
    empty.apply(
        record.Changes(
            dict(base.providers),
            traits=dict(base.traits),
            resource_classes=dict(base.resource_classes),
        )
    )
    return empty


def _audit_one(
    client: api.Client,
    options: scheduler_options.SchedulerOptions,
    empty: state.State | None,
    named: flavors.NamedFlavor,
) -> AuditedFlavor:
    found = AuditedFlavor(named.id, named.name, Code.OK)
    spec = request.ServerSpec(named.flavor, named.name)
    try:
        query = request.request_to_placement(spec, (), options).query
    except errors.InvalidInput as error:
        return dataclasses.replace(found, code=Code.INVALID, reason="; ".join(error.reasons))
    pairs = queries.candidate_pairs(query)
    try:
        answer = retry.read(lambda: client.list_allocation_candidates(pairs))
    except api_errors.ApiError as error:
        if error.status != 400:
            raise
        return dataclasses.replace(found, code=Code.UNKNOWN_NAME, reason=error.detail)
    return _judged(found, query, answer, empty)


def _judged(
    found: AuditedFlavor,
    query: candidate.CandidateQuery,
    answer: responses.Candidates,
    empty: state.State | None,
) -> AuditedFlavor:
    hosts = len(_hosts(answer))
    is_bound = len(answer.requests) == query.limit
    without = None if empty is None else len(HostSearch(empty, query).serving())
    if hosts == 0:
        code = {None: Code.NO_HOST_NOW, 0: Code.NO_HOST}.get(without, Code.FULL)
    elif is_bound:
        code = Code.MANY_CANDIDATES
    else:
        code = Code.ONE_HOST if hosts == 1 else Code.OK
    return dataclasses.replace(
        found,
        code=code,
        hosts=hosts,
        is_bound=is_bound,
        candidates=len(answer.requests),
        empty_hosts=without,
        reason=_REASONS.get(code, "").format(limit=query.limit),
    )


_REASONS: Mapping[Code, str] = {
    Code.NO_HOST: "no host could serve it, not even without any allocation",
    Code.FULL: "a host could serve it without the present allocations",
    Code.NO_HOST_NOW: "no host can serve it now",
    Code.ONE_HOST: "only one host can serve it",
    Code.MANY_CANDIDATES: "Placement returns {limit} candidates (max_placement_results): nova may"
    " not see all hosts",
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
