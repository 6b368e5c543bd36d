# SPDX-License-Identifier: Apache-2.0
"""Mirror: nova's host aggregates as Placement's aggregates.

The mirror adds the provider of each host to the placement aggregate with the host aggregate's UUID;
with ``prune`` it removes members that are not in the host aggregate any more. ``decide_mirror`` is
pure; ``plan_mirror`` reads nova and Placement.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.model.name import canonical_uuid, counted, is_uuid
from osc_placement.nova import api as nova_api, values
from osc_placement.nova.values import find_host_aggregates
from osc_placement.plan import change, plan, reasons
from osc_placement.plan.kinds import memberships
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import facts, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.compute_nodes import (
    ComputeStates,
    aggregates_state,
    host_names,
    unknown_hosts,
)
from osc_placement.workflows.cloud.context import ReadContext

LOG = logging.getLogger(__name__)

_KIND = memberships.AGGREGATES.name

_NO_HOSTS = Reason(Code.EMPTY_AGGREGATE, "the host aggregate has no hosts: nothing to mirror")
_NO_AGGREGATE = Reason(Code.NO_AGGREGATE, "the host is in none of the host aggregates")
_MAY_BE_A_NODE = Reason(Code.CELL_DOWN, "it may be a compute node that nova cannot list now")


@dataclasses.dataclass(frozen=True, slots=True)
class MirrorRequest:
    """What to mirror; empty ``hosts`` and ``host_aggregates`` select all.

    The operator gives names, ids and UUIDs; a resolved request has hosts' names in nova, and UUIDs.
    ``prune``: remove stale members. ``providers`` are members to remove although they are not
    compute nodes. ``forget`` (UUIDs) are deleted host aggregates; their members are always removed.
    Removals are limited with ``prune``, and where the operator gives a limit (``is_limited``).
    """

    hosts: Collection[str] = ()
    host_aggregates: Collection[str] = ()
    prune: bool = False
    providers: Collection[str] = ()
    forget: Collection[str] = ()
    is_limited: bool = False

    def concerns(self, host: str) -> bool:
        """Whether the request includes a host."""
        return not self.hosts or host in self.hosts


@dataclasses.dataclass(slots=True)
class _Decision:
    """The decisions for one provider: ``{aggregate uuid: name}`` for each kind."""

    add: dict[str, str] = dataclasses.field(default_factory=dict)
    remove: dict[str, str] = dataclasses.field(default_factory=dict)
    right: dict[str, str] = dataclasses.field(default_factory=dict)
    stale: dict[str, str] = dataclasses.field(default_factory=dict)
    why_stale: list[Reason] = dataclasses.field(default_factory=list)
    refused: bool = False


def decide_mirror(snapshot: Cloud, request: MirrorRequest) -> plan.Plan:
    """One change per provider, for all its aggregates.

    Skipped, each with a reason: hosts without a compute node, nodes without a provider,
    aggregates without hosts, stale members that the request keeps.
    """
    planned = plan.make(_Mirror(snapshot, request).items())
    if not (request.prune or request.is_limited):
        return planned
    memberships_read = sum(map(len, snapshot.members.values()))
    return dataclasses.replace(planned, existing={memberships.AGGREGATES.unit: memberships_read})


def is_stale(item: change.Skipped) -> bool:
    """Whether it is a stale compute node that a plan keeps without ``prune``."""
    return Code.STALE_MEMBER in item.code.split(",")


class _Mirror:
    def __init__(self, snapshot: Cloud, request: MirrorRequest) -> None:
        self._snapshot, self._request = snapshot, request
        self._decisions: dict[str, _Decision] = collections.defaultdict(_Decision)
        pairs = ((node, snapshot.provider_of(node)) for node in snapshot.hosts.nodes)
        self._hosts = {item.uuid: node.host for node, item in pairs if item is not None}

    def items(self) -> Iterator[change.Change[Any] | change.Skipped]:
        """All changes and skipped changes, in any order."""
        missing: dict[change.Subject, dict[str, str]] = collections.defaultdict(dict)
        for aggregate in self._aggregates():
            without_provider = self._mirror(aggregate)
            for subject in without_provider:
                missing[subject][aggregate.uuid] = aggregate.name
            if not aggregate.hosts and not self._request.hosts:
                subject = change.Subject(aggregate.name, aggregate.uuid)
                yield _skipped(subject, _NO_HOSTS)
        for uuid, name in self._deleted():
            self._find_stale(values.HostAggregate("", name, uuid), frozenset(), deleted=True)
        for subject, names in missing.items():
            yield self._missing(subject, names)
        for uuid, decision in self._decisions.items():
            yield from self._decided(self._snapshot.providers[uuid], decision)
        yield from self._in_none()

    def _aggregates(self) -> Iterator[values.HostAggregate]:
        for aggregate in self._snapshot.aggregates:
            if not self._request.host_aggregates or aggregate.uuid in self._request.host_aggregates:
                yield aggregate

    def _deleted(self) -> Iterator[tuple[str, str]]:
        """The deleted host aggregates that the request includes."""
        for uuid, name in self._snapshot.deleted_aggregates.items():
            if uuid in self._request.forget or not self._request.host_aggregates:
                yield uuid, name

    def _mirror(self, aggregate: values.HostAggregate) -> list[change.Subject]:
        """Decide for one aggregate; return its hosts and nodes without a provider."""
        expected, without_provider = set(), []
        for host in dict.fromkeys(aggregate.hosts):
            providers, without = self._snapshot.providers_of(host)
            expected |= {item.uuid for item in providers}
            if self._request.concerns(host):
                without_provider += without
                for item in providers:
                    decision = self._decisions[item.uuid]
                    there = item.uuid in self._snapshot.members.get(aggregate.uuid, frozenset())
                    (decision.right if there else decision.add)[aggregate.uuid] = aggregate.name
        self._find_stale(aggregate, frozenset(expected))
        return without_provider

    def _find_stale(
        self, aggregate: values.HostAggregate, expected: frozenset[str], *, deleted: bool = False
    ) -> None:
        """Decide for the members of an aggregate that are not nodes of its hosts."""
        for uuid in self._snapshot.members.get(aggregate.uuid, frozenset()) - expected:
            node = self._snapshot.compute_nodes.get(uuid)
            named = uuid in self._request.providers
            if uuid not in self._snapshot.providers or not self._is_concerned(node, named=named):
                continue
            why = self._why_kept(aggregate, uuid, named=named, deleted=deleted)
            decision = self._decisions[uuid]
            (decision.stale if why else decision.remove)[aggregate.uuid] = aggregate.name
            decision.why_stale += [why] if why else []
            decision.refused |= why == _MAY_BE_A_NODE

    def _is_concerned(self, node: values.ComputeNode | None, *, named: bool) -> bool:
        if node is None:
            return named or not self._request.hosts
        return self._request.concerns(node.host)

    def _why_kept(
        self,
        aggregate: values.HostAggregate,
        uuid: str,
        *,
        named: bool,
        deleted: bool,
    ) -> Reason:
        """The reason to keep a stale member; empty to remove it."""
        prune = self._request.prune or aggregate.uuid in self._request.forget
        why = "its host is not in it: --prune"
        if deleted:
            # Nova's next listing has no UUID that --prune could find.
            why = f"nova has deleted it: --forget {aggregate.uuid}"
        if uuid in self._snapshot.compute_nodes:
            text = f"in {aggregate.name}, but {why} removes it"
            return reasons.NONE if prune else Reason(Code.STALE_MEMBER, text)
        if not (named and prune):
            what = "it is not a compute node of nova"
            if self._snapshot.providers[uuid].name in self._snapshot.hostnames:
                what = "it has the name of a compute node and another UUID"
            options = "--provider" if prune else "--prune --provider"
            text = f"in {aggregate.name}, but {what}: {options} removes it"
            return Reason(Code.NOT_A_COMPUTE_NODE, text)
        return _MAY_BE_A_NODE if self._may_be_a_node(aggregate) else reasons.NONE

    def _may_be_a_node(self, aggregate: values.HostAggregate) -> bool:
        """Whether a member that nova does not list may be a node of a cell that is down."""
        hosts = self._snapshot.hosts
        unresolved = not self._snapshot.nodes_of_host.keys() >= {*aggregate.hosts}
        return bool(hosts.unreachable) or (not hosts.lists_down_cells and unresolved)

    def _missing(self, subject: change.Subject, names: Mapping[str, str]) -> change.Skipped:
        """A host without a node, or a node without a provider."""
        reason = self._snapshot.why_missing(subject)
        return change.Skipped(
            _KIND,
            subject,
            memberships.Aggregates(dict.fromkeys(names, False)),
            memberships.Aggregates.of(names),
            f"to {_joined(names.values())}; {reason}",
            reason.code,
            refused=True,
        )

    def _decided(
        self, item: provider.Provider, decision: _Decision
    ) -> Iterator[change.Change[Any] | change.Skipped]:
        """The change of a provider, and its skipped changes."""
        subject = change.Subject(item.name, item.uuid)
        after = dict.fromkeys(decision.add, True) | dict.fromkeys(decision.remove, False)
        if after:
            before = {uuid: not is_added for uuid, is_added in after.items()}
            yield change.Change(
                _KIND,
                subject,
                memberships.Aggregates(before),
                memberships.Aggregates(after),
                item.generation,
                _moves(decision),
                precondition=self._as_planned(item, after),
            )
        if decision.stale:
            yield change.Skipped(
                _KIND,
                subject,
                memberships.Aggregates.of(decision.stale),
                memberships.Aggregates(dict.fromkeys(decision.stale, False)),
                reasons.joined_texts(dict.fromkeys(decision.why_stale)),
                reasons.joined_codes(decision.why_stale),
                refused=decision.refused,
            )
        if decision.right and not after and not decision.stale:
            state = memberships.Aggregates.of(decision.right)
            reason = f"in {_joined(decision.right.values())}"
            yield change.Skipped(_KIND, subject, state, state, reason, unchanged=True)

    def _as_planned(self, item: provider.Provider, members: Iterable[str]) -> change.Precondition:
        """What nova must still say: the aggregates of a host, or that it has no such node."""
        cloud = self._snapshot
        host = self._hosts.get(item.uuid)
        if host is None:
            return change.Precondition(host=ComputeStates(cloud.hosts).of(item.name, item.uuid))
        return change.Precondition(aggregates=aggregates_state(cloud.aggregates, host, members))

    def _in_none(self) -> Iterator[change.Skipped]:
        """The requested hosts that are in none of the requested aggregates."""
        mirrored = {host for aggregate in self._aggregates() for host in aggregate.hosts}
        for host in sorted({*self._request.hosts} - mirrored):
            subject = change.Subject(host, "")
            yield _skipped(subject, _NO_AGGREGATE)


def _skipped(subject: change.Subject, reason: Reason) -> change.Skipped:
    return change.Skipped(_KIND, subject, reason=reason.text, code=reason.code)


def _moves(decision: _Decision) -> str:
    """``to az1, ssd; out of pinned``: the names of the aggregates of a change."""
    parts = [
        f"{word} {_joined(names.values())}"
        for word, names in (("to", decision.add), ("out of", decision.remove))
        if names
    ]
    return "; ".join(parts)


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def plan_mirror(
    client: api.Client,
    nova: nova_api.Nova,
    request: MirrorRequest,
    context: ReadContext | None = None,
) -> plan.ObservedPlan:
    """Plan the changes that make Placement's aggregates match nova's host aggregates.

    Requests: to Placement, one listing of all providers and one per host aggregate, also for
    those to forget; to nova, the host aggregates twice, the services, and
    the hypervisors in pages. Applying sends two requests per changed provider.
    Errors: InvalidInput with every unknown name, or with every missing permission.
    """
    snapshot, resolved = read_cloud(client, nova, request, context)
    planned = decide_mirror(snapshot, resolved)
    stale = sum(map(is_stale, planned.skipped))
    LOG.info("mirror: %d changes, %d stale compute nodes are kept", len(planned.changes), stale)
    planned = dataclasses.replace(planned, notes=tuple(_notes(stale, nova.source)))
    return plan.ObservedPlan(planned)


#: What ``decide_mirror`` needs.
MirrorReading = tuple[Cloud, MirrorRequest]


def read_cloud(
    client: api.Client,
    nova: nova_api.Nova,
    request: MirrorRequest,
    context: ReadContext | None = None,
) -> MirrorReading:
    """Read nova and Placement. Requests and errors: those of ``plan_mirror``."""
    client.require_feature("aggregate generation", "changing aggregates safely")
    snapshot = source.read(client, nova, context, with_aggregates=True)
    resolved = _resolve(snapshot, request)
    _read_members(nova, snapshot, resolved)
    return snapshot, resolved


def _read_members(nova: nova_api.Nova, cloud: Cloud, request: MirrorRequest) -> None:
    """Read the members of every current host aggregate, and of those to forget."""
    current = {item.uuid: item.name for item in cloud.aggregates}
    deleted = {uuid: uuid for uuid in request.forget}
    planned = [
        uuid for uuid in current if not request.host_aggregates or uuid in request.host_aggregates
    ]
    planned += [uuid for uuid in deleted if uuid not in current]
    facts.prefetch(cloud.members, planned)
    # Read nova again after Placement, so that a host that is being added is not removed.
    cloud.aggregates = [item for item in nova_api.host_aggregates(nova) if item.uuid in current]
    left = {item.uuid for item in cloud.aggregates}
    cloud.deleted_aggregates = {
        uuid: title
        for uuid, title in {**deleted, **current}.items()
        if uuid not in left and uuid in cloud.members
    }


def _resolve(cloud: Cloud, request: MirrorRequest) -> MirrorRequest:
    """The request with UUIDs instead of names. Errors: InvalidInput with every error."""
    hosts = host_names(request.hosts, cloud.hosts)
    input_errors = errors.InputErrors(unknown_hosts(hosts, cloud.existing_hosts))
    aggregates = find_host_aggregates(cloud.aggregates, request.host_aggregates, input_errors)
    resolved = dataclasses.replace(
        request,
        hosts=hosts,
        host_aggregates=frozenset(item.uuid for item in aggregates.values()),
        providers=_known_providers(cloud, request.providers, input_errors),
        forget=_deleted_aggregates(cloud, request.forget, input_errors),
    )
    if request.providers and not (request.prune or request.forget):
        input_errors.add("--provider selects members to remove: it needs --prune or --forget")
    input_errors.check()
    return resolved


def _known_providers(
    cloud: Cloud, texts: Iterable[str], input_errors: errors.InputErrors
) -> frozenset[str]:
    by_text = lookup.among(cloud.providers.values(), texts)
    input_errors.reasons += [
        lookup.unknown_provider(text) for text, providers in by_text.items() if not providers
    ]
    return frozenset(item.uuid for providers in by_text.values() for item in providers)


def _deleted_aggregates(
    cloud: Cloud, texts: Iterable[str], input_errors: errors.InputErrors
) -> frozenset[str]:
    current = {item.uuid: item.name for item in cloud.aggregates}
    uuids = set()
    for text in texts:
        if not is_uuid(text):
            input_errors.add(f"--forget {text}: not the UUID of a deleted host aggregate")
            continue
        uuid = canonical_uuid(text)
        if uuid in current:
            input_errors.add(
                f"--forget {text}: nova still has this host aggregate, {current[uuid]!r}"
            )
        uuids.add(uuid)
    return frozenset(uuids)


def _notes(stale: int, source: str) -> Iterable[str]:
    if source:
        yield f"nova's responses come from {source}"
    if stale:
        where = "is in aggregates that it" if stale == 1 else "are in aggregates that they"
        yield f"{counted(stale, 'compute node')} {where} should not be in (--prune)"
