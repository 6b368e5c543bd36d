"""Custom inventories and traits of compute nodes that no provider.yaml names any more. Pure.

Only the providers of compute nodes are compared: nova, neutron and Cyborg set custom classes and
traits of their own on child providers. The operator may have set others by hand, so that no
repair is proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from osc_placement.model import name
from osc_placement.nova import provider_config
from osc_placement.plan.reasons import Code
from osc_placement.workflows.findings import Action, Evidence, Finding, Proposal
from osc_placement.workflows.provider_audit.snapshot import (
    HostNode,
    ProviderFinding,
    ProviderSnapshot,
)

UNCONFIGURED_INVENTORY = "unconfigured-inventory"
UNCONFIGURED_TRAIT = "unconfigured-trait"
CODES = (UNCONFIGURED_INVENTORY, UNCONFIGURED_TRAIT)

_IRONIC = "ironic"
_CHECK = Proposal(
    Action.CHECK_CONFIGURATION, "add it to the provider.yaml of the host, or remove it here"
)


def find(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Findings about each compute node; none if no file was given."""
    config = snapshot.config
    if config is None:
        return
    for item in snapshot.host_nodes:
        # Ironic reports the custom classes and traits of its nodes.
        if item.node.hypervisor[0] == _IRONIC:
            continue
        uuid = item.provider.uuid
        for code, what, has, named in (
            (
                UNCONFIGURED_INVENTORY,
                "inventory of",
                snapshot.inventories.get(uuid, {}),
                config.inventories,
            ),
            (UNCONFIGURED_TRAIT, "the trait", snapshot.traits.get(uuid, ()), config.traits),
        ):
            yield from _unnamed(item, code, what, has, named)


def _unnamed(
    item: HostNode,
    code: str,
    what: str,
    has: Iterable[str],
    named: Mapping[str, frozenset[str]],
) -> Iterator[ProviderFinding]:
    known = frozenset[str]().union(*(named.get(each, ()) for each in _identifications(item)))
    found = sorted(each for each in has if name.is_custom(each) and each not in known)
    if found:
        text = f"no provider.yaml names {what} {', '.join(found)}"
        evidence = Evidence(Code.NOT_CONFIGURED, text, {"names": found})
        yield Finding(code, item.subject, (item.node.host,), evidence, _CHECK)


def _identifications(item: HostNode) -> tuple[str, ...]:
    return (item.provider.uuid, item.provider.name, provider_config.COMPUTE_NODE)
