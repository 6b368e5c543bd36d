# SPDX-License-Identifier: Apache-2.0
"""The explanation of a query: read the cloud, then check its hosts."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api, api_errors, lookup, responses
from osc_placement.client.query import candidate_pairs
from osc_placement.engine import standard, state
from osc_placement.engine.candidates.report import RefusalReason
from osc_placement.model import candidate
from osc_placement.model.constraint import Constraint
from osc_placement.model.name import and_more, counted
from osc_placement.nova.flavor import EXTRA_SPECS, FLAVOR
from osc_placement.nova.values import HostAggregate
from osc_placement.scheduling import verdict
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.request import NovaRequest
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import observe, selector, source, wide
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import changes, failures, overwritten_by_nova
from osc_placement.workflows.explain.changes import Action, SmallestChange, Step
from osc_placement.workflows.explain.failures import Failure, FunnelStep, ShortProvider
from osc_placement.workflows.explain.relaxations import Relaxations

LOG = logging.getLogger(__name__)

#: Why a host with room is no candidate.
LOST = "it has room, but Placement returns no candidate for this request"

#: Times that an explanation is worked out before every inventory is read.
_MOST_ROUNDS = 12


@dataclasses.dataclass(frozen=True, slots=True)
class ExplainedQuery:
    """A query, and the hosts to explain: those named, or ``nearest`` ones if none can serve it.

    ``order`` are the constraints of the query in the order of the funnel. ``parameters`` is the
    query as the operator gave it, which Placement checks; empty if only ``query`` is known.
    ``nova`` is nova's request, if it is one, and ``case`` what it is for.
    """

    query: candidate.CandidateQuery
    order: Sequence[Constraint]
    hosts: Sequence[str] = ()
    nearest: int = changes.NEAREST
    parameters: Sequence[tuple[str, str]] = ()
    nova: NovaRequest | None = None
    case: Case | None = None


class OtherQuery(NamedTuple):
    """The query for pinned CPUs that nova sends too, and that is not the explained one."""

    sent: NovaRequest
    candidates: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query has the candidates that it has.

    ``all_hosts`` is the number of hosts of the request, see ``_hosts_of``, and of other trees that
    can serve it; ``candidates`` are the names of the hosts that can serve the query;
    ``explained`` are the names of the explained hosts, ``named`` those of ``{named provider: its
    host}``. ``refused`` is the number of changes that the model found, and that were not proved:
    Placement has no candidate for the changed query or answers with an error, or it ``may_lose``
    candidates of this query; they are left out.
    ``checks`` is what the filters of nova say about the hosts that can serve the query in
    Placement; ``not_counted`` is ``{host: why nova refuses it, or LOST}`` for those that are no
    candidates therefore, and for explained hosts. ``nova_hosts`` is ``{name of a root provider:
    nova's name of the host}``, ``short`` are the providers that have too little left,
    ``uuids`` is ``{name of a candidate or a provider of a step: its UUID}``, ``hints`` are
    sentences about hosts that offer other classes. ``cause`` is why Placement refuses a request of
    nova, which is not explained further: nova finds no host then. ``causes`` are the constraints
    without which a host could serve the query, if Placement has no host that it could be. ``other``
    is nova's other query for pinned CPUs; its hosts are among the candidates.
    """

    all_hosts: int
    funnel: tuple[FunnelStep, ...]
    candidates: tuple[str, ...]
    explained: tuple[str, ...]
    named: Mapping[str, str]
    failures: tuple[Failure, ...]
    changes: tuple[SmallestChange, ...]
    refused: int = 0
    may_lose: bool = False
    cause: str = ""
    checks: tuple[verdict.RuleCheck, ...] = ()
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)
    nova_hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    short: tuple[ShortProvider, ...] = ()
    uuids: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hints: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    other: OtherQuery | None = None

    @property
    def open(self) -> Caveats:
        """Why more hosts may be refused."""
        return verdict.not_checked(self.checks, self.candidates)


def explain(
    client: api.Client,
    requests: Sequence[ExplainedQuery],
    context: ReadContext,
    compute: ServerHosts | None = None,
    aggregates: Sequence[HostAggregate] = (),
) -> list[Explanation]:
    """Explain queries; the cloud is read once for all of them.

    ``compute`` decides which hosts take a server; ``aggregates`` are nova's. Of a query without a
    case only the compute services are checked.

    Requests: one for each query, which checks it, and one for the traits of those without
    candidates; those of ``lookup.find_providers`` for named hosts; on a service also those of
    ``wide.Wide`` for all queries together and of ``refine`` for the explained hosts and the changes
    of the query, and one to prove each of these changes.
    Errors: ApiError as Placement refuses a query that is not nova's; InvalidInput for traits that
    Placement does not have; UnknownProvider.
    """
    compute = compute or ServerHosts()
    answered = _have_candidates(client, requests)
    valid = [
        (request, answer)
        for request, answer in zip(requests, answered, strict=True)
        if isinstance(answer, bool)
    ]
    explained = iter(_explain_valid(client, valid, context, compute, aggregates))
    return [
        Explanation(0, (), (), (), {}, (), (), cause=answer)
        if isinstance(answer, str)
        else next(explained)
        for answer in answered
    ]


def united(
    requests: Sequence[ExplainedQuery], answers: Sequence[Explanation]
) -> tuple[list[ExplainedQuery], list[Explanation]]:
    """The queries and answers, each of nova's requests with the hosts of its second query.

    Nova takes the hosts of both. Where only the second one has hosts, it is the one to explain.
    """
    queries: list[ExplainedQuery] = []
    kept: list[Explanation] = []
    for query, answer in zip(requests, answers, strict=True):
        first = queries[-1].nova if queries else None
        if first is None or query.nova is None or first.second is not query.nova:
            queries.append(query)
            kept.append(answer)
        elif answer.candidates and not kept[-1].candidates:
            queries[-1] = dataclasses.replace(
                query, hosts=queries[-1].hosts, nearest=queries[-1].nearest
            )
            kept[-1] = dataclasses.replace(answer, other=OtherQuery(first, ()))
        else:
            other = OtherQuery(query.nova, answer.candidates)
            kept[-1] = dataclasses.replace(_with_more(kept[-1], answer), other=other)
    return queries, kept


def _with_more(first: Explanation, second: Explanation) -> Explanation:
    """An explanation with the hosts that only the second query has."""
    more = [name for name in second.candidates if name not in first.candidates]
    gone = {name: why for name, why in first.not_counted.items() if name not in more}
    return dataclasses.replace(
        first,
        candidates=(*first.candidates, *more),
        checks=tuple(verdict.merged(first.checks, second.checks)),
        not_counted=gone,
        uuids={**second.uuids, **first.uuids},
    )


def _explain_valid(
    client: api.Client,
    valid: Sequence[tuple[ExplainedQuery, bool]],
    context: ReadContext,
    compute: ServerHosts,
    aggregates: Sequence[HostAggregate],
) -> list[Explanation]:
    """Explain the requests that Placement accepts, with whether it has candidates."""
    if not valid:
        return []
    requests = [request for request, _ in valid]
    wanted = [request.query for request in requests]
    roots = [_roots(client, request.hosts, compute) for request in requests]
    with source.of(client, context).observed(wanted) as cloud:
        explanations = [
            _explained(cloud, request, named, compute, aggregates)
            for request, named in zip(requests, roots, strict=True)
        ]
    return [
        _proved(client, query, explanation if is_served else _lost(explanation), context)
        for query, explanation, (_, is_served) in zip(wanted, explanations, valid, strict=True)
    ]


def _explained(
    cloud: wide.ObservedCloud,
    request: ExplainedQuery,
    named: Mapping[str, str],
    compute: ServerHosts,
    aggregates: Sequence[HostAggregate],
) -> Explanation:
    """The explanation, worked out again until all that it names is known exactly.

    Requests: those of ``ObservedCloud.refine``.
    """
    for rounds in itertools.count(1):
        explanation = _Explainer(request, cloud.base, compute, aggregates).explain(named)
        roots = [cloud.base.named[name] for name in explanation.explained]
        changed = [change.of(request.query) for change in explanation.changes if not change.steps]
        if not cloud.refine(None if rounds == _MOST_ROUNDS else roots, changed):
            return explanation
    raise AssertionError("the loop ends when all is known")


def _have_candidates(client: api.Client, requests: Sequence[ExplainedQuery]) -> list[bool | str]:
    """Whether Placement has candidates; for a request of nova that it refuses, why.

    A query of a log is like nova's if the reason is an unknown name. Placement does not look at the
    traits of a group if another group has no provider. Errors: ApiError for other requests that it
    refuses, InvalidInput if the reason is an unknown trait.
    """
    answers: list[bool | api_errors.BadRequest] = []
    for request in requests:
        try:
            answers.append(_has_candidate(client, request))
        except api_errors.BadRequest as error:
            answers.append(error)
    pairs = list(zip(requests, answers, strict=True))
    names = observe.traits(request.query for request, answer in pairs if answer is not True)
    unknown = selector.unknown_traits(client, sorted(names))
    logged = [
        request.query
        for request, answer in pairs
        if request.parameters and answer not in (True, False)
    ]
    if logged:
        unknown += selector.unknown_classes(client, observe.resource_classes(logged))
    return [_checked(request, answer, unknown) for request, answer in pairs]


def _checked(
    request: ExplainedQuery, answer: bool | api_errors.BadRequest, unknown: Collection[str]
) -> bool | str:
    traits = observe.traits([request.query])
    names = sorted((traits | observe.resource_classes([request.query])).intersection(unknown))
    own = [name for name in names if name in traits]
    if answer is True or not (own or isinstance(answer, api_errors.BadRequest)):
        return answer is True
    reasons = [selector.requested_trait_message(name) for name in own]
    is_sent = request.nova is not None or (names and request.parameters)
    if not is_sent:
        errors.InputErrors(reasons).check()
    if isinstance(answer, api_errors.BadRequest):
        if not is_sent:
            raise answer
        reasons = reasons or [api_errors.one_line(answer.detail)]
    return "; ".join(reasons)


def _has_candidate(client: api.Client, request: ExplainedQuery) -> bool:
    """Whether Placement has a candidate; it checks the query as it was given. Errors: ApiError."""
    given = request.parameters or candidate_pairs(request.query)
    pairs = [*(pair for pair in given if pair[0] != "limit"), ("limit", "1")]
    return bool(client.list_allocation_candidates(pairs).requests)


def _lost(answer: Explanation, roots: Collection[str] = ()) -> Explanation:
    """The answer of a query for which Placement has only candidates of these root UUIDs.

    openstack-placement loses some candidates of several groups and of sharing providers.
    """
    kept = tuple(name for name in answer.candidates if answer.uuids.get(name) in roots)
    lost = dict.fromkeys((name for name in answer.candidates if name not in kept), LOST)
    return dataclasses.replace(answer, candidates=kept, not_counted={**answer.not_counted, **lost})


def _proved(
    client: api.Client,
    query: candidate.CandidateQuery,
    explanation: Explanation,
    context: ReadContext,
) -> Explanation:
    """The explanation without changes of the query for which a service has no candidate.

    Also without those that it refuses: the rest of the explanation holds. If the service may lose
    candidates, only the hosts of its answers are counted; if it loses some, the changes of hosts,
    which cannot be tried, are left out too.
    """
    if not source.of(client, context).costs_requests:
        # The engine has answered already.
        return explanation

    def proved(change: SmallestChange) -> SmallestChange | None:
        if change.steps:
            return change
        limit = None if explanation.may_lose else 1
        pairs = candidate_pairs(dataclasses.replace(change.of(query), limit=limit))
        try:
            answer = client.list_allocation_candidates(pairs)
        except api_errors.ApiError as error:
            if error.status not in (400, 500):
                raise
            LOG.warning("change of the request not proved: %s", error)
            return None
        if explanation.may_lose:
            hosts = min(change.hosts, len(_roots_of(answer)))
            return dataclasses.replace(change, hosts=hosts) if hosts else None
        return change if answer.requests else None

    if explanation.may_lose and explanation.candidates:
        pairs = candidate_pairs(dataclasses.replace(query, limit=None))
        answer = client.list_allocation_candidates(pairs)
        explanation = _lost(explanation, _roots_of(answer))
    answers = context.each(proved, explanation.changes, "proving changes")
    kept = tuple(each for each in answers if each is not None)
    of_query = [each for each in explanation.changes if not each.steps]
    loses = LOST in explanation.not_counted.values() or of_query != [e for e in kept if not e.steps]
    if explanation.may_lose and loses:
        kept = tuple(each for each in kept if not each.steps)
    return dataclasses.replace(
        explanation, changes=kept, refused=len(explanation.changes) - len(kept)
    )


def _roots_of(answer: responses.Candidates) -> frozenset[str]:
    """The UUIDs of the roots of the hosts: what is shared counts where nothing else is taken."""
    sharing = {
        uuid
        for uuid, summary in answer.summaries.items()
        if standard.SHARING_TRAIT in (summary.traits or ())
    }
    return frozenset(
        answer.summaries[uuid].root_uuid or uuid
        for request in answer.requests
        for uuid in request.allocations.keys() - sharing or request.allocations
    )


def _members(
    aggregates: Iterable[HostAggregate], nova_hosts: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """``{UUID of a host aggregate: names of the root providers of its hosts}``.

    ``nova_hosts`` is ``{name of a root provider: nova's host}``.
    """
    return {
        aggregate.uuid: frozenset(
            name for name, host in nova_hosts.items() if host in aggregate.hosts
        )
        for aggregate in aggregates
    }


def _hosts_of(base: state.CloudState, query: candidate.CandidateQuery) -> set[str]:
    """The hosts of a request: the trees with a requested class, without sharing providers.

    A node of Ironic is no host of a request for VCPU. All trees that offer more than shared
    resources if none has a requested class.
    """
    classes = observe.resource_classes([query])
    offering, others = set[str](), set[str]()
    for provider in base.providers.values():
        if standard.SHARING_TRAIT not in provider.traits:
            fits = not classes.isdisjoint(provider.inventories)
            (offering if fits else others).add(provider.root_uuid)
    return offering or others


def _roots(client: api.Client, names: Sequence[str], compute: ServerHosts) -> dict[str, str]:
    """``{name of a named provider: UUID of its root}``. Errors: UnknownProvider."""
    providers = {}

    def find(texts: Sequence[str]) -> dict[str, str]:
        named = lookup.find_providers(client, texts)
        providers.update({item.uuid: item for item in named.values()})
        return {text: item.uuid for text, item in named.items()}

    uuids = selector.host_uuids(find, names, compute.hosts, compute.why_no_names)
    named = (providers[uuid] for found in uuids.values() for uuid in found)
    return {item.name: item.root_uuid or item.uuid for item in named}


def _without_repeated(
    of_host: Sequence[SmallestChange], changes: Sequence[SmallestChange]
) -> list[SmallestChange]:
    """The changes of a host without those that only mirror what a change of another one does."""

    def mirrored(change: SmallestChange) -> frozenset[str]:
        only = all(step.action is Action.MIRROR for step in change.steps)
        return frozenset(step.name for step in change.steps) if only else frozenset()

    present = {mirrored(change) for change in changes} - {frozenset()}
    return [change for change in of_host if mirrored(change) not in present]


class _Explainer:
    def __init__(
        self,
        request: ExplainedQuery,
        base: state.CloudState,
        compute: ServerHosts,
        aggregates: Sequence[HostAggregate],
    ) -> None:
        self._request, self._base, self._query = request, base, request.query
        self._compute, self._aggregates = compute, aggregates
        self._order = list(request.order)
        self._relaxations = Relaxations(base, request.query, self._order)
        nodes = compute.hosts.nodes if compute.hosts else ()
        self._nova_hosts = {
            base.providers[node.uuid].name: node.host
            for node in nodes
            if node.uuid in base.providers
        }

    def explain(self, named: Mapping[str, str]) -> Explanation:
        base, query, last = self._base, self._query, len(self._order)
        roots = [*base.tree]
        own = _hosts_of(base, query)
        every = {root: self._relaxations.step(root) for root in roots}
        steps = {root: step for root, step in every.items() if root in own or step == last}
        names = {base.providers[root].name: root for root in steps if steps[root] == last}
        checks = self._checks(names, self._compute) if names else ()
        refused = verdict.refused(checks)
        serving = [root for name, root in names.items() if name not in refused]
        down = self._compute.refused(roots)
        failing = [root for root, step in steps.items() if step < last]
        is_lacking = not serving and self._sources.issuperset(names.values())
        if not serving:
            failing = self._changeable(failing)
        failing = failing or [root for root in down if self._is_only_disabled(root)]
        members: Mapping[str, Collection[str]] = {}
        if named or not serving:
            members = _members(self._aggregates, self._nova_hosts)
        chosen = list(dict.fromkeys(named.values()))
        if not (chosen or serving):
            near = [root for root in failing if root in own] or failing
            plan, number = self._relaxations.plan, self._request.nearest
            chosen = changes.nearest(base, plan, near, members, number)
        found: list[SmallestChange] = []
        for root in chosen:
            if root not in serving:
                found += _without_repeated(self._changes_of(root, members, names.values()), found)
        if not serving:
            # Placement has candidates in other trees too: a change with a part that gives one is
            # not the smallest.
            elsewhere = [root for root in roots if root not in steps and root not in down]
            found += self._changes_of_query([*failing, *elsewhere])
        found.sort(key=overwritten_by_nova.lasts, reverse=True)
        failed = failures.explained(base, query, chosen)
        return Explanation(
            len(steps),
            tuple(self._funnel(steps)),
            tuple(base.providers[root].name for root in serving),
            tuple(base.providers[root].name for root in chosen),
            {name: base.providers[root].name for name, root in named.items()},
            tuple(self._with_members(failure, members) for failure in failed),
            tuple(found),
            checks=tuple(checks),
            not_counted={
                base.providers[root].name: why
                for root, why in (self._refused_by_nova if chosen else {}).items()
                if root in chosen
            }
            | refused,
            may_lose=self._relaxations.mixes_groups_and_sharing,
            nova_hosts=self._nova_hosts,
            short=tuple(failures.short_providers(base, query, failed)),
            hints=() if serving else tuple(self._forgotten_nodes(roots)),
            causes=tuple(self._relaxations.causes(self._targets(failing)) if is_lacking else ()),
            uuids=self._uuids(serving, found),
        )

    def _uuids(self, serving: Iterable[str], smallest: Iterable[SmallestChange]) -> dict[str, str]:
        """``{name: UUID}`` of the hosts that serve the request, and of what a change is about."""
        hosts = {self._base.providers[root].name: root for root in serving}
        steps = (step for change in smallest for step in change.steps)
        return hosts | {step.provider: self._base.named[step.provider] for step in steps}

    def _changeable(self, failing: Sequence[str]) -> list[str]:
        """The hosts that are a target; those that nova refuses anyway only if it refuses all."""
        targets = [root for root in failing if root not in self._sources]
        return [root for root in targets if root not in self._refused_by_nova] or targets

    def _changes_of_query(self, trees: Sequence[str]) -> Iterator[SmallestChange]:
        """The smallest changes of the request after which one of the trees serves it."""
        relaxations, refused = self._relaxations, self._refused_by_nova
        of_query = changes.of_query(self._base, self._query, relaxations, trees, refused)
        return filter(self._is_possible, of_query)

    def _forgotten_nodes(self, roots: Iterable[str]) -> Iterator[str]:
        """The free nodes of Ironic, if the request is for what they do not offer."""
        requested = observe.resource_classes([self._query])
        free: dict[str, list[str]] = {}
        for root in roots:
            node, offered = self._compute.node(root), self._base.providers[root].inventories
            if self._request.case is None or self._request.case.server is not None:
                return
            if node is None or not node.is_ironic or not requested.isdisjoint(offered):
                continue
            for name, inventory in offered.items():
                if self._base.used(root).get(name, 0) < inventory.capacity:
                    free.setdefault(name, []).append(self._base.providers[root].name)
        for name, nodes in free.items():
            zeros = ", ".join(f"resources:{each}=0" for each in sorted(requested))
            offer, them = ("offers", "it") if len(nodes) == 1 else ("offer", "them")
            yield (
                f"{counted(len(nodes), 'free node')} of Ironic ({and_more(nodes)}) {offer} {name}"
                f" and nothing that is requested: a flavor for {them} has resources:{name}=1,"
                f" {zeros}"
            )

    def _changes_of(
        self, root: str, members: Mapping[str, Collection[str]], serving: Collection[str]
    ) -> list[SmallestChange]:
        """The changes of a host after which Placement returns it, with what nova needs.

        A service that is only disabled is enabled, whether its provider has the trait or not. If it
        is enabled, the trait of a disabled one goes by itself. ``serving`` are the hosts that
        Placement returns. A host that nova refuses for another reason has none.
        """
        excluded = {*self._refused_by_nova}
        enable = Step(self._base.providers[root].name, Action.ENABLE, changes.DISABLED)
        is_disabled = self._is_only_disabled(root)
        if is_disabled:
            names = {self._base.providers[root].name: root}
            still = verdict.refused(self._checks(names, self._compute.enabled(root)))
            excluded -= set() if still else {root}
        if root in excluded:
            return []
        if root in serving:
            hosts = len({*serving} - excluded)
            return [SmallestChange(hosts, (enable,), enable.provider)] if is_disabled else []
        found = []
        counted = changes.counted_by_nova(self._base, self._compute)
        for change in changes.of_host(
            self._base, self._query, root, members, serving, excluded, counted
        ):
            steps = change.steps
            if is_disabled and enable not in steps:
                steps = (*steps, enable)
            elif self._compute.is_enabled(root):
                remove = dataclasses.replace(enable, action=Action.REMOVE_TRAIT)
                steps = tuple(remove if step == enable else step for step in steps)
            found.append(dataclasses.replace(change, steps=steps))
        return found

    def _is_possible(self, change: SmallestChange) -> bool:
        """Whether somebody can change these parts: of an existing server, a new flavor."""
        case, nova = self._request.case, self._request.nova
        if case is None or nova is None or case.server is None:
            return True
        steps = {nova.sources[part].step for part in (*change.removed, *change.amounts)}
        return case.way is Way.RESIZE and steps <= {FLAVOR, EXTRA_SPECS}

    @property
    def _sources(self) -> frozenset[str]:
        """The roots of the host that a server leaves."""
        case = self._request.case
        nodes = case.source_nodes if case is not None and case.leaves else ()
        return frozenset(node.uuid for node in nodes)

    def _targets(self, roots: Sequence[str]) -> Sequence[str]:
        """The hosts that are a question: the target of a move, if the operator names it."""
        case = self._request.case
        target = case and case.target and self._compute.root_of(case.target)
        return [root for root in roots if root == target or not (target or root in self._sources)]

    def _is_only_disabled(self, root: str) -> bool:
        """Whether nova places servers on a host as soon as its compute service is enabled."""
        why_not = self._compute.why_not
        return bool(why_not(root)) and not self._compute.enabled(root).why_not(root)

    @functools.cached_property
    def _refused_by_nova(self) -> Mapping[str, str]:
        """``{root: why}`` for all hosts on which nova places no server of this request."""
        names = {self._base.providers[root].name: root for root in self._base.tree}
        refused = verdict.refused(self._checks(names, self._compute))
        return {names[name]: why for name, why in refused.items()}

    def _checks(
        self, candidates: Mapping[str, str], compute: ServerHosts
    ) -> Sequence[verdict.RuleCheck]:
        """What nova's filters say about ``{name: UUID}`` of root providers."""
        hosts = verdict.HostList(compute, self._aggregates, candidates)
        if self._request.case is None:
            return verdict.check_services(compute, hosts)
        return verdict.check_hosts(dataclasses.replace(self._request.case, compute=compute), hosts)

    def _funnel(self, steps: Mapping[str, int]) -> list[FunnelStep]:
        return [
            FunnelStep(part, sum(step >= count for step in steps.values()))
            for count, part in enumerate(self._order, start=1)
        ]

    def _with_members(self, failure: Failure, members: Mapping[str, Collection[str]]) -> Failure:
        """The failure, with the numbers of hosts if nova and Placement differ in an aggregate."""
        details = []
        for name in failure.names if failure.reason is RefusalReason.MEMBER_OF else ():
            in_nova, in_placement = members.get(name, ()), self._base.with_aggregate[name]
            if failure.host in in_nova and failure.provider in (None, failure.host):
                details.append(
                    f"nova has it there ({counted(len(in_nova), 'host')} in nova,"
                    f" {len(in_placement)} in Placement)"
                )
        return dataclasses.replace(failure, detail="; ".join(details)) if details else failure
