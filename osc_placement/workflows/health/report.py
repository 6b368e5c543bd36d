# SPDX-License-Identifier: Apache-2.0
"""The report: what a page for people shows of a cloud.

``read`` reads each thing once, for health and for the figures; everything else is pure. Amounts are
in the units of their resource class; a percentage is a whole number, 100 only for what is full.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.engine import standard, state
from osc_placement.model.name import and_more
from osc_placement.nova import api as nova_api, values
from osc_placement.plan.plan import Plan
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import compute_nodes, named_aggregates, rehearsal, source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.health import health, impact

#: Hosts in a list of the hottest or emptiest, trees that are drawn, and children of one kind that
#: a drawing shows.
MOST_HOSTS, MOST_TREES, MOST_ALIKE = 10, 12, 4

#: Members that a page names of an aggregate which nova does not have.
_MOST_NAMES = 2

_DIGITS = re.compile(r"(\d+)")


class ClassUse(NamedTuple):
    """The capacity of a resource class, after reserved amounts and ratios, and what is used."""

    name: str
    capacity: int
    used: int

    @property
    def percent(self) -> int:
        """0 only if nothing is used, 100 or more only if nothing is free."""
        if self.capacity <= 0:
            return 100 if self.used else 0
        return max(100 * self.used // self.capacity, int(self.used > 0))

    @property
    def free(self) -> int:
        """What is not used; 0 if more is used than there is."""
        return max(self.capacity - self.used, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class HostUse:
    """A host: all resources of its own tree. ``refused`` says why it takes no server.

    ``zone`` is nova's; ``in_zone``: Placement has the host in an aggregate of it too.
    """

    uuid: str
    name: str
    uses: tuple[ClassUse, ...]
    zone: str = ""
    refused: str = ""
    in_zone: bool = True

    @property
    def scarcest(self) -> ClassUse | None:
        """The class of which the largest part is used; None without any capacity or use."""
        offered = [use for use in self.uses if use.capacity > 0 or use.used]
        return max(offered, key=lambda use: use.percent, default=None)

    @property
    def percent(self) -> int:
        """How full it is: that of the scarcest class."""
        return self.scarcest.percent if self.scarcest else 0

    @property
    def by_class(self) -> Mapping[str, ClassUse]:
        """``{resource class: its use}``"""
        return {use.name: use for use in self.uses}


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateUse:
    """The providers of an aggregate, with their trees: nova's hosts of a host aggregate.

    ``hosts`` counts the hosts among them, ``mirrored`` those that Placement has in it too. ``name``
    is nova's name, empty for an aggregate that nova does not have; ``members`` names the first.
    """

    uuid: str
    name: str
    zone: str
    hosts: int
    by_class: Mapping[str, ClassUse]
    mirrored: int
    members: str

    @property
    def percent(self) -> int:
        """How full its scarcest class is."""
        return max((use.percent for use in self.by_class.values()), default=0)


@dataclasses.dataclass(frozen=True, slots=True)
class TreeNode:
    """A provider in a drawing; ``more`` children like the last ones are left out."""

    name: str
    uses: tuple[ClassUse, ...]
    traits: int
    shares_with: int = 0
    children: tuple[TreeNode, ...] = ()
    more: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class TreeShape:
    """All trees with the same providers and classes; ``root`` draws the first one.

    ``names`` are those of their roots.
    """

    root: TreeNode
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ReportPlan:
    """A plan: the whole cloud before and after, and the hosts whose fill changes most.

    ``impact`` is None if nova could not be read, ``why_not`` says why.
    """

    plan: Plan
    uses: tuple[tuple[ClassUse, ClassUse], ...]
    hosts: tuple[tuple[HostUse, HostUse], ...]
    failures: tuple[str, ...]
    impact: impact.Impact | None = None
    why_not: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What nova adds; ``why_not`` says why all of it, or only the aggregates, are missing."""

    aggregates: Sequence[values.HostAggregate] = ()
    compute: ServerHosts = dataclasses.field(default_factory=ServerHosts)
    fits: impact.Impact = dataclasses.field(default_factory=impact.Impact)
    why_not: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The values of the page. ``health`` is None if it was left out."""

    target: str
    created: datetime.datetime
    hosts: tuple[HostUse, ...]
    providers: int
    uses: tuple[ClassUse, ...]
    aggregates: tuple[AggregateUse, ...]
    trees: tuple[TreeShape, ...]
    figures: Figures
    areas: tuple[health.Area, ...] = ()
    health: tuple[health.HealthLine, ...] | None = None
    plan: ReportPlan | None = None

    @property
    def notes(self) -> list[str]:
        """What cannot be known, by area."""
        return [f"{area.name}: {note}" for area in self.areas for note in area.not_checked]

    @property
    def unread(self) -> Mapping[str, list[str]]:
        """``{why it could not be read: areas}``"""
        texts: dict[str, list[str]] = {}
        for area in self.areas:
            for why in filter(None, [area.error, *area.unread]):
                texts.setdefault(why, []).append(area.name)
        return texts

    @property
    def incomplete(self) -> int:
        """The number of areas that were not, or not wholly, read."""
        return sum(not area.is_complete for area in self.areas)

    @property
    def zones(self) -> list[tuple[str, list[HostUse]]]:
        """The hosts of each availability zone, those without one last."""
        by_zone: dict[str, list[HostUse]] = collections.defaultdict(list)
        for host in self.hosts:
            by_zone[host.zone].append(host)
        return sorted(by_zone.items(), key=lambda item: (not item[0], item[0]))

    @property
    def domain(self) -> str:
        """What follows the first dot in the names of all hosts, with the dot; empty if it varies.

        Names without a dot do not count.
        """
        domains = {dot + rest for host in self.hosts for _, dot, rest in [host.name.partition(".")]}
        domains.discard("")
        return domains.pop() if len(domains) == 1 else ""

    @property
    def hottest(self) -> list[HostUse]:
        """The fullest of the hosts in use, the fullest first."""
        used = [host for host in self.hosts if host.percent]
        return sorted(used, key=lambda host: -host.percent)[:MOST_HOSTS]

    @property
    def emptiest(self) -> list[HostUse]:
        """The emptiest hosts that take servers, the emptiest first."""
        usable = [host for host in self.hosts if not host.refused]
        return sorted(usable, key=lambda host: host.percent)[:MOST_HOSTS]


def read(
    services: health.HealthServices,
    context: ReadContext,
    planned: tuple[Plan, pathlib.Path] | None = None,
    *,
    with_health: bool = True,
) -> Report:
    """The report of a cloud, or of a file; ``planned`` is a plan and its file.

    Requests: those of ``health.check_areas`` and ``source.everything``, each different one once:
    two for each further provider. Errors: PlanRefused for a plan of another target.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(health.read_once(services))
        areas = health.check_areas(services, context) if with_health else []
        named = health.named_aggregates(services)
        report_plan = None
        if planned is None:
            base = stack.enter_context(source.of(services.client, context).everything(named))
        else:
            changed = rehearsal.after_plan(services.client, *planned, context, named)
            base, later = stack.enter_context(changed)
            report_plan = _plan(planned[0], base, later, services)
        figures = _figures(base, services, report_plan, context)
    today = datetime.datetime.now(datetime.UTC)
    lines = tuple(health.lines(areas, today=today.date())) if with_health else None
    return build(services.client.target, today, base, figures, lines, areas, report_plan)


def _figures(
    base: state.CloudState,
    services: health.HealthServices,
    planned: ReportPlan | None,
    context: ReadContext,
) -> Figures:
    """What nova adds. Requests: the host aggregates, and those of its services and of ``fits``."""
    nova = services.nova
    if isinstance(nova, str):
        return Figures(why_not=nova)
    try:
        compute = compute_nodes.read_server_hosts(nova)
        fits = planned.impact if planned is not None else None
        fits = fits or impact.fits(base, nova, compute, context, services.options)
    except errors.PlacementError as error:
        return Figures(why_not=str(error))
    try:
        return Figures(nova_api.host_aggregates(nova), compute, fits)
    except errors.PlacementError as error:
        return Figures((), compute, fits, str(error))


def _plan(
    planned: Plan, base: state.CloudState, changed: rehearsal.After, services: health.HealthServices
) -> ReportPlan:
    nova = services.nova
    after = {host.uuid: host for host in hosts(changed.state, Figures())}
    both = [(host, after[host.uuid]) for host in hosts(base, Figures()) if host.uuid in after]
    moved = [pair for pair in both if pair[0].uses != pair[1].uses]
    moved.sort(key=lambda pair: -abs(pair[0].percent - pair[1].percent))
    before, later = (
        {use.name: use for use in _uses(side, side.providers)} for side in (base, changed.state)
    )
    shown, why_not = None, nova if isinstance(nova, str) else ""
    if not isinstance(nova, str):
        try:
            shown = impact.compare(base, changed, nova, services.options)
        except errors.PlacementError as error:
            why_not = str(error)
    return ReportPlan(
        planned,
        tuple(
            (before.get(name, ClassUse(name, 0, 0)), later.get(name, ClassUse(name, 0, 0)))
            for name in standard.classes_in_order({*before, *later})
        ),
        tuple(moved),
        changed.failures,
        shown,
        why_not,
    )


def build(
    target: str,
    created: datetime.datetime,
    base: state.CloudState,
    figures: Figures,
    lines: tuple[health.HealthLine, ...] | None = None,
    areas: Iterable[health.Area] = (),
    planned: ReportPlan | None = None,
) -> Report:
    """The values of the page of a state."""
    return Report(
        target,
        created,
        tuple(hosts(base, figures)),
        len(base.providers),
        _uses(base, base.providers),
        tuple(sorted(_aggregates(base, figures), key=lambda item: -item.percent)),
        tuple(_shapes(base)),
        figures,
        tuple(areas),
        lines,
        planned,
    )


def hosts(base: state.CloudState, figures: Figures) -> list[HostUse]:
    """All hosts by name, numbers in names by value."""
    zone_of: dict[str, str] = {}
    members: dict[str, set[str]] = {"": {*base.providers}}
    for aggregate in figures.aggregates:
        if zone := aggregate.metadata.get("availability_zone"):
            zone_of |= dict.fromkeys(aggregate.hosts, zone)
            members.setdefault(zone, set()).update(base.with_aggregate[aggregate.uuid])
    result = []
    for root in hosts_of(base):
        node = figures.compute.node(root)
        zone = zone_of.get(node.host, "") if node else ""
        result.append(
            HostUse(
                root,
                base.providers[root].name,
                _uses(base, base.tree[root]),
                zone,
                figures.compute.why_not(root),
                root in members[zone],
            )
        )
    return sorted(result, key=lambda host: _natural(host.name))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``host-9`` before ``host-10``."""
    parts = enumerate(_DIGITS.split(name))
    # Only some characters that are digits are numbers, so a long number sorts by its length.
    return [(len(text) if number % 2 else 0, text) for number, text in parts]


def _uses(base: state.CloudState, uuids: Iterable[str]) -> tuple[ClassUse, ...]:
    """The sums over some providers."""
    capacity: collections.Counter[str] = collections.Counter()
    used: collections.Counter[str] = collections.Counter()
    for uuid in uuids:
        amounts = base.used(uuid)
        for name, inventory in base.providers[uuid].inventories.items():
            capacity[name] += inventory.capacity
            used[name] += amounts.get(name, 0)
    return tuple(
        ClassUse(name, capacity[name], used[name]) for name in standard.classes_in_order(capacity)
    )


def _aggregates(base: state.CloudState, figures: Figures) -> Iterator[AggregateUse]:
    """Those of nova by name; the others come last, by UUID."""
    of_nova = {item.uuid: item for item in figures.aggregates}
    host_roots = {*hosts_of(base)}
    by_host = named_aggregates.hosts_in_nova(host_roots, figures.compute)

    def rank(uuid: str) -> tuple[bool, list[tuple[int, str]]]:
        return uuid not in of_nova, _natural(of_nova[uuid].name if uuid in of_nova else uuid)

    for uuid in sorted({*base.with_aggregate, *of_nova}, key=rank):
        in_placement = base.with_aggregate[uuid]
        named = of_nova.get(uuid)
        hosts_there = {root for root in in_placement if root in host_roots}
        if named and by_host:
            hosts_there = {root for host in named.hosts for root in by_host.get(host, ())}
        members = hosts_there | (in_placement - host_roots)
        names = sorted((base.providers[member].name for member in members), key=_natural)
        providers = {item for member in members for item in (member, *base.tree[member])}
        yield AggregateUse(
            uuid,
            named.name if named else "",
            named.metadata.get("availability_zone", "") if named else "",
            len(hosts_there),
            {use.name: use for use in _uses(base, providers)},
            len(hosts_there & in_placement),
            and_more(names, _MOST_NAMES),
        )


#: The classes of a provider, whether it shares, and the shapes of its children, sorted.
_Shape = tuple[tuple[str, ...], bool, tuple["_Shape", ...]]


def _shapes(base: state.CloudState) -> list[TreeShape]:
    """The different shapes, the most frequent first."""
    roots: dict[_Shape, list[str]] = {}
    for uuid, item in base.providers.items():
        if item.root_uuid == uuid:
            roots.setdefault(_shape(base, uuid), []).append(uuid)
    shapes = []
    for alike in roots.values():
        names = sorted((base.providers[uuid].name for uuid in alike), key=_natural)
        shapes.append(TreeShape(_node(base, base.named[names[0]]), tuple(names)))
    return sorted(shapes, key=lambda shape: -len(shape.names))


def _shape(base: state.CloudState, uuid: str) -> _Shape:
    item = base.providers[uuid]
    children = sorted(_shape(base, child) for child in base.children[uuid])
    return (
        tuple(sorted(item.inventories)),
        standard.SHARING_TRAIT in item.traits,
        tuple(children),
    )


def _node(base: state.CloudState, uuid: str) -> TreeNode:
    item = base.providers[uuid]
    by_shape: dict[_Shape, list[str]] = {}
    for child in sorted(
        base.children[uuid], key=lambda child: _natural(base.providers[child].name)
    ):
        by_shape.setdefault(_shape(base, child), []).append(child)
    shown = [child for alike in by_shape.values() for child in alike[:MOST_ALIKE]]
    shares_with = 0
    if standard.SHARING_TRAIT in item.traits:
        members = itertools.chain.from_iterable(
            base.with_aggregate[aggregate] for aggregate in item.aggregates
        )
        roots = {base.providers[member].root_uuid for member in members}
        shares_with = len(roots - {item.root_uuid})
    return TreeNode(
        item.name,
        _uses(base, [uuid]),
        len(item.traits),
        shares_with,
        tuple(_node(base, child) for child in shown),
        len(base.children[uuid]) - len(shown),
    )
