# SPDX-License-Identifier: Apache-2.0
"""The allocation ratios of nova's host aggregates, set on the inventories of their hosts.

Nova's old filters of CPU, RAM and disk read these keys of the metadata at each scheduling decision.
A host in several aggregates had the smallest value, and its own ratio where a value was invalid.
Placement has ratios of inventories only. ``plan_aggregate_ratios`` reads; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import decimal
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.nova import flavor, values
from osc_placement.nova.api import Nova
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import inventories
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.batch import amend, batch
from osc_placement.workflows.cloud import selector, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.compute_nodes import (
    aggregates_state,
    host_names,
    unknown_hosts,
)
from osc_placement.workflows.cloud.context import ReadContext

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateRatioRequest:
    """The operator's arguments; without hosts and host aggregates (names, ids or UUIDs), all.

    A host of a selected aggregate gets the smallest value of all its aggregates. ``allow`` are
    the guards that the operator overrides.
    """

    hosts: frozenset[str] = frozenset()
    host_aggregates: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()


def plan_aggregate_ratios(
    client: api.Client,
    nova: Nova,
    request: AggregateRatioRequest,
    context: ReadContext | None = None,
) -> plan.ObservedPlan:
    """Plan the ratios of the metadata for the compute nodes of the selected hosts.

    Requests: those of ``source.read``, and one GET per compute node with a ratio. If a ratio
    becomes smaller, one query for the usages, and one GET per full provider.
    Errors: InvalidInput with every unknown name, or with every missing permission.
    """
    context = context or ReadContext()
    cloud = source.read(client, nova, with_aggregates=True)
    hosts = _selected_hosts(cloud, request)
    by_provider, skipped = ratios_of(cloud, hosts)
    chosen = tuple(item for item in cloud.providers.values() if item.uuid in by_provider)
    LOG.info("%d compute nodes are in aggregates with ratios", len(chosen))

    def requested(item: amend.Offered) -> amend.AmendRequest:
        assignments = by_provider[item.provider.uuid].assignments(item.inventories)
        return amend.AmendRequest(assignments, allow=request.allow)

    def decide(observed: Sequence[amend.Offered]) -> plan.Plan:
        items = [
            _decide(item, by_provider[item.provider.uuid], requested(item)) for item in observed
        ]
        return amend.plan_items(observed, items, request.allow)

    planned = batch.plan_observed(
        client,
        # The listing of all providers had no filters.
        selector.Selection(chosen, filters={}),
        lambda item: amend.amended(item, requested(item)),
        decide,
        context,
        request.allow,
    )
    return dataclasses.replace(planned, plan=batch.with_skipped(planned.plan, skipped))


def _selected_hosts(cloud: Cloud, request: AggregateRatioRequest) -> frozenset[str] | None:
    """The selected hosts; None for all. Errors: InvalidInput with every unknown name."""
    requested = host_names(request.hosts, cloud.hosts)
    input_errors = errors.InputErrors(unknown_hosts(requested, cloud.existing_hosts))
    by_text = values.find_host_aggregates(cloud.aggregates, request.host_aggregates, input_errors)
    input_errors.check()
    members = frozenset(host for aggregate in by_text.values() for host in aggregate.hosts)
    if not request.host_aggregates:
        return requested or None
    return members & requested if requested else members


_KIND = inventories.TYPE.name

#: ``{metadata key: resource class}``
CLASSES: Mapping[str, str] = {
    "cpu_allocation_ratio": flavor.VCPU,
    "ram_allocation_ratio": flavor.MEMORY_MB,
    "disk_allocation_ratio": flavor.DISK_GB,
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Value:
    """One value in the metadata of a host aggregate; ``ratio`` is None if it is invalid."""

    aggregate: values.HostAggregate
    key: str
    ratio: decimal.Decimal | None

    @property
    def text(self) -> str:
        return f"{self.key}={self.aggregate.metadata[self.key]!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class HostRatios:
    """The values for one host, by resource class, from all its aggregates.

    ``state`` is what a change of them depends on.
    """

    values: Mapping[str, Sequence[_Value]]
    state: change.AggregatesState

    def assignments(self, classes: Iterable[str]) -> tuple[amend.Assignment, ...]:
        """The smallest ratio of each of ``classes``; none of a class with an invalid value."""
        return tuple(
            amend.Assignment(name, "allocation_ratio", "=", smallest)
            for name in self.values
            if name in classes and (smallest := self._smallest(name)) is not None
        )

    def reasons(self, classes: Iterable[str]) -> Iterator[Reason]:
        """Where each ratio comes from, and why a class gets none."""
        for name, items in self.values.items():
            smallest = self._smallest(name)
            if name not in classes:
                yield Reason(Code.NO_INVENTORY, f"it has no {name}")
            elif smallest is None:
                invalid = ", ".join(item.aggregate.name for item in items if item.ratio is None)
                yield Reason(Code.INVALID_VALUE, f"{name}: invalid value in {invalid}")
            else:
                names = sorted({value.aggregate.name for value in items if value.ratio == smallest})
                yield Reason(text=f"{name} from {', '.join(names)}")

    def _smallest(self, name: str) -> decimal.Decimal | None:
        ratios = [item.ratio for item in self.values[name]]
        return None if None in ratios else min(filter(None, ratios))


def _decide(observed: amend.Offered, ratios: HostRatios, request: amend.AmendRequest) -> amend.Item:
    """Change the ratios of a provider, or skip it with the reason."""
    reasons = list(ratios.reasons(observed.inventories))
    text = "; ".join(map(str, reasons))
    if not request.assignments:
        return change.Skipped(_KIND, observed.subject, reason=text, code=reasons[0].code)
    item = amend.decide(observed, request)
    item = dataclasses.replace(item, reason="; ".join(filter(None, (text, item.reason))))
    if isinstance(item, change.Skipped):
        return item
    precondition = change.Precondition(aggregates=ratios.state)
    return dataclasses.replace(item, precondition=precondition)


def ratios_of(
    cloud: Cloud, hosts: frozenset[str] | None
) -> tuple[dict[str, HostRatios], list[change.Skipped]]:
    """``{provider uuid: the ratios of its host}`` for ``hosts``, or all hosts if it is None.

    An invalid value, and a host without a provider, is skipped.
    """
    by_host: dict[str, dict[str, list[_Value]]] = {}
    skipped = []
    for value in _values(cloud.aggregates):
        selected = [host for host in value.aggregate.hosts if hosts is None or host in hosts]
        for host in selected:
            by_class = by_host.setdefault(host, {})
            by_class.setdefault(CLASSES[value.key], []).append(value)
        if value.ratio is None and selected:
            skipped.append(_invalid(value))
    by_provider = {}
    for host, by_class in by_host.items():
        providers, missing = cloud.providers_of(host)
        state = aggregates_state(cloud.aggregates, host, keys=CLASSES)
        by_provider.update({item.uuid: HostRatios(by_class, state) for item in providers})
        skipped += [_missing(subject, cloud) for subject in missing]
    return by_provider, skipped


def _values(aggregates: Iterable[values.HostAggregate]) -> Iterator[_Value]:
    for aggregate in aggregates:
        for key in CLASSES:
            if key in aggregate.metadata:
                yield _Value(aggregate, key, _parsed(aggregate.metadata[key]))


def _parsed(text: str) -> decimal.Decimal | None:
    try:
        ratio = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    # Placement's ratios are floats: a decimal such as 1e400 is infinite there.
    return ratio if ratio.is_finite() and 0 < float(ratio) < math.inf else None


def _invalid(value: _Value) -> change.Skipped:
    subject = change.Subject(value.aggregate.name, value.aggregate.uuid)
    text = f"{value.text} is not a number above 0: 'openstack aggregate set --property' corrects it"
    return change.Skipped(_KIND, subject, reason=text, code=Code.INVALID_VALUE, refused=True)


def _missing(subject: change.Subject, cloud: Cloud) -> change.Skipped:
    reason = cloud.why_missing(subject)
    return change.Skipped(_KIND, subject, reason=reason.text, code=reason.code, refused=True)
