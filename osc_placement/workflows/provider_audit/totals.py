"""Inventories of compute nodes compared with what nova-compute reported of the hypervisor. Pure.

Both come from nova-compute, in one periodic run. A difference shows that its update of Placement
failed, or that another client changed the inventory.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping

from osc_placement.model import provider
from osc_placement.nova import flavor
from osc_placement.plan.reasons import Code
from osc_placement.workflows.findings import Action, Evidence, Finding, Proposal
from osc_placement.workflows.provider_audit.snapshot import (
    HostNode,
    ProviderFinding,
    ProviderSnapshot,
)

MISSING_INVENTORY = "missing-inventory"
WRONG_INVENTORY = "wrong-inventory"
CODES = (MISSING_INVENTORY, WRONG_INVENTORY)

#: Libvirt's. Other drivers report other amounts of a hypervisor than of its inventories.
_TYPES = frozenset({"QEMU", "KVM"})

#: A host can have its disk on a sharing provider, which has no DISK_GB of its own then.
_REQUIRED = (flavor.VCPU, flavor.MEMORY_MB)
_COMPARED = (*_REQUIRED, flavor.DISK_GB)

_RESTART = Proposal(
    Action.RESTART_COMPUTE, "see the log of nova-compute on the host, and restart it"
)


def find(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Findings about each compute node of libvirt with a provider."""
    trees = snapshot.trees
    for item in snapshot.host_nodes:
        tree = trees[item.provider.root_uuid or item.provider.uuid]
        is_complete = all(each.uuid in snapshot.inventories for each in tree)
        if item.node.hypervisor[0] in _TYPES and is_complete:
            yield from _compare(item, _totals(snapshot, tree))


def _totals(snapshot: ProviderSnapshot, tree: list[provider.Provider]) -> Mapping[str, int]:
    """``{class: total}`` over a tree: VCPU can be on NUMA nodes; a pinned CPU is PCPU."""
    totals: collections.Counter[str] = collections.Counter()
    for each in tree:
        for name, item in snapshot.inventories[each.uuid].items():
            totals[name] += item.total
    return totals


def _compare(item: HostNode, totals: Mapping[str, int]) -> Iterator[ProviderFinding]:
    hosts = (item.node.host,)
    missing = [name for name in _REQUIRED if not _has(totals, name)]
    if missing:
        text = f"it has no inventory of {', '.join(missing)}"
        evidence = Evidence(Code.NO_INVENTORY, text, {"classes": missing})
        yield Finding(MISSING_INVENTORY, item.subject, hosts, evidence, _RESTART)
    wrong = {
        name: {"total": totals[name], "hypervisor": item.node.resources[name]}
        for name in _COMPARED
        if totals.get(name) and not _is_right(totals, name, item.node.resources)
    }
    if wrong:
        text = ", ".join(
            f"{name} total {each['total']}, the hypervisor has {each['hypervisor']}"
            for name, each in wrong.items()
        )
        evidence = Evidence(Code.DIFFERENT_TOTAL, text, {"resources": wrong})
        yield Finding(WRONG_INVENTORY, item.subject, hosts, evidence, _RESTART)


def _has(totals: Mapping[str, int], name: str) -> bool:
    """A host can dedicate all its CPUs to pinned servers."""
    return bool(totals.get(name)) or (name == flavor.VCPU and bool(totals.get(flavor.PCPU)))


def _is_right(totals: Mapping[str, int], name: str, reported: Mapping[str, int]) -> bool:
    """Nova reports of a host with PCPU all CPUs, or only those of VCPU, by its version."""
    if name not in reported:
        return True
    pinned = totals.get(flavor.PCPU, 0) if name == flavor.VCPU else 0
    return reported[name] in (totals[name], totals[name] + pinned)
