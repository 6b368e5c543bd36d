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
from osc_placement.nova import flavor
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.cloud import compute_nodes, problem
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.findings import UNKNOWN, Remedy
from osc_placement.workflows.repair.providers.observe import (
    AuditedCloud,
    ProviderFinding,
    ProviderProblem,
)

MISSING_PROVIDER = ProviderProblem(
    problem.error(
        "missing-provider", "Placement does not have a compute host: no server starts there."
    ),
    Code.NO_PROVIDER,
    Remedy.RESTART_COMPUTE,
    "start nova-compute on the host; it creates the provider",
)
#: Nova-compute cannot create the provider: names of providers are unique.
_NAME_TAKEN = ProviderProblem(
    MISSING_PROVIDER.code,
    Code.SAME_HOST,
    Remedy.CHECK_CONFIGURATION,
    "give one of the two hosts another hostname, before servers run on it",
)
OTHER_UUID = ProviderProblem(
    problem.error(
        "other-uuid", "Placement has a host under another UUID, as after a reinstallation."
    ),
    Code.OTHER_UUID,
    Remedy.REPAIR_CONSUMERS,
    "openstack resource provider consumer list names the consumers on it; without any: openstack"
    " resource provider delete, and restart nova-compute. With servers: openstack placement recipe"
    " replace-host",
)
OTHER_NAME = ProviderProblem(
    problem.error("other-name", "Placement has a host under another name."),
    Code.OTHER_NAME,
    Remedy.CHECK_CONFIGURATION,
    "openstack resource provider set --name {hostname}",
)
DOUBLE_PROVIDER = ProviderProblem(
    problem.error("double-provider", "Placement has a host twice, by its short and its full name."),
    Code.SAME_HOST,
    Remedy.DELETE_PROVIDER,
    "repair the consumers on it (openstack placement allocation audit); then openstack resource"
    " provider delete",
)
STALE_PROVIDER = ProviderProblem(
    findings.STALE_PROVIDER,
    Code.NO_COMPUTE_NODE,
    Remedy.REPAIR_CONSUMERS,
    f"{findings.IF_IT_RUNS} openstack placement allocation audit names the consumers on it;"
    " without any: openstack resource provider delete --tree",
)
IDENTITY_CODES = tuple(
    item.code
    for item in (MISSING_PROVIDER, OTHER_UUID, OTHER_NAME, DOUBLE_PROVIDER, STALE_PROVIDER)
)

#: A root like a compute node's that may be right. Nothing while a cell is down: nova cannot list
#: its nodes.
_DOUBTS = {
    Code.CELL_DOWN: None,
    Code.UNDISCOVERED_HOST: ProviderProblem(
        UNKNOWN,
        Code.UNDISCOVERED_HOST,
        Remedy.DISCOVER_HOSTS,
        "nova-manage cell_v2 discover_hosts",
    ),
    Code.OTHER_SERVICE: ProviderProblem(
        UNKNOWN,
        Code.OTHER_SERVICE,
        Remedy.IDENTIFY_SERVICE,
        "find out which service uses it",
    ),
}


def find_identity(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Findings about each compute node, then about its second provider."""
    by_short: dict[str, list[provider.Provider]] = collections.defaultdict(list)
    for item in audited.cloud.roots.values():
        by_short[_short(item.name)].append(item)
    double = set()
    for node in audited.cloud.hosts.nodes:
        of_name, hosts = audited.cloud.roots.get(node.hostname), (node.host,)
        of_uuid = audited.cloud.providers.get(node.uuid)
        if of_uuid is not None and of_uuid.name != node.hostname:
            text = f"nova's compute node of this UUID is called {node.hostname}"
            yield OTHER_NAME.about(of_uuid, hosts, text, {"hostname": node.hostname})
        elif of_uuid is None and (twin := audited.cloud.name_taken_by(node)) is not None:
            text = f"nova has two compute nodes of this name, and {twin.host} has the provider"
            missing = change.Subject(node.hostname, node.uuid)
            yield _NAME_TAKEN.about(missing, hosts, text, {"node": node.uuid, "other": twin.uuid})
        elif of_uuid is None and of_name is not None:
            text = f"nova's compute node of this name has the UUID {node.uuid}"
            yield OTHER_UUID.about(of_name, hosts, text, {"node": node.uuid})
        elif of_uuid is None:
            text = "nova has this compute node, and Placement has no provider of its UUID or name"
            missing = change.Subject(node.hostname, node.uuid)
            yield MISSING_PROVIDER.about(missing, hosts, text, {"node": node.uuid})
        for other in by_short.get(_short(node.hostname), ()):
            if not _may_be_a_node(audited, other) and _same_host(other.name, node.hostname):
                double.add(other.uuid)
                text = f"it has the name of host {node.host} in another form; nova's is"
                text += f" {node.hostname}"
                fields = {"node": node.uuid, "hostname": node.hostname}
                yield DOUBLE_PROVIDER.about(other, hosts, text, fields)
    for item in audited.roots_without_node:
        if item.uuid not in double:
            yield from _stale(audited, item)


def _stale(audited: AuditedCloud, item: provider.Provider) -> Iterator[ProviderFinding]:
    """A root like a compute node's; ``unknown`` if nova may still have the node."""
    is_compute = item.uuid in audited.having("COMPUTE_NODE")
    if not is_compute and not flavor.HOST_CLASSES & audited.offered(item).keys():
        return
    doubt = compute_nodes.why_not_stale(audited.cloud.hosts, item, was_node=is_compute)
    kind = _DOUBTS[doubt.code] if doubt else STALE_PROVIDER
    trait = "it has the trait COMPUTE_NODE" if is_compute else "it has inventory as a host has"
    text = f"nova has no compute node for it, and {trait}"
    if kind is not None:
        yield kind.about(item, (item.name,), text, {"compute_node_trait": is_compute})


def _may_be_a_node(audited: AuditedCloud, item: provider.Provider) -> bool:
    """True if nova lists this node, or if some cells did not answer."""
    return bool(audited.cloud.hosts.unreachable) or item.uuid in audited.cloud.compute_nodes


def _same_host(name: str, hostname: str) -> bool:
    """Whether one is the short form of the other; two domains can have hosts of one name.

    Both have the same short form.
    """
    return name != hostname and _short(name) in (name, hostname)


def _short(name: str) -> str:
    return name.partition(".")[0]
