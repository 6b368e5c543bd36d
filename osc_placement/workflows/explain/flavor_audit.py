# SPDX-License-Identifier: Apache-2.0
"""The audit of flavors: one candidates query of nova for each."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Self

from osc_placement import errors
from osc_placement.client import api, api_errors, responses
from osc_placement.client.query import candidate_pairs
from osc_placement.engine import state
from osc_placement.model import candidate, constraint
from osc_placement.nova import flavors
from osc_placement.nova.api import Nova, host_aggregates
from osc_placement.nova.device_profiles import DeviceProfiles
from osc_placement.nova.values import HostAggregate
from osc_placement.scheduling import nova_options, request
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_request, observe, selector, source, wide
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.cloud.problem import ProblemCode, Severity


class FlavorCode(enum.StrEnum):
    """What the audit finds about a flavor; findings have a severity and a meaning."""

    severity: Severity
    meaning: str

    def __new__(cls, value: str, severity: Severity = Severity.OK, meaning: str = "") -> Self:
        self = str.__new__(cls, value)
        self._value_, self.severity, self.meaning = value, severity, meaning
        return self

    @property
    def problem(self) -> ProblemCode:
        """The code in health, where codes of all audits are together."""
        return ProblemCode(f"flavor-{self}", self.severity, self.meaning)

    OK = "ok"
    INVALID = ("invalid", Severity.ERROR, "Nova or Placement refuses the flavor.")
    UNKNOWN_FLAVOR = ("unknown-flavor", Severity.ERROR, "Nova does not have the flavor.")
    UNKNOWN_NAME = (
        "unknown-name",
        Severity.ERROR,
        "The flavor names a trait or resource class that does not exist: no server of it starts.",
    )
    NO_HOST = ("no-host", Severity.ERROR, "No host can serve the flavor, not even an empty one.")
    #: Placement has hosts for it, but nova places no server on any of them.
    OUT_OF_SERVICE = (
        "out-of-service",
        Severity.ERROR,
        "All hosts that could serve the flavor are down or disabled.",
    )
    FULL = ("full", Severity.WARNING, "No host has room for the flavor now.")
    ONE_HOST = ("one-host", Severity.WARNING, "One host only can serve the flavor.")
    #: Hosts can serve the query, but nova also checks what Placement does not have or not answer.
    UNKNOWN = "unknown"
    #: Placement returns only some of the candidates.
    MANY_CANDIDATES = (
        "many-candidates",
        Severity.WARNING,
        "Nova may not see all hosts for the flavor.",
    )


#: Hosts that are read only to count those that could serve a flavor if nothing were allocated.
_MOST_READ = 20


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedFlavor:
    """A flavor, and on how many hosts it can start.

    ``is_bound``: Placement returns not all candidates, so that nova may see fewer hosts.
    ``empty_hosts`` is the number without any allocation, None for a flavor without a valid query;
    ``empty_hosts_at_most`` is larger if the max_unit of some full hosts was not read.
    ``reason`` explains the code. ``releases`` are the releases of nova that send the query; empty
    for a flavor that all refuse. ``condition`` is when they do, if that is not known.
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
    caveats: Caveats = dataclasses.field(default_factory=Caveats)
    releases: tuple[int, ...] = ()
    condition: str = ""


#: The codes that are no finding.
NO_FINDING = frozenset({FlavorCode.OK, FlavorCode.UNKNOWN})

#: How Placement begins the names of traits that it does not have.
_NO_SUCH_TRAIT = "No such trait"


def audit(
    client: api.Client,
    nova: Nova,
    names: Sequence[str],
    options: nova_options.SchedulerOptions,
    context: ReadContext,
    compute: ServerHosts | None = None,
) -> list[AuditedFlavor]:
    """Audit the flavors with these names or IDs, by name; all flavors without any.

    A flavor has several results if the releases of nova that this nova may be send different
    queries. ``compute`` decides which hosts take a server.

    Requests: those of ``nova_request.observe_rules``; to nova one per 1000 flavors and one for host
    aggregates, to Cyborg one if a flavor has a device profile, to Placement one per query, and one
    listing of traits if a flavor without candidates names any; on a service also those of
    ``wide.Wide`` for the flavors that Placement accepts, and of ``_read_undecided``.
    Errors: InvalidInput if nova has none of the flavors.
    """
    listed = flavors.flavors(nova)
    unknown = flavors.unknown(listed, names)
    if names and len(unknown) == len({*names}):
        raise errors.InvalidInput(list(unknown.values()))
    named = [text for text in names if text not in unknown]
    chosen = flavors.select(listed, named) if named else listed
    missing = [
        AuditedFlavor("", text, FlavorCode.UNKNOWN_FLAVOR, reason=reason)
        for text, reason in unknown.items()
    ]
    services = compute or ServerHosts()
    rules = nova_request.observe_rules(
        nova, options, functools.partial(nova_request.with_trait, client), services
    )
    needs_aggregates = services.hosts is not None or options.enable_isolated_aggregate_filtering
    aggregates = host_aggregates(nova) if needs_aggregates else ()
    profiles = DeviceProfiles(nova)
    requests = [
        question
        for named in sorted(chosen, key=lambda named: named.name)
        for question in _requests(named, rules, services, aggregates, profiles)
    ]
    asked_of = list(context.each(functools.partial(_ask, client), requests, "auditing flavors"))
    answered = list(_with_unknown_traits(client, asked_of))
    valid = [query for question in answered for query in question.queries]
    if not valid:
        return [*(question.found for question in answered), *missing]
    with source.of(client, context).observed(valid) as cloud:
        _read_undecided(cloud, valid, services)
        base = cloud.base
        empty = base.without_allocations()
        open_trees = set(cloud.open_trees())
        verdicts = HostVerdicts(base, services)
        checked = [_checked(question, base, empty, open_trees, verdicts) for question in answered]
    return [*checked, *missing]


def _capable(
    base: state.CloudState, query: candidate.CandidateQuery, compute: ServerHosts
) -> tuple[list[str], set[str]]:
    """The hosts that may serve a query without any allocation, and those that serve it now.

    Without those that take no server.
    """
    capable = HostSearch(base.without_allocations(), query).hosts()
    refused = compute.refused(capable)
    serving = HostSearch(base, query).hosts()
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
    """A flavor with its case, None if it is refused, and Placement's answers to its queries.

    ``queries`` are those that Placement accepts; an answer is None if it gave none.
    """

    found: AuditedFlavor
    case: Case | None = None
    queries: tuple[candidate.CandidateQuery, ...] = ()
    answers: tuple[responses.Candidates | None, ...] = ()


def _requests(
    named: flavors.NamedFlavor,
    rules: nova_request.Rules,
    compute: ServerHosts,
    aggregates: Sequence[HostAggregate],
    profiles: DeviceProfiles,
) -> Iterator[_Asked]:
    audited = AuditedFlavor(named.id, named.name, FlavorCode.OK)
    spec = request.ServerSpec(named.flavor, named.name, flavor_name=named.name)
    try:
        spec = nova_request.with_profile(spec, profiles)
        for single in request.requests_by_release(spec, aggregates, rules.options, rules.releases):
            yield _Asked(
                dataclasses.replace(
                    audited,
                    caveats=Caveats(assumed=rules.notes) + single.caveats,
                    releases=single.releases,
                    condition=single.condition,
                ),
                Case(
                    Way.BOOT,
                    spec,
                    compute,
                    single.releases,
                    rules.options,
                    requests=[single],
                    aggregates=aggregates,
                ),
                single.queries,
            )
    except errors.InvalidInput as error:
        reason = "; ".join(error.reasons)
        yield _Asked(dataclasses.replace(audited, code=FlavorCode.INVALID, reason=reason))


def _ask(client: api.Client, sent: _Asked) -> _Asked:
    """The flavor with Placement's answers. Requests: one for each query."""
    answers: list[responses.Candidates | None] = []
    for query in sent.queries:
        pairs = candidate_pairs(query)
        try:
            answers.append(client.list_allocation_candidates(pairs))
        except (api_errors.TimedOut, api_errors.TooLarge) as error:
            sent = _unanswered(sent, error)
            answers.append(None)
        except api_errors.ApiError as error:
            if error.status == 504:
                sent = _unanswered(sent, error)
                answers.append(None)
                continue
            if error.status != 400:
                raise
            # Another refusal, as of a conflict, may name traits that exist.
            _, _, unknown = error.detail.partition(_NO_SUCH_TRAIT)
            own = observe.traits(sent.queries).intersection(re.findall(r"\w+", unknown))
            texts = map(selector.requested_trait_message, sorted(own))
            reason = "; ".join(texts) or api_errors.one_line(error.detail)
            refused = dataclasses.replace(sent.found, code=FlavorCode.UNKNOWN_NAME, reason=reason)
            return _Asked(refused)
    return dataclasses.replace(sent, answers=tuple(answers))


def _with_unknown_traits(client: api.Client, answered: Sequence[_Asked]) -> Iterator[_Asked]:
    """Refuse flavors with traits that Placement did not look up because nothing has room.

    Requests: one listing of traits, if a flavor without candidates names any.
    """
    # Placement always looks the traits of the root up.
    groups = {
        id(sent): candidate.CandidateQuery(query.groups)
        for sent in answered
        for query, answer in zip(sent.queries[:1], sent.answers[:1], strict=True)
        if answer and not answer.requests
    }
    unknown = selector.unknown_traits(client, sorted(observe.traits(groups.values())))
    for sent in answered:
        own = observe.traits([groups[id(sent)]]).intersection(unknown) if id(sent) in groups else ()
        reason = "; ".join(map(selector.requested_trait_message, sorted(own)))
        refused = dataclasses.replace(sent.found, code=FlavorCode.UNKNOWN_NAME, reason=reason)
        yield _Asked(refused) if own else sent


def _unanswered(question: _Asked, error: Exception) -> _Asked:
    """A flavor whose query is too much for the service: hosts are counted, candidates are not."""
    text = f"how many candidates Placement returns to nova: {error}"
    caveats = question.found.caveats + Caveats((text,))
    return dataclasses.replace(question, found=dataclasses.replace(question.found, caveats=caveats))


def _checked(
    question: _Asked,
    base: state.CloudState,
    empty: state.CloudState,
    open_trees: Collection[str],
    verdicts: HostVerdicts,
) -> AuditedFlavor:
    """The flavor with its code: what Placement answers, and what nova's filters say."""
    if question.case is None:
        return question.found
    answers = verdicts.of(question.case)
    refused = answers.refused
    serving = {root for query in question.queries for root in HostSearch(base, query).hosts()}
    capable = {root for query in question.queries for root in HostSearch(empty, query).hosts()}
    hosts = serving - refused.keys()
    without = len(capable - refused.keys())
    undecided = set(open_trees).intersection(capable) - serving - refused.keys()
    counts = [len(answer.requests) for answer in question.answers if answer]
    limits = [query.limit for query in question.queries]
    is_bound = any(count in limits for count in counts)
    if not hosts:
        out = capable and not without
        code = FlavorCode.OUT_OF_SERVICE if out else FlavorCode.FULL
        code = code if capable else FlavorCode.NO_HOST
    elif is_bound:
        code = FlavorCode.MANY_CANDIDATES
    else:
        code = FlavorCode.ONE_HOST if len(hosts) == 1 else FlavorCode.OK
    reason = _REASONS.get(code, "").format(limit=limits[0])
    if code is FlavorCode.NO_HOST:
        reason += "".join(f": without {text}, one could" for text in _preventing(question, empty))
    caveats = question.found.caveats
    if hosts <= answers.unknown.keys():
        unknown = (text for root in sorted(hosts) for text in answers.unknown[root])
        caveats += Caveats(tuple(unknown))
    if code is FlavorCode.OK and caveats.doubts:
        code, reason = FlavorCode.UNKNOWN, "; ".join(caveats.doubts)
    # The part of the request that Cyborg knows decides about such a flavor: no fault of the cloud.
    is_partial = bool(question.case.spec.why_no_profile)
    if is_partial and not hosts:
        code, reason = FlavorCode.UNKNOWN, "; ".join(filter(None, (*caveats.doubts, reason)))
    doubts = caveats.doubts if hosts or is_partial else ()
    names = {base.providers[root].name: refused[root] for root in capable & refused.keys()}
    return dataclasses.replace(
        question.found,
        code=code,
        hosts=len(hosts),
        is_bound=is_bound,
        candidates=sum(counts),
        empty_hosts=without - len(undecided),
        empty_hosts_at_most=without,
        reason=reason,
        caveats=dataclasses.replace(caveats, doubts=doubts)
        + Caveats(
            notes=tuple(_bounds(without - len(undecided), without)),
            not_counted=dict(sorted(names.items())),
        ),
    )


def _preventing(question: _Asked, empty: state.CloudState) -> Iterator[str]:
    """The constraints each of which alone keeps every host from serving the flavor, in one text."""
    query = question.queries[0]
    texts = [
        str(part)
        for part in constraint.constraints_of(query)
        if any(HostSearch(empty, constraint.without(query, {part})).hosts())
    ]
    if texts:
        yield " or ".join(texts)


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
