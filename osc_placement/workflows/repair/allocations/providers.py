# SPDX-License-Identifier: Apache-2.0
"""Providers that are over capacity or that have no compute node. Pure.

The audit does not repair providers: nova-compute reports the inventory of a host, and only the
operator knows whether a provider can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import provider
from osc_placement.model.name import and_more
from osc_placement.nova import flavor
from osc_placement.plan import change, plan, reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import compute_nodes, facts, problem
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.allocations import repair
from osc_placement.workflows.repair.allocations.repair import AllocationFinding, AuditContext
from osc_placement.workflows.repair.findings import Evidence, Finding, Proposal, Remedy

OVER_CAPACITY = problem.warning("over-capacity", "More is allocated than there is.")
CODES = (OVER_CAPACITY, findings.STALE_PROVIDER)

_MORE = "move servers away, or offer more (openstack resource provider inventory amend)"
_OLDER = (
    "over capacity: {names}. A Placement older than 2025.2 refuses to write allocations there:"
    " offer more first (openstack resource provider inventory amend)"
)
_MOST_NAMES = 3
_DELETE = f"{findings.IF_IT_RUNS} openstack resource provider delete --tree"
_EMPTY_FIRST = (
    f"{findings.IF_IT_RUNS} repair the consumers on it; then: openstack resource provider delete"
    " --tree"
)

#: ``{doubt: (why the provider may be right, what to do)}``
_DOUBTS = {
    Code.CELL_DOWN: (
        "the cell of {hosts} is down, and it may be a compute node there",
        Remedy.NONE,
    ),
    Code.UNDISCOVERED_HOST: (
        "host {hosts} has a compute service: nova-manage cell_v2 discover_hosts",
        Remedy.DISCOVER_HOSTS,
    ),
    Code.OTHER_SERVICE: (
        "find out which service uses it; if nova: {remedy}",
        Remedy.IDENTIFY_SERVICE,
    ),
}


def find(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """Findings about providers."""
    for item in snapshot.providers.values():
        if item.uuid in snapshot.read_errors:
            subject = change.Subject(item.name, item.uuid)
            hosts = repair.hosts_of(snapshot, [item.uuid])
            yield findings.unreadable(subject, hosts, snapshot.read_errors[item.uuid])
            continue
        over = _over_capacity(snapshot, item, context)
        if over is not None:
            yield over
        stale = _stale(snapshot, item, context)
        if stale is not None:
            yield stale


def has_use_without_capacity(snapshot: Cloud) -> bool:
    """Whether any class without capacity is in use, as of a one-time-use device."""
    return any(
        offered.capacity <= 0 and snapshot.used.get(uuid, {}).get(name, 0)
        for uuid, inventories in snapshot.inventories.items()
        for name, offered in inventories.items()
    )


def written_over_capacity(snapshot: Cloud, planned: plan.Plan) -> Iterator[str]:
    """The note about providers over capacity to which a plan writes allocations."""
    written = {uuid for item in planned.changes for uuid in item.after.allocations}
    names = [
        snapshot.name_of(uuid)
        for uuid in written
        if any(
            snapshot.used.get(uuid, {}).get(name, 0) > offered.capacity
            for name, offered in facts.value(snapshot.inventories, uuid, {}).items()
        )
    ]
    if names:
        yield _OLDER.format(names=and_more(sorted(names), _MOST_NAMES))


def _over_capacity(
    snapshot: Cloud, item: provider.Provider, context: AuditContext
) -> AllocationFinding | None:
    used = snapshot.used.get(item.uuid, {})
    node = snapshot.compute_nodes.get(item.uuid)
    is_reserved_in_use = item.uuid in context.one_time_use or (node is not None and node.is_ironic)
    over = {
        name: {"used": used[name], "capacity": offered.capacity}
        for name, offered in sorted(snapshot.inventories.get(item.uuid, {}).items())
        if used.get(name, 0) > offered.capacity
        # Nova reserves all of a one-time-use device or Ironic node when a server gets it.
        and not (is_reserved_in_use and offered.capacity <= 0)
    }
    if not over:
        return None
    text = ", ".join(
        f"{name} {amounts['used']} used of {amounts['capacity']}" for name, amounts in over.items()
    )
    return Finding(
        OVER_CAPACITY,
        change.Subject(item.name, item.uuid),
        repair.hosts_of(snapshot, [item.uuid]),
        Evidence(Code.OVER_CAPACITY, text, {"resources": over}),
        Proposal(Remedy.FREE_CAPACITY, _MORE),
    )


def _stale(
    snapshot: Cloud, item: provider.Provider, context: AuditContext
) -> AllocationFinding | None:
    """A root like a compute node's without compute node; other services have such roots too."""
    if item.uuid != snapshot.root_of(item.uuid) or item.uuid in snapshot.compute_nodes:
        return None
    evidence = _nova_evidence(snapshot, item, context)
    offered = snapshot.inventories.get(item.uuid, {}).keys()
    if not evidence and not flavor.HOST_CLASSES & offered:
        return None
    in_use = any(snapshot.used.get(member.uuid) for member in snapshot.trees[item.uuid])
    shown = evidence or Reason(Code.NO_COMPUTE_NODE, "nova has no compute node for it")
    fields = {
        "compute_node_trait": item.uuid in context.computes,
        "recorded_by_nova": item.name in snapshot.recorded_nodes,
        "in_use": in_use,
    }
    stale: AllocationFinding = Finding(
        findings.STALE_PROVIDER,
        change.Subject(item.name, item.uuid),
        (item.name,),
        Evidence(shown.code, shown.text, fields),
        Proposal(Remedy.REPAIR_CONSUMERS, _EMPTY_FIRST)
        if in_use
        else Proposal(Remedy.DELETE_PROVIDER, _DELETE),
    )
    doubt = compute_nodes.why_not_stale(snapshot.hosts, item, was_node=bool(evidence))
    if doubt is None:
        return stale
    hosts = ", ".join(doubt.hosts)
    text, action = _DOUBTS[doubt.code]
    text = text.format(hosts=hosts, remedy=stale.proposed.text)
    return stale.as_unknown(Reason(doubt.code, text), action)


def _nova_evidence(snapshot: Cloud, item: provider.Provider, context: AuditContext) -> Reason:
    """The evidence that a provider was a compute node's; empty if there is none."""
    if item.name in snapshot.hostnames:
        return Reason(Code.OTHER_UUID, "nova's compute node of this name has another UUID")
    if item.uuid in context.computes:
        text = "nova has no compute node for it, but it has the trait COMPUTE_NODE"
        return Reason(Code.NO_COMPUTE_NODE, text)
    if item.name in snapshot.recorded_nodes:
        return Reason(Code.NO_COMPUTE_NODE, "nova has no compute node for it any more")
    return reasons.NONE
