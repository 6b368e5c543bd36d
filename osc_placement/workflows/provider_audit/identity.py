"""Compute nodes whose provider is missing, has another UUID or name, or exists twice. Pure.

A node without its provider gets no servers. A provider with the node's name and another UUID
makes nova-compute fail to create its own.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

from osc_placement.model import provider
from osc_placement.nova import values
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.finding import Action, Evidence, Proposal
from osc_placement.workflows.provider_audit.finding import Finding
from osc_placement.workflows.provider_audit.snapshot import ProviderSnapshot

MISSING_PROVIDER = "missing-provider"
OTHER_UUID = "other-uuid"
OTHER_NAME = "other-name"
DOUBLE_PROVIDER = "double-provider"
CODES = (MISSING_PROVIDER, OTHER_UUID, OTHER_NAME, DOUBLE_PROVIDER)

_RESTART = Proposal(
    Action.RESTART_COMPUTE, "start nova-compute on the host; it creates the provider"
)
_REPLACE = (
    "placement reshape recipe replace-host: its allocations move to a provider of the node's UUID"
)
_RENAME = "resource provider set --name {name}"
_DELETE = "repair the consumers on it (placement allocation audit); then resource provider delete"


def find(snapshot: ProviderSnapshot) -> Iterator[Finding]:
    """Findings about each compute node, then about its second provider."""
    by_uuid, roots = snapshot.by_uuid, snapshot.roots
    by_short: dict[str, list[provider.Provider]] = collections.defaultdict(list)
    for item in roots.values():
        by_short[_short(item.name)].append(item)
    for node in snapshot.nodes:
        of_uuid, of_name = by_uuid.get(node.uuid), roots.get(node.hostname)
        if of_uuid is None and of_name is None:
            yield _missing(node)
        elif of_uuid is None and of_name is not None:
            yield _other_uuid(node, of_name)
        elif of_uuid is not None and of_uuid.name != node.hostname:
            yield _other_name(node, of_uuid)
        for other in by_short.get(_short(node.hostname), ()):
            if not _may_be_a_node(snapshot, other) and _same_host(other.name, node.hostname):
                yield _double(node, other)


def _missing(node: values.ComputeNode) -> Finding:
    text = "nova has this compute node, and Placement has no provider of its UUID or name"
    fields = {"node": node.uuid}
    subject = change.Subject(node.hostname, node.uuid)
    evidence = Evidence(Code.NO_PROVIDER, text, fields)
    return Finding(MISSING_PROVIDER, subject, (node.host,), evidence, _RESTART)


def _other_uuid(node: values.ComputeNode, found: provider.Provider) -> Finding:
    text = f"nova's compute node of this name has the UUID {node.uuid}"
    return Finding(
        OTHER_UUID,
        change.Subject(found.name, found.uuid),
        (node.host,),
        Evidence(Code.OTHER_UUID, text, {"node": node.uuid}),
        Proposal(Action.REPAIR_CONSUMERS, _REPLACE),
    )


def _other_name(node: values.ComputeNode, found: provider.Provider) -> Finding:
    text = f"nova's compute node of this UUID is called {node.hostname}"
    return Finding(
        OTHER_NAME,
        change.Subject(found.name, found.uuid),
        (node.host,),
        Evidence(Code.OTHER_NAME, text, {"hostname": node.hostname}),
        Proposal(Action.CHECK_CONFIGURATION, _RENAME.format(name=node.hostname)),
    )


def _double(node: values.ComputeNode, found: provider.Provider) -> Finding:
    text = f"it has the name of host {node.host} in another form; nova's is {node.hostname}"
    return Finding(
        DOUBLE_PROVIDER,
        change.Subject(found.name, found.uuid),
        (node.host,),
        Evidence(Code.SAME_HOST, text, {"node": node.uuid, "hostname": node.hostname}),
        Proposal(Action.DELETE_PROVIDER, _DELETE),
    )


def _may_be_a_node(snapshot: ProviderSnapshot, item: provider.Provider) -> bool:
    """Whether nova has the compute node, or cannot list all of them."""
    return bool(snapshot.hosts.unreachable) or item.uuid in snapshot.node_uuids


def _same_host(name: str, hostname: str) -> bool:
    """Whether one is the short form of the other; two domains can have hosts of one name.

    Both have the same short form.
    """
    return name != hostname and _short(name) in (name, hostname)


def _short(name: str) -> str:
    return name.partition(".")[0]
