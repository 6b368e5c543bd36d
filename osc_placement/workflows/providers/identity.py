# SPDX-License-Identifier: Apache-2.0
"""Compute nodes whose provider is missing, has another UUID or name, or exists twice. Pure.

And providers whose compute node is missing.

A node without its provider gets no servers. A provider with the node's name and another UUID
makes nova-compute fail to create its own.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

from osc_placement.model import provider
from osc_placement.nova import flavor, values
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows import compute_nodes
from osc_placement.workflows.findings import UNKNOWN, Evidence, Finding, Proposal, Remedy
from osc_placement.workflows.providers.observe import ProviderFinding, ProviderSnapshot

MISSING_PROVIDER = "missing-provider"
OTHER_UUID = "other-uuid"
OTHER_NAME = "other-name"
DOUBLE_PROVIDER = "double-provider"
STALE_PROVIDER = "stale-provider"
IDENTITY_CODES = (MISSING_PROVIDER, OTHER_UUID, OTHER_NAME, DOUBLE_PROVIDER, STALE_PROVIDER)

_RESTART = Proposal(
    Remedy.RESTART_COMPUTE, "start nova-compute on the host; it creates the provider"
)
_REPLACE = "placement recipe replace-host: its allocations move to a provider of the node's UUID"
_RENAME = "resource provider set --name {name}"
_STALE = Proposal(
    Remedy.REPAIR_CONSUMERS,
    "placement allocation audit names the consumers on it; without any: resource provider delete"
    " --tree",
)
_DOUBTS = {
    Code.UNDISCOVERED_HOST: Proposal(Remedy.DISCOVER_HOSTS, "nova-manage cell_v2 discover_hosts"),
    Code.OTHER_SERVICE: Proposal(Remedy.IDENTIFY_SERVICE, "find out which service uses it"),
}
_DELETE = "repair the consumers on it (placement allocation audit); then resource provider delete"


def find_identity(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Findings about each compute node, then about its second provider."""
    roots = snapshot.roots
    by_short: dict[str, list[provider.Provider]] = collections.defaultdict(list)
    for item in roots.values():
        by_short[_short(item.name)].append(item)
    double = set()
    for node in snapshot.hosts.nodes:
        of_uuid, of_name = snapshot.providers.get(node.uuid), roots.get(node.hostname)
        if of_uuid is None and of_name is None:
            yield _missing(node)
        elif of_uuid is None and of_name is not None:
            yield _other_uuid(node, of_name)
        elif of_uuid is not None and of_uuid.name != node.hostname:
            yield _other_name(node, of_uuid)
        for other in by_short.get(_short(node.hostname), ()):
            if not _may_be_a_node(snapshot, other) and _same_host(other.name, node.hostname):
                double.add(other.uuid)
                yield _double(node, other)
    for item in snapshot.roots_without_node:
        if item.uuid not in double:
            yield from _stale(snapshot, item)


def _missing(node: values.ComputeNode) -> ProviderFinding:
    text = "nova has this compute node, and Placement has no provider of its UUID or name"
    fields = {"node": node.uuid}
    subject = change.Subject(node.hostname, node.uuid)
    evidence = Evidence(Code.NO_PROVIDER, text, fields)
    return Finding(MISSING_PROVIDER, subject, (node.host,), evidence, _RESTART)


def _other_uuid(node: values.ComputeNode, item: provider.Provider) -> ProviderFinding:
    text = f"nova's compute node of this name has the UUID {node.uuid}"
    return Finding(
        OTHER_UUID,
        change.Subject(item.name, item.uuid),
        (node.host,),
        Evidence(Code.OTHER_UUID, text, {"node": node.uuid}),
        Proposal(Remedy.REPAIR_CONSUMERS, _REPLACE),
    )


def _other_name(node: values.ComputeNode, item: provider.Provider) -> ProviderFinding:
    text = f"nova's compute node of this UUID is called {node.hostname}"
    return Finding(
        OTHER_NAME,
        change.Subject(item.name, item.uuid),
        (node.host,),
        Evidence(Code.OTHER_NAME, text, {"hostname": node.hostname}),
        Proposal(Remedy.CHECK_CONFIGURATION, _RENAME.format(name=node.hostname)),
    )


def _double(node: values.ComputeNode, item: provider.Provider) -> ProviderFinding:
    text = f"it has the name of host {node.host} in another form; nova's is {node.hostname}"
    return Finding(
        DOUBLE_PROVIDER,
        change.Subject(item.name, item.uuid),
        (node.host,),
        Evidence(Code.SAME_HOST, text, {"node": node.uuid, "hostname": node.hostname}),
        Proposal(Remedy.DELETE_PROVIDER, _DELETE),
    )


def _stale(snapshot: ProviderSnapshot, item: provider.Provider) -> Iterator[ProviderFinding]:
    """A root like a compute node's; ``unknown`` if nova may still have the node.

    Nothing while a cell is down: nova cannot list its nodes.
    """
    is_compute = item.uuid in snapshot.computes
    if not is_compute and not flavor.HOST_CLASSES & snapshot.inventories.get(item.uuid, {}).keys():
        return
    doubt = compute_nodes.why_not_stale(snapshot.hosts, item, was_node=is_compute)
    code, cause, proposed = STALE_PROVIDER, Code.NO_COMPUTE_NODE, _STALE
    if doubt is not None:
        if doubt.code is Code.CELL_DOWN:
            return
        code, cause, proposed = UNKNOWN, doubt.code, _DOUBTS[doubt.code]
    trait = "it has the trait COMPUTE_NODE" if is_compute else "it has inventory as a host has"
    yield Finding(
        code,
        change.Subject(item.name, item.uuid),
        (item.name,),
        Evidence(
            cause,
            f"nova has no compute node for it, and {trait}",
            {"compute_node_trait": is_compute},
        ),
        proposed,
    )


def _may_be_a_node(snapshot: ProviderSnapshot, item: provider.Provider) -> bool:
    """True if nova lists this node, or if some cells did not answer."""
    return bool(snapshot.hosts.unreachable) or item.uuid in snapshot.compute_nodes


def _same_host(name: str, hostname: str) -> bool:
    """Whether one is the short form of the other; two domains can have hosts of one name.

    Both have the same short form.
    """
    return name != hostname and _short(name) in (name, hostname)


def _short(name: str) -> str:
    return name.partition(".")[0]
