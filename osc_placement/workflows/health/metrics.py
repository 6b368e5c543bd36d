# SPDX-License-Identifier: Apache-2.0
"""Computes metrics of a cloud for Prometheus: capacity, traits, consumers, flavors and findings.

Of a file, all figures belong together; a service has no such moment.
``read`` evaluates it; ``text`` is Prometheus' text format. The names of capacity are those of
openstack-exporter. The findings are those of ``placement health show``. An area of health that
could not be read whole has the value 0 in ``openstack_placement_checked``; what was not checked is
counted by area and reason in ``openstack_placement_not_checked``.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import math
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.engine import record, state
from osc_placement.model import allocation
from osc_placement.nova import api as nova_api, flavors, values
from osc_placement.scheduling.answer import Answer
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.capacity import spread
from osc_placement.workflows.cloud import compute_nodes, nova_request, source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.health import health, impact
from osc_placement.workflows.moving import server_check

_PREFIX = "openstack_placement_"


class Sample(NamedTuple):
    """The value of one combination of labels; the labels are in the order of their family."""

    labels: tuple[str, ...]
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """All samples of one gauge; ``name`` is without ``openstack_placement_``."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Sequence[Sample]


#: ``root`` is the name of the root provider: that of the host of a device.
_CAPACITY_LABELS = ("hostname", "resourcetype", "root")

#: The lowest microversion of nova: its answer about quotas has all that is read.
_QUOTA_VERSION = "2.1"

#: Nova's quotas of a project that Placement's usage can be compared with.
_QUOTAS = ("cores", "ram", "instances")

#: The spread that ``placement capacity balance`` reaches by default.
_WITHIN = 0.1


@dataclasses.dataclass(frozen=True)
class Details:
    """What is added on request.

    Providers with one of ``traits`` are listed by name; ``per_host``: how often each flavor fits
    on each host; ``per_consumer``: what each consumer has; ``projects``: the usage and nova's
    quota of each project. ``quotas`` answers for the quotas; a text is the reason why it cannot.
    """

    traits: Collection[str] = ()
    per_host: bool = False
    per_consumer: bool = False
    projects: bool = False
    quotas: nova_api.Nova | str = ""


def read(
    services: health.HealthServices,
    context: ReadContext,
    details: Details = Details(),
    saved: float | None = None,
) -> list[Family]:
    """All families; ``saved`` is when the cloud was read, in seconds since the epoch.

    Requests: those of ``health.check_areas`` and of ``source.everything``, each different one once:
    two for each further provider. To nova also one for its version, one for the host aggregates,
    one per 1000 flavors, and those of ``server_check.check``. With ``projects`` one to nova for
    each project that has allocations, and on a service one to Placement for each consumer.
    Errors: PlacementError if Placement cannot be read.
    """
    not_checked: list[tuple[str, str]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(health.read_once(services))
        named = health.named_aggregates(services)
        of_cloud = source.of(services.client, context)
        base = stack.enter_context(of_cloud.everything(named, with_owners=details.projects))
        families = [*_capacity(base), _traits(base, details.traits), _consumers(base)]
        if details.per_consumer:
            families.append(_allocations(base))
        # A text is the reason why nova was not read.
        if not isinstance(services.nova, str):
            compute = compute_nodes.read_server_hosts(services.nova)
            families += _hosts(base, services.nova, compute, not_checked)
            families.append(_servers(base, services, compute, not_checked))
            try:
                fits = impact.fits(base, services.nova, compute, context, services.options)
                families += _flavors(fits)
                if details.per_host:
                    families.append(_flavors_per_host(base, services, compute, fits, context))
            except errors.PlacementError as error:
                not_checked.append(("flavor_hosts", str(error)))
        if details.projects:
            families += _projects(base, details.quotas, not_checked, context)
        families += _findings(health.check_areas(services, context), not_checked)
    if saved is not None:
        help_text = "When the cloud was read, in seconds since 1970."
        families.append(Family("state_timestamp_seconds", help_text, (), [Sample((), saved)]))
    return families


def text(families: Iterable[Family]) -> str:
    """Prometheus' text format. Errors: MissingPackage without prometheus_client."""
    with errors.needs_extra("metrics", "placement metrics write"):
        import prometheus_client
        from prometheus_client import core, registry

    class Collector(registry.Collector):
        def collect(self) -> Iterator[core.Metric]:
            for family in families:
                gauge = core.GaugeMetricFamily(
                    _PREFIX + family.name, family.help, labels=family.labels
                )
                for sample in family.samples:
                    # With "?" in place of what UTF-8 cannot encode.
                    labels = [label.encode("utf-8", "replace").decode() for label in sample.labels]
                    gauge.add_metric(labels, sample.value)
                yield gauge

    collectors = prometheus_client.CollectorRegistry(auto_describe=False)
    collectors.register(Collector())
    return prometheus_client.generate_latest(collectors).decode()


def _capacity(base: state.CloudState) -> Iterator[Family]:
    """Six families with a sample per provider and class; openstack-exporter has the same names."""
    rows = [
        (item, (item.name, name, _root_name(base, item)), inventory, base.used(uuid).get(name, 0))
        for uuid, item in base.providers.items()
        for name, inventory in item.inventories.items()
    ]
    for family, help_text, numbers in (
        ("resource_total", "The total of the inventory.", [row[2].total for row in rows]),
        ("resource_reserved", "What is reserved.", [row[2].reserved for row in rows]),
        ("resource_usage", "What is allocated.", [row[3] for row in rows]),
        (
            "resource_allocation_ratio",
            "How often a unit can be allocated.",
            [row[2].allocation_ratio for row in rows],
        ),
        (
            "resource_capacity",
            "What can be allocated: (total - reserved) * allocation_ratio.",
            [row[2].capacity for row in rows],
        ),
        (
            "resource_generation",
            "The generation of the provider, which each change raises.",
            [row[0].generation for row in rows],
        ),
    ):
        samples = [Sample(row[1], value) for row, value in zip(rows, numbers, strict=True)]
        yield Family(family, help_text, _CAPACITY_LABELS, samples)


def _root_name(base: state.CloudState, item: record.ProviderRecord) -> str:
    root = base.providers.get(item.root_uuid)
    return root.name if root else item.name


def _allocations(base: state.CloudState) -> Family:
    samples = [
        Sample((base.providers[place].name, uuid, name), amount)
        for uuid, consumer in base.consumers.items()
        for place, resources in consumer.allocations.items()
        for name, amount in resources.items()
    ]
    help_text = "What a consumer has of a provider."
    labels = ("hostname", "uuid", "resourcetype")
    return Family("resource_provider_allocations", help_text, labels, samples)


def _traits(base: state.CloudState, traits: Collection[str]) -> Family:
    samples = [
        Sample((base.providers[uuid].name, trait, _root_name(base, base.providers[uuid])), 1)
        for trait in sorted({*traits})
        for uuid in base.with_trait[trait]
    ]
    labels = ("hostname", "trait", "root")
    return Family("provider_trait", "A selected trait of a provider.", labels, samples)


def _consumers(base: state.CloudState) -> Family:
    samples = [Sample((), len(base.consumers))]
    return Family("consumers", "Consumers with allocations.", (), samples)


def _hosts(
    base: state.CloudState,
    nova: nova_api.Nova,
    compute: ServerHosts,
    not_checked: list[tuple[str, str]],
) -> Iterator[Family]:
    """One series per compute node, to be joined by ``hostname``, and the spread of use.

    None if nova refuses the list of host aggregates.
    """
    try:
        aggregates = nova_api.host_aggregates(nova)
    except errors.PlacementError as error:
        not_checked.append(("host_info", str(error)))
        return
    by_host: dict[str, list[values.HostAggregate]] = collections.defaultdict(list)
    for aggregate in aggregates:
        for host in aggregate.hosts:
            by_host[host].append(aggregate)
    samples = []
    for uuid, item in base.providers.items():
        node = compute.node(uuid)
        if node is not None:
            own = by_host[node.host]
            zones = {aggregate.metadata.get("availability_zone", "") for aggregate in own}
            names = sorted({aggregate.name for aggregate in own})
            labels = (item.name, node.host, ",".join(sorted(zones - {""})), ",".join(names))
            samples.append(Sample(labels, 1))
    help_text = "The availability zone and the host aggregates of a compute node, from nova."
    yield Family("host_info", help_text, ("hostname", "host", "zone", "aggregates"), samples)
    yield from _spreads(spread.spreads(base, compute, aggregates, _WITHIN))


def _spreads(listed: Iterable[spread.Spread]) -> Iterator[Family]:
    """How even the hosts of the cloud, of each zone and of each host aggregate are used."""
    labelled = [((row.kind, row.part, row.name), row) for row in listed]
    labels = ("kind", "name", "resourcetype")
    help_text = "The highest part in use of a host less the lowest."
    yield Family("spread", help_text, labels, [Sample(key, row.spread) for key, row in labelled])
    samples = [
        Sample(key, math.inf if row.at_least is None else row.at_least) for key, row in labelled
    ]
    help_text = f"Fewer moves do not bring the spread to {_WITHIN}; +Inf if none do."
    yield Family("spread_moves", help_text, labels, samples)


def _servers(
    base: state.CloudState,
    services: health.HealthServices,
    compute: ServerHosts,
    not_checked: list[tuple[str, str]],
) -> Family:
    """The servers that nova does not move, by way and nova's rule; ``unknown`` is one of its own.

    An evacuation is checked as if the host was down. The images of servers of which nova does not
    show the properties are not read.
    """
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    asked = nova_request.RequestServices(
        services.require_nova(),
        services.require_neutron,
        _no_glance,
        functools.partial(nova_request.with_trait_in, base),
    )
    try:
        checked = server_check.check(asked, compute, server_check.ServerCheckRequest())
    except errors.PlacementError as error:
        not_checked.append(("servers_not_movable", str(error)))
        checked = []
    for server in checked:
        for way, answer in server.ways.items():
            if answer.answer is not Answer.YES:
                counts[str(way), server.rules.get(way) or "unknown"] += 1
    samples = [Sample(labels, number) for labels, number in sorted(counts.items())]
    help_text = "Servers that nova does not move off their host, by way and rule of nova."
    return Family("servers_not_movable", help_text, ("way", "reason"), samples)


def _no_glance() -> flavors.Glance:
    raise errors.PlacementError("glance is not read for metrics")


def _flavors_per_host(
    base: state.CloudState,
    services: health.HealthServices,
    compute: ServerHosts,
    flavors_read: impact.Impact,
    context: ReadContext,
) -> Family:
    nova = services.require_nova()
    listed = impact.fits_on_each_host(base, nova, compute, context, services.options)
    unknown = {item.name for item in flavors_read.flavors if item.not_checked}
    samples = [
        Sample((name, base.providers[root].name), number)
        for name, by_host in listed.items()
        for root, number in by_host.items()
        if not number or name not in unknown
    ]
    help_text = "Servers of the flavor alone that can start on this host, at least."
    return Family("flavor_host_fits", help_text, ("flavor", "hostname"), samples)


def _projects(
    base: state.CloudState,
    quotas: nova_api.Nova | str,
    not_checked: list[tuple[str, str]],
    context: ReadContext,
) -> Iterator[Family]:
    """The usage of each project in Placement, and its quotas in nova; no limit is infinite."""
    consumers = base.consumers.values()
    counts = collections.Counter(
        item.consumer_type or allocation.UNKNOWN_TYPE for item in consumers
    )
    samples = [Sample((kind,), number) for kind, number in sorted(counts.items())]
    yield Family("consumers_by_type", "Consumers with allocations, by type.", ("type",), samples)
    used: collections.Counter[tuple[str, ...]] = collections.Counter()
    for consumer in consumers:
        for resources in consumer.allocations.values():
            for name, amount in resources.items():
                used[consumer.project_id or "", name] += amount
    labels = ("project_id", "resourcetype")
    samples = [Sample(key, number) for key, number in sorted(used.items())]
    yield Family("project_usage", "What the consumers of a project use.", labels, samples)
    projects = list(dict.fromkeys(key[0] for key in sorted(used)))
    answers: list[list[Sample] | errors.PlacementError | str] = []
    if isinstance(quotas, str):
        answers.append(quotas)
    else:
        # The first one alone: who may not read the quotas of one project may read none.
        answers += (_limits(quotas, project) for project in projects[:1])
        if answers and getattr(answers[0], "status", 0) not in api_errors.ACCESS_DENIED:
            ask = functools.partial(_limits, quotas)
            answers += context.each(ask, projects[1:], "reading quotas")
    not_checked += (("project_quota", str(item)) for item in answers if not isinstance(item, list))
    limits = [sample for item in answers if isinstance(item, list) for sample in item]
    help_text = "Nova's quota of a project; +Inf without a limit."
    yield Family("project_quota", help_text, ("project_id", "quota"), limits)


def _limits(nova: nova_api.Nova, project: str) -> list[Sample] | errors.PlacementError:
    path = f"/os-quota-sets/{urllib.parse.quote(project, safe='')}"
    try:
        body = nova.ask(path, _QUOTA_VERSION)
        with nova_api.parsing(path):
            numbers = {name: int(body["quota_set"][name]) for name in _QUOTAS}
    except errors.PlacementError as error:
        return error
    return [
        Sample((project, name), math.inf if number < 0 else number)
        for name, number in numbers.items()
    ]


def _flavors(read: impact.Impact) -> Iterator[Family]:
    """On how many hosts each flavor fits, and how often.

    A flavor that nova refuses is left out: it is a finding of health. One of which only a part was
    checked has no number, unless no host has room: an alert on a number would never come.
    """
    samples = [Sample((note,), 1) for note in read.notes]
    yield Family("assumed", "What the numbers of flavors assume of nova.", ("text",), samples)
    samples = [Sample((item.name, text), 1) for item in read.flavors for text in item.not_checked]
    help_text = "What was not checked of a flavor: on how many hosts it fits is not known."
    yield Family("flavor_unknown", help_text, ("flavor", "reason"), samples)
    fits = [
        (item.name, item.after) for item in read.flavors if not (item.refused or item.not_checked)
    ]
    samples = [Sample((name,), fit.hosts) for name, fit in fits]
    help_text = "Hosts on which a server of the flavor can start."
    yield Family("flavor_hosts", help_text, ("flavor",), samples)
    samples = [Sample((name,), fit.fits) for name, fit in fits]
    help_text = "Servers of the flavor alone that can start, at least."
    yield Family("flavor_fits", help_text, ("flavor",), samples)


def _findings(
    areas: Sequence[health.Area], not_checked: Iterable[tuple[str, str]]
) -> Iterator[Family]:
    lines = health.lines(areas, today=datetime.datetime.now(datetime.UTC).date())
    counts: Mapping[tuple[str, str], int] = {
        (line.code, str(line.severity)): len(line.subjects) for line in lines if line.subjects
    }
    samples = [Sample(labels, number) for labels, number in sorted(counts.items())]
    help_text = "Problems that placement health show reports, by code."
    yield Family("findings", help_text, ("code", "severity"), samples)
    checked = [Sample((area.name,), float(area.is_complete)) for area in areas]
    yield Family("checked", "Whether health could read this area whole.", ("area",), checked)
    reasons = dict.fromkeys(not_checked) | {
        (area.name, reason): None
        for area in areas
        for reason in (*filter(None, [area.error]), *area.unread, *area.not_checked)
    }
    help_text = "What health did not check, with the reason."
    samples = [Sample(labels, 1) for labels in sorted(reasons)]
    yield Family("not_checked", help_text, ("area", "reason"), samples)
