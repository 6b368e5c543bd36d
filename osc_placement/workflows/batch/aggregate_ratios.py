"""Setting the allocation ratios of nova's host aggregates on the inventories of their hosts."""

from __future__ import annotations

import dataclasses
import logging

from osc_placement import errors
from osc_placement.client import api
from osc_placement.nova import api as nova_api, lookup
from osc_placement.plan import plan
from osc_placement.workflows import selector
from osc_placement.workflows.batch import plan as batch_plan, ratios
from osc_placement.workflows.compute_nodes import ComputeCloud, ComputeNodes, observe_cloud
from osc_placement.workflows.context import ReadContext

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
    nova: nova_api.Nova,
    request: AggregateRatioRequest,
    context: ReadContext | None = None,
) -> plan.ObservedPlan:
    """Plan the ratios of the metadata for the compute nodes of the selected hosts.

    Requests: those of ``observe_cloud``, and one GET per compute node with a ratio. If a ratio
    becomes smaller, one query for the usages, and one GET per full provider.
    Errors: InvalidInput with every unknown name, or with every missing permission.
    """
    context = context or ReadContext()
    cloud = observe_cloud(client, nova)
    hosts = _selected_hosts(cloud, request)
    nodes = ComputeNodes(cloud.hosts, cloud.providers)
    requested = ratios.request_of(cloud.aggregates, nodes, hosts, request.allow)
    chosen = tuple(item for item in cloud.providers if item.uuid in requested.by_provider)
    LOG.info("%d compute nodes are in aggregates with ratios", len(chosen))
    # The listing of all providers had no filters.
    selection = selector.Selection(chosen, filters={})
    planned = batch_plan.plan_observed(client, selection, requested.of, requested.plan, context)
    return dataclasses.replace(
        planned, plan=batch_plan.with_skipped(planned.plan, requested.skipped)
    )


def _selected_hosts(cloud: ComputeCloud, request: AggregateRatioRequest) -> frozenset[str] | None:
    """The selected hosts; None for all. Errors: InvalidInput with every unknown name."""
    input_errors = errors.InputErrors(cloud.unknown_hosts(request.hosts))
    found = lookup.find_host_aggregates(cloud.aggregates, request.host_aggregates, input_errors)
    input_errors.check()
    members = frozenset(host for each in found.values() for host in each.hosts)
    if not request.host_aggregates:
        return request.hosts or None
    return members & request.hosts if request.hosts else members
