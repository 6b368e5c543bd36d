# SPDX-License-Identifier: Apache-2.0
"""Computes metrics of a cloud for Prometheus: capacity, traits, consumers, flavors and findings.

Everything comes from one file, a snapshot or any database file, so the figures belong together.
``read`` evaluates it; ``text`` is Prometheus' text format. The names of capacity are those of
openstack-exporter. The findings are those of ``placement health show``. An area of health that
could not be read whole has the value 0 in ``openstack_placement_checked``; what was not checked is
counted by area and reason in ``openstack_placement_not_checked``.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.engine import state
from osc_placement.model import allocation
from osc_placement.workflows.cloud import compute_nodes, observe
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.health import health, impact

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


_CAPACITY_LABELS = ("hostname", "resourcetype")


def read(
    services: health.HealthServices,
    context: ReadContext,
    traits: Collection[str] = (),
    saved: float | None = None,
) -> list[Family]:
    """All families of a file; the providers with one of ``traits`` are listed by name.

    ``saved`` is when the cloud was read, in seconds since the epoch.
    Requests: none to Placement, because the client of ``services`` reads a file. If nova and
    neutron are not recorded in it: those of ``health.examine``, one for the version of nova, and
    one per 1000 flavors.
    Errors: PlacementError for a service in place of a file.
    """
    with observe.file_state(services.client, "placement metrics write") as base:
        families = [
            *_capacity(base),
            _traits(base, traits),
            _consumers(base),
            *_flavors(base, services, context),
        ]
    families += _findings(health.examine(services, context))
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
                    gauge.add_metric([_encodable(label) for label in sample.labels], sample.value)
                yield gauge

    collectors = prometheus_client.CollectorRegistry(auto_describe=False)
    collectors.register(Collector())
    return prometheus_client.generate_latest(collectors).decode()


def _encodable(label: str) -> str:
    """The label with "?" in place of what UTF-8 cannot encode."""
    return label.encode("utf-8", "replace").decode()


def _capacity(base: state.CloudState) -> Iterator[Family]:
    """Five families with a sample per provider and class; openstack-exporter has the same names."""
    rows = [
        (item.name, name, inventory, base.used(uuid).get(name, 0))
        for uuid, item in base.providers.items()
        for name, inventory in item.inventories.items()
    ]
    for family, help_text, values in (
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
    ):
        samples = [Sample(row[:2], value) for row, value in zip(rows, values, strict=True)]
        yield Family(family, help_text, _CAPACITY_LABELS, samples)


def _traits(base: state.CloudState, traits: Collection[str]) -> Family:
    samples = [
        Sample((base.providers[uuid].name, trait), 1)
        for trait in sorted({*traits})
        for uuid in base.with_trait[trait]
    ]
    return Family(
        "provider_trait", "A selected trait of a provider.", ("hostname", "trait"), samples
    )


def _consumers(base: state.CloudState) -> Family:
    counts = collections.Counter(
        item.consumer_type or allocation.UNKNOWN_TYPE for item in base.consumers.values()
    )
    samples = [Sample((kind,), number) for kind, number in sorted(counts.items())]
    return Family("consumers", "Consumers with allocations, by type.", ("type",), samples)


def _flavors(
    base: state.CloudState, services: health.HealthServices, context: ReadContext
) -> Iterator[Family]:
    """On how many hosts each flavor fits, and how often; flavors that nova refuses are left out."""
    if isinstance(services.nova, str):
        # A text is the reason why nova was not read.
        return
    compute = compute_nodes.read_server_hosts(services.nova)
    listed = impact.fits(base, services.nova, compute, context)
    # A refused flavor is a finding of health.
    fits = {item.name: item.after for item in listed if not item.refused}
    for family, help_text, values in (
        (
            "flavor_hosts",
            "Hosts on which a server of the flavor can start.",
            {name: fit.hosts for name, fit in fits.items()},
        ),
        (
            "flavor_fits",
            "Servers of the flavor alone that can start, at least.",
            {name: fit.fits for name, fit in fits.items()},
        ),
    ):
        samples = [Sample((name,), value) for name, value in values.items()]
        yield Family(family, help_text, ("flavor",), samples)


def _findings(areas: Sequence[health.Area]) -> Iterator[Family]:
    lines = health.lines(areas, today=datetime.datetime.now(datetime.UTC).date())
    counts: Mapping[tuple[str, str], int] = {
        (line.code, str(line.severity)): len(line.subjects) for line in lines if line.subjects
    }
    samples = [Sample(labels, number) for labels, number in sorted(counts.items())]
    help_text = "Problems that placement health show reports, by code."
    yield Family("findings", help_text, ("code", "severity"), samples)
    checked = [Sample((area.name,), float(area.is_complete)) for area in areas]
    yield Family("checked", "Whether health could read this area whole.", ("area",), checked)
    reasons = {
        (area.name, reason): None
        for area in areas
        for reason in (*filter(None, [area.error]), *area.unread, *area.not_checked)
    }
    help_text = "What health did not check, with the reason."
    not_checked = [Sample(labels, 1) for labels in sorted(reasons)]
    yield Family("not_checked", help_text, ("area", "reason"), not_checked)
