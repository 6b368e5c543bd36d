"""Reads what heal needs and plans: for ``allocation heal`` and its data migration."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from osc_placement.client import api
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import plan
from osc_placement.workflows.allocations import needs, plans
from osc_placement.workflows.allocations.heal.plan import plan_heal
from osc_placement.workflows.allocations.observe import CloudReader
from osc_placement.workflows.allocations.request import HealRequest
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.context import ReadContext


def plan_healing(
    client: api.Client,
    nova: nova_api.Nova,
    request: HealRequest,
    context: ReadContext | None = None,
    *,
    neutron: neutron_api.Neutron | None = None,
) -> plan.ObservedPlan:
    """The plan that gives the servers in scope what they lack; it removes nothing.

    Requests: ``CloudReader.read_cloud``; one per owner of servers, and one per consumer whose
    amounts may explain that an owner's sums differ, at most ``owners.MOST_READS`` (with
    ``check_owners``: one per consumer); one for each host on which
    servers lack something and for each provider that shares with it; for devices one per
    provider of the tree, and one query per host and flavor. To neutron one for 64 servers that
    lack something or are on a host with devices. To nova one for each server without
    allocations that has an image and volumes.
    Applying the plan: one write for 64 servers; one read and one write for a server with ports.
    Errors: as ``read_cloud``, and those of neutron.
    """
    reader = CloudReader(client, nova, neutron, context, request)
    snapshot = reader.complete(reader.read_cloud(), needs.HEAL_ROUNDS, reader.request)
    return _plan(snapshot, reader.request, nova.source)


def plan_missing(
    client: api.Client,
    nova: nova_api.Nova,
    request: HealRequest,
    context: ReadContext | None = None,
    *,
    neutron: neutron_api.Neutron | None = None,
    after: str = "",
) -> Iterator[tuple[str, plan.ObservedPlan]]:
    """Plans for some hosts at a time, without owners.

    Yields ``(position, plan)``; ``after`` is a position to continue from.
    Requests: ``CloudReader.read_parts``, then as ``plan_healing`` without owners.
    """
    reader = CloudReader(client, nova, neutron, context, request)
    for scope, snapshot in reader.read_parts(after):
        part = dataclasses.replace(reader.request, scope=scope)
        snapshot = reader.complete(snapshot, needs.MISSING_ROUNDS, part)
        yield max(scope.hosts or ()), _plan(snapshot, part, nova.source)


def _plan(snapshot: CloudSnapshot, request: HealRequest, source: str) -> plan.ObservedPlan:
    """The plan; ``source`` names the recording if nova's responses are recorded."""
    notes = needs.unchecked_owners(snapshot, request)
    if source:
        notes.append(f"nova's responses come from {source}")
    if source and snapshot.ports:
        notes.append(
            f"neutron's responses come from {source}: the binding profiles of ports are not written"
        )
    planned = plan_heal(snapshot, request)
    return plans.observed_plan(dataclasses.replace(planned, notes=tuple(notes)), snapshot)
