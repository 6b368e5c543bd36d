# SPDX-License-Identifier: Apache-2.0
"""What a plan means: how often each flavor fits before and after it, and the stranded servers.

The plan is applied to a copy of the cloud. Hosts that it does not touch are counted once: what fits
on them does not change. With a provider that shares, every host counts as touched.

A server is stranded if its host, without any allocation, could serve nova's request for it before
the plan and cannot afterwards: the server runs, but the next migration back or rebuild fails.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.client.query import candidate_pairs
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate
from osc_placement.model.name import and_more
from osc_placement.nova import api as nova_api, flavors, servers as nova_servers, values
from osc_placement.plan.plan import Plan
from osc_placement.scheduling import filters, nova_options, request
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.rule import Host
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.capacity import count
from osc_placement.workflows.cloud import compute_nodes, nova_request, rehearsal
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import serving

#: Why a flavor that is on no host before a plan may be lost by it.
UNSURE = "no host was counted before the plan, and hosts that are not counted could serve it"


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorFits:
    """On how many hosts a flavor fits, and how often in total.

    ``is_exact``: the total is exact, not only a lower bound. ``not_counted`` are the root UUIDs of
    hosts that Placement would use, but that take no server now.
    """

    hosts: int = 0
    fits: int = 0
    is_exact: bool = True
    not_counted: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorImpact:
    """A flavor before and after a plan; ``refused`` says why nova refuses it, then it has no fits.

    ``stranded`` are the servers of this flavor (by the name that nova saved with them) that their
    hosts could not take again after the plan. ``id`` is empty for a deleted flavor with such
    servers. ``not_counted`` is ``{host that takes no server now: why}`` of the hosts that Placement
    would use for it before or after. ``not_checked`` is what nova also checks of this flavor.
    """

    id: str
    name: str
    before: FlavorFits = FlavorFits()
    after: FlavorFits = FlavorFits()
    stranded: tuple[values.Server, ...] = ()
    refused: str = ""
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)
    not_checked: tuple[str, ...] = ()

    @property
    def may_be_lost(self) -> bool:
        """Whether only hosts that are not counted could serve it before the plan."""
        return not self.before.hosts and bool(self.before.not_counted)

    @property
    def is_lost(self) -> bool:
        """Whether it fits before the plan and does not afterwards."""
        return self.before.hosts > 0 and self.after.hosts == 0

    @property
    def is_without_spare(self) -> bool:
        """Whether only one host is left, so that the failure of this host loses the flavor."""
        return self.before.hosts > 1 and self.after.hosts == 1

    @property
    def effect(self) -> str:
        """``lost`` if it fits nowhere any more, ``one-host`` if one host is left, or empty."""
        return "lost" if self.is_lost else "one-host" if self.is_without_spare else ""

    @property
    def n_minus_1(self) -> str:
        """Whether it fits without any one host: ``kept``, ``lost``, ``gained`` or ``no``."""
        before, after = self.before.hosts > 1, self.after.hosts > 1
        if before:
            return "kept" if after else "lost"
        return "gained" if after else "no"


@dataclasses.dataclass(frozen=True, slots=True)
class Impact:
    """``failures`` are the changes that could not be applied to the copy; ``notes`` assumptions.

    ``not_checked`` are sentences about the compute services, and why stranded servers are unknown:
    then ``knows_stranded`` is False.
    """

    flavors: tuple[FlavorImpact, ...] = ()
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    knows_stranded: bool = True

    @property
    def not_counted(self) -> dict[str, str]:
        """``{host: why it takes no server now}``, of all flavors."""
        return {host: why for item in self.flavors for host, why in item.not_counted.items()}

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """``(what it is, text)`` of what decides about the numbers, and what they leave out."""
        unsure = [item.name for item in self.flavors if item.may_be_lost]
        by_text: dict[str, list[str]] = {}
        for item in self.flavors:
            for text in item.not_checked:
                by_text.setdefault(text, []).append(item.name)
        hosts = {
            "not counted": compute_nodes.not_counted(self.not_counted),
            "not checked": [
                *self.not_checked,
                *(f"{and_more(names)}: {text}" for text, names in by_text.items()),
            ],
            "effect not known": [f"{and_more(unsure)}: {UNSURE}"] if unsure else [],
            "not applied to the copy": self.failures,
            "assumed": self.notes,
        }
        return [(name, text) for name, texts in hosts.items() for text in texts]

    def open_of(self, item: FlavorImpact) -> list[str]:
        """What was not checked of one flavor."""
        effect = [f"the effect: {UNSURE}"] if item.may_be_lost else []
        return [*self.not_checked, *item.not_checked, *effect]

    @property
    def harm(self) -> dict[str, int | None]:
        """``{effect: of how many flavors or servers}``; None is not known."""
        stranded = sum(len(item.stranded) for item in self.flavors)
        return {
            "flavor-lost": len(self.lost),
            "one-host": sum(item.is_without_spare for item in self.flavors),
            "stranded": stranded if self.knows_stranded else None,
        }

    @property
    def is_open(self) -> bool:
        """Whether an effect that was not found may still be there."""
        unsure = any(item.may_be_lost for item in self.flavors)
        return unsure or bool(self.not_checked or self.failures)

    def harm_texts(self, mark: str = "") -> str:
        """The effects with their numbers, each number between two marks."""
        numbers = ("not checked" if number is None else number for number in self.harm.values())
        texts = ("Flavors lost", "newly on one host only", "servers stranded")
        pairs = zip(texts, numbers, strict=True)
        return "; ".join(f"{text}: {mark}{number}{mark}" for text, number in pairs)

    @property
    def lost(self) -> list[str]:
        """The names of the flavors that are lost."""
        return [item.name for item in self.flavors if item.is_lost]


def impact(
    client: api.Client,
    nova: nova_api.Nova,
    planned: Plan,
    path: pathlib.Path,
    context: ReadContext,
    options: nova_options.SchedulerOptions,
) -> Impact:
    """The impact of the plan in the file ``path`` on every flavor and server of nova.

    Requests: those of ``source.everything``; to nova one for its version, one for the host
    aggregates, those of ``read_server_hosts``, and one per 1000 flavors and servers; to glance one
    for each image of a server on a changed host of which nova does not show the properties.
    Errors: PlanRefused for a plan of another target.
    """
    with rehearsal.after_plan(client, planned, path, context) as (base, changed):
        return compare(base, changed, nova, options)


def compare(
    base: state.CloudState,
    changed: rehearsal.After,
    nova: nova_api.Nova,
    options: nova_options.SchedulerOptions,
) -> Impact:
    """The impact of a plan that was applied to a copy of ``base``.

    Requests and errors: those of ``impact`` to nova.
    """
    rules = _rules(base, nova, options)
    compute = compute_nodes.read_server_hosts(nova)
    named, servers = flavors.flavors(nova), nova_servers.servers(nova)
    unread = nova_servers.unread(servers)
    comparison = _Comparison(base, changed.state, compute)
    stranded: dict[str, list[values.Server]] = {}
    knows_stranded = True
    try:
        aggregates, facts = nova_api.host_aggregates(nova), nova_request.services_of(nova).facts()
        stranded = _stranded(comparison, servers, aggregates, rules.newest, facts, unread)
    except errors.PlacementError as error:
        knows_stranded = False
        unread.append(str(error))
    listed = _of_flavors(comparison, nova, named, rules.newest, stranded)
    deleted = [
        FlavorImpact("", name, stranded=tuple(stranded[name]))
        for name in sorted(stranded.keys() - {flavor.name for flavor in named})
    ]
    return Impact(
        (*listed, *deleted),
        changed.failures,
        tuple(rules.notes),
        (*compute.not_checked, *(f"stranded servers: {text}" for text in dict.fromkeys(unread))),
        knows_stranded,
    )


def _rules(
    base: state.CloudState, nova: nova_api.Nova, options: nova_options.SchedulerOptions
) -> nova_request.Rules:
    with_trait = functools.partial(nova_request.with_trait_in, base)
    return nova_request.observe_rules(nova, options, with_trait)


def fits(
    base: state.CloudState,
    nova: nova_api.Nova,
    compute: ServerHosts,
    context: ReadContext,
    options: nova_options.SchedulerOptions,
) -> Impact:
    """How often nova's flavors fit now, by name: ``before`` and ``after`` are equal.

    Requests: to nova one for its version, one per 1000 flavors, and ``isolated_aggregates``.
    """
    rules, comparison = _rules(base, nova, options), _Comparison(base, base, compute)
    named = context.each(lambda item: item, flavors.flavors(nova), "counting flavors")
    listed = _of_flavors(comparison, nova, named, rules.newest, {})
    return Impact(tuple(listed), notes=rules.notes, not_checked=tuple(compute.not_checked))


def fits_on_each_host(
    base: state.CloudState,
    nova: nova_api.Nova,
    compute: ServerHosts,
    context: ReadContext,
    options: nova_options.SchedulerOptions,
) -> dict[str, dict[str, int]]:
    """``{flavor: {root UUID of a compute node: how often it fits on this host alone}}``.

    A host that takes no server has 0. Flavors that nova refuses are left out.
    Requests: to nova one for its version, one per 1000 flavors, and ``isolated_aggregates``.
    """
    rules = _rules(base, nova, options).newest
    hosts = [uuid for uuid in base.providers if compute.node(uuid) is not None]
    refused = compute.refused(hosts)
    listed: dict[str, dict[str, int]] = {}
    by_query: dict[str, dict[str, int]] = {}
    named = context.each(lambda item: item, flavors.flavors(nova), "counting flavors on each host")
    for flavor, sent, _ in _requests(nova, named, rules):
        if sent is None:
            continue
        key = _key(sent.queries)
        if key not in by_query:
            counter = count.Counter(base, (sent.queries,), refused=refused, among=hosts)
            by_query[key] = {host: counter.fits([host]).number.least for host in hosts}
        listed[flavor.name] = by_query[key]
    return listed


class _Comparison:
    """Two states of a cloud, and the roots of the hosts that may differ."""

    def __init__(
        self, before: state.CloudState, after: state.CloudState, compute: ServerHosts
    ) -> None:
        self.before, self.after, self.compute = before, after, compute
        self._roots, self._roots_after = frozenset(before.tree), frozenset(after.tree)
        self._refused = compute.refused(self._roots | self._roots_after)
        self._fits: dict[str, tuple[FlavorFits, FlavorFits]] = {}
        self.touched = frozenset[str]() if before is after else self._touched()

    @functools.cached_property
    def _empty(self) -> Sequence[state.CloudState]:
        return [side.without_allocations() for side in (self.before, self.after)]

    def _touched(self) -> frozenset[str]:
        """The roots of changed trees; all roots if a provider shares with other trees."""
        if any(standard.SHARING_TRAIT in side.with_trait for side in (self.before, self.after)):
            return self._roots | self._roots_after
        uuids = self.before.providers.keys() | self.after.providers.keys()
        return frozenset(
            item.root_uuid
            for uuid in uuids
            if _records(self.before, uuid) != _records(self.after, uuid)
            for item in (self.before.providers.get(uuid), self.after.providers.get(uuid))
            if item is not None
        )

    def fits(self, queries: Queries) -> tuple[FlavorFits, FlavorFits]:
        """How often a request fits before and after."""
        # Many flavors differ in what Placement does not see.
        key = _key(queries)
        if key not in self._fits:
            untouched = self._count(self.before, queries, self._roots - self.touched)
            before = self._count(self.before, queries, self._roots & self.touched)
            after = self._count(self.after, queries, self._roots_after & self.touched)
            self._fits[key] = _sum(untouched, before), _sum(untouched, after)
        return self._fits[key]

    def _count(
        self, base: state.CloudState, queries: Queries, roots: Collection[str]
    ) -> FlavorFits:
        if not roots:
            return FlavorFits()
        counter = count.Counter(base, (queries,), refused=self._refused, among=roots)
        fits = counter.fits(roots)
        is_exact = fits.number.is_exact and fits.is_complete
        return FlavorFits(fits.hosts, fits.number.least, is_exact, counter.not_counted)

    def not_counted(self, *both: FlavorFits) -> dict[str, str]:
        """``{host: why it takes no server}`` of the hosts that were not counted."""
        return {
            side.providers[root].name: self._refused[root]
            for side, fits in zip((self.before, self.after), both, strict=True)
            for root in fits.not_counted
        }

    def stranding(self, queries: Queries, roots: Iterable[str]) -> frozenset[str]:
        """The hosts that could serve a request if they were empty, and cannot any more."""
        among = self.touched.intersection(roots)
        before = serving(self._empty[0], queries, among & self._roots)
        return before - serving(self._empty[1], queries, before & self._roots_after)


#: Nova's queries for one request: it takes the hosts of all answers.
Queries = tuple[candidate.CandidateQuery, ...]


def _key(queries: Queries) -> str:
    return str([candidate_pairs(query) for query in queries])


def _records(base: state.CloudState, uuid: str) -> tuple[object, ...]:
    """What decides about a provider's part in candidates."""
    item: record.ProviderRecord | None = base.providers.get(uuid)
    if item is None:
        return ()
    used = {name: amount for name, amount in base.used(uuid).items() if amount}
    tree = (item.root_uuid, item.parent_uuid)
    return (tree, item.inventories, item.traits, frozenset(item.aggregates), used)


def _sum(first: FlavorFits, second: FlavorFits) -> FlavorFits:
    return FlavorFits(
        first.hosts + second.hosts,
        first.fits + second.fits,
        first.is_exact and second.is_exact,
        (*first.not_counted, *second.not_counted),
    )


def _requests(
    nova: nova_api.Nova,
    named: Iterable[flavors.NamedFlavor],
    options: nova_options.SchedulerOptions,
) -> Iterator[tuple[flavors.NamedFlavor, request.NovaRequest | None, str]]:
    """Each flavor by name, with nova's request for it, or why nova refuses it.

    Requests: those of ``nova_request.isolated_aggregates``.
    """
    aggregates = nova_request.isolated_aggregates(nova, options)
    for flavor in sorted(named, key=lambda flavor: flavor.name):
        spec = request.ServerSpec(flavor.flavor, flavor.name)
        try:
            yield flavor, request.request_to_placement(spec, aggregates, options), ""
        except errors.InvalidInput as error:
            yield flavor, None, str(error)


def _hidden(sent: request.NovaRequest, compute: ServerHosts) -> Iterator[str]:
    """What a flavor is compared with that nova's API does not show, whatever the host."""
    case = Case(Way.BOOT, sent.server, compute)
    for rule in filters.FILTER_RULES:
        # This filter compares data which nova does not show.
        if rule.is_always or rule.name == "ComputeCapabilitiesFilter":
            yield from (f"{rule.name}: {text}" for text in rule.verdict(case, Host()).unknown)


def _of_flavors(
    comparison: _Comparison,
    nova: nova_api.Nova,
    named: Iterable[flavors.NamedFlavor],
    options: nova_options.SchedulerOptions,
    stranded: dict[str, list[values.Server]],
) -> Iterator[FlavorImpact]:
    for flavor, sent, refused in _requests(nova, named, options):
        before = after = FlavorFits()
        not_checked: tuple[str, ...] = ()
        if sent is not None:
            before, after = comparison.fits(sent.queries)
            # What is not known can only refuse hosts that have room.
            if before.hosts or after.hosts:
                not_checked = (*sent.caveats.doubts, *_hidden(sent, comparison.compute))
        servers = tuple(stranded.get(flavor.name, ()))
        not_counted = comparison.not_counted(before, after)
        yield FlavorImpact(
            flavor.id, flavor.name, before, after, servers, refused, not_counted, not_checked
        )


def _stranded(
    comparison: _Comparison,
    servers: Iterable[values.Server],
    aggregates: Sequence[values.HostAggregate],
    options: nova_options.SchedulerOptions,
    facts: nova_request.CloudFacts,
    unread: list[str],
) -> dict[str, list[values.Server]]:
    """``{name of a flavor: its stranded servers}``; servers that nova refuses now are left out.

    ``unread`` also gets why the image of a server is not known.
    """
    roots = {item.name: uuid for uuid, item in comparison.before.providers.items()}
    by_kind: dict[str, list[values.Server]] = {}
    for server in servers:
        if server.flavor is not None and roots.get(server.node or "") in comparison.touched:
            kind = (
                dataclasses.asdict(server.flavor),
                server.image_properties and dict(server.image_properties),
                server.hides_image and server.image_id,
                server.pinned_zone,
                server.project_id,
                server.from_volume,
            )
            by_kind.setdefault(json.dumps(kind, sort_keys=True), []).append(server)
    stranded: dict[str, list[values.Server]] = {}
    for alike in by_kind.values():
        try:
            spec = nova_request.spec_of(alike[0], (), facts)
            queries = request.request_to_placement(spec, aggregates, options).queries
        except errors.InvalidInput:
            continue
        unread += [spec.why_no_image] if spec.why_no_image else []
        on_roots = [roots[server.node or ""] for server in alike]
        lost = comparison.stranding(queries, on_roots)
        for server, root in zip(alike, on_roots, strict=True):
            if root in lost:
                stranded.setdefault(server.flavor_name or "", []).append(server)
    return stranded
