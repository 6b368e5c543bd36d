# SPDX-License-Identifier: Apache-2.0
"""What compute nodes offer: totals, traits and custom names that differ from the expected. Pure.

* Totals are compared with what nova-compute reported of the hypervisor. Both come from
  nova-compute, in one periodic run. A difference shows that its update of Placement failed, or
  that another client changed the inventory.
* Traits are compared with nova and with similar hosts. The repair of COMPUTE_STATUS_DISABLED and
  OWNER_NOVA is certain: both follow from what nova reports. Other traits depend on the
  configuration of a host, so that no repair is proposed.
* Custom inventories and traits are compared with the provider.yaml files, for compute nodes only:
  nova, neutron and Cyborg set custom names of their own on child providers. The operator may have
  set others by hand, so that no repair is proposed.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.model import provider
from osc_placement.model.name import counted, is_custom
from osc_placement.nova import flavor, provider_config
from osc_placement.plan.reasons import Code
from osc_placement.scheduling.traits import OWNER
from osc_placement.workflows.cloud import facts, problem
from osc_placement.workflows.repair.findings import Remedy
from osc_placement.workflows.repair.providers.observe import (
    AuditedCloud,
    HostNode,
    ProviderFinding,
    ProviderProblem,
)

_SEE_LOG = "see the log of nova-compute on the host, and restart it"
MISSING_INVENTORY = ProviderProblem(
    problem.error(
        "missing-inventory", "A host reports no CPUs or no memory: no server starts there."
    ),
    Code.NO_INVENTORY,
    Remedy.RESTART_COMPUTE,
    _SEE_LOG,
)
WRONG_INVENTORY = ProviderProblem(
    problem.error("wrong-inventory", "A host reports another amount than its hypervisor has."),
    Code.DIFFERENT_TOTAL,
    Remedy.RESTART_COMPUTE,
    _SEE_LOG,
)
TOTAL_CODES = (MISSING_INVENTORY.code, WRONG_INVENTORY.code)

#: Libvirt's. Other drivers report other amounts of a hypervisor than of its inventories.
_TYPES = frozenset({"QEMU", "KVM"})

#: A host can have its disk on a sharing provider, which has no DISK_GB of its own then.
_REQUIRED = (flavor.VCPU, flavor.MEMORY_MB)
_COMPARED = (*_REQUIRED, flavor.DISK_GB)


def find_totals(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Findings about each compute node of libvirt with a provider."""
    trees = audited.cloud.trees
    for item in audited.host_nodes:
        tree = trees[audited.cloud.root_of(item.provider.uuid)]
        is_complete = all(member.uuid in audited.cloud.inventories for member in tree)
        if item.node.hypervisor[0] in _TYPES and is_complete:
            yield from _compare(item, _totals(audited, tree))


def _totals(audited: AuditedCloud, tree: list[provider.Provider]) -> Mapping[str, int]:
    """``{class: total}`` over a tree: VCPU can be on NUMA nodes; a pinned CPU is PCPU."""
    totals: collections.Counter[str] = collections.Counter()
    for member in tree:
        for name, item in audited.cloud.inventories[member.uuid].items():
            totals[name] += item.total
    return totals


def _compare(item: HostNode, totals: Mapping[str, int]) -> Iterator[ProviderFinding]:
    hosts = (item.node.host,)
    missing = [name for name in _REQUIRED if not _has(totals, name)]
    if missing:
        text = f"it has no inventory of {', '.join(missing)}"
        yield MISSING_INVENTORY.about(item.provider, hosts, text, {"classes": missing})
    wrong = {
        name: {"total": totals[name], "hypervisor": item.node.resources[name]}
        for name in _COMPARED
        if totals.get(name) and not _is_right(totals, name, item.node.resources)
    }
    if wrong:
        text = ", ".join(
            f"{name} total {amounts['total']}, the hypervisor has {amounts['hypervisor']}"
            for name, amounts in wrong.items()
        )
        yield WRONG_INVENTORY.about(item.provider, hosts, text, {"resources": wrong})


def _has(totals: Mapping[str, int], name: str) -> bool:
    """A host can dedicate all its CPUs to pinned servers."""
    return bool(totals.get(name)) or (name == flavor.VCPU and bool(totals.get(flavor.PCPU)))


def _is_right(totals: Mapping[str, int], name: str, reported: Mapping[str, int]) -> bool:
    """Nova reports of a host with PCPU all CPUs, or only those of VCPU, by its version."""
    if name not in reported:
        return True
    pinned = totals.get(flavor.PCPU, 0) if name == flavor.VCPU else 0
    return reported[name] in (totals[name], totals[name] + pinned)


WRONG_STATUS = ProviderProblem(
    problem.warning(
        "wrong-status",
        "Placement takes a host for disabled and nova for enabled, or the other way round.",
    ),
    Code.SERVICE_STATUS,
    Remedy.SET_TRAITS,
)
MISSING_OWNER = ProviderProblem(
    problem.error(
        "missing-owner",
        "A host lacks the trait OWNER_NOVA, which nova can require: no server starts there then.",
    ),
    Code.PEERS_DIFFER,
    Remedy.SET_TRAITS,
)
MISSING_TRAIT = ProviderProblem(
    problem.warning("missing-trait", "A host lacks an ability that hosts like it have."),
    Code.PEERS_DIFFER,
    Remedy.RESTART_COMPUTE,
    "compare nova.conf and the log of nova-compute with a similar host",
)
TRAIT_CODES = (WRONG_STATUS.code, MISSING_OWNER.code, MISSING_TRAIT.code)

_DISABLED = "COMPUTE_STATUS_DISABLED"

#: Traits of the driver and its version. HW_ traits differ with the hardware.
_OF_DRIVER = "COMPUTE_"

#: As many similar hosts must have a trait before its absence counts.
_PEERS = 2

#: At most one host, or this part of the similar hosts, may lack it.
_FEW_PERCENT = 5


def find_traits(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Findings about each compute node whose traits were read."""
    read = [item for item in audited.host_nodes if item.provider.uuid in audited.cloud.traits]
    owned = {
        item.node.hypervisor[0]
        for item in read
        if OWNER in audited.cloud.traits[item.provider.uuid]
    }
    services = {
        host_service.host: host_service for host_service in audited.cloud.hosts.compute_services
    }
    for item in read:
        traits, kind = audited.cloud.traits[item.provider.uuid], item.node.hypervisor[0]
        service = services.get(item.node.host)
        if service is not None and service.is_reachable:
            is_disabled = not service.is_enabled
            if is_disabled != (_DISABLED in traits):
                status = "disabled" if is_disabled else "enabled"
                text = f"its compute service is {status}, and it has"
                text += f" {'no' if is_disabled else 'the'} trait {_DISABLED}"
                repair = {_DISABLED: is_disabled}
                yield WRONG_STATUS.repaired(item, repair, text, {"service_status": status})
        if kind in owned and OWNER not in traits:
            text = (
                f"other {kind} hosts have the trait {OWNER}: once every nova-compute is nova 34, no"
                " server starts here"
            )
            yield MISSING_OWNER.repaired(item, {OWNER: True}, text, {"traits": [OWNER]})
    yield from _compare_peers(audited, read)


def _compare_peers(audited: AuditedCloud, read: Sequence[HostNode]) -> Iterator[ProviderFinding]:
    """Compare hosts of the same hypervisor and version."""
    groups: dict[tuple[str, int], list[HostNode]] = collections.defaultdict(list)
    for item in read:
        groups[item.node.hypervisor].append(item)
    for (name, version), group in groups.items():
        having = collections.Counter(
            trait
            for item in group
            for trait in audited.cloud.traits[item.provider.uuid]
            if trait.startswith(_OF_DRIVER) and trait != _DISABLED
        )
        # More hosts without a trait may be another kind of host.
        few = max(len(group) * _FEW_PERCENT // 100, 1)
        expected = {
            trait
            for trait, count in having.items()
            if count >= _PEERS and 0 < len(group) - count <= few
        }
        for item in group:
            missing = sorted(expected - audited.cloud.traits[item.provider.uuid])
            if missing:
                peers = min(having[trait] for trait in missing)
                have, hypervisor = "has" if peers == 1 else "have", f"{name} {version}"
                text = f"{counted(peers, 'other host')} of {hypervisor} {have} {', '.join(missing)}"
                fields = {"traits": missing, "hypervisor": hypervisor, "peers": peers}
                yield MISSING_TRAIT.about(item.provider, (item.node.host,), text, fields)


_CHECK = "add it to the provider.yaml of the host, or remove it here"
UNCONFIGURED_INVENTORY = ProviderProblem(
    problem.warning(
        "unconfigured-inventory", "A host has a resource that no configuration file names."
    ),
    Code.NOT_CONFIGURED,
    Remedy.CHECK_CONFIGURATION,
    _CHECK,
)
UNCONFIGURED_TRAIT = ProviderProblem(
    problem.warning("unconfigured-trait", "A host has a trait that no configuration file names."),
    Code.NOT_CONFIGURED,
    Remedy.CHECK_CONFIGURATION,
    _CHECK,
)
CONFIGURATION_CODES = (UNCONFIGURED_INVENTORY.code, UNCONFIGURED_TRAIT.code)


def find_unconfigured(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Findings about each compute node; none if no file was given."""
    config = audited.config
    if config is None:
        return
    for item in audited.host_nodes:
        # Ironic reports the custom classes and traits of its nodes.
        if item.node.is_ironic:
            continue
        uuid = item.provider.uuid
        labels = (uuid, item.provider.name, provider_config.COMPUTE_NODE)
        has_traits = facts.value(audited.cloud.traits, uuid, frozenset())
        for kind, what, has, named in (
            (
                UNCONFIGURED_INVENTORY,
                "inventory of",
                audited.offered(item.provider),
                config.inventories,
            ),
            (UNCONFIGURED_TRAIT, "the trait", has_traits, config.traits),
        ):
            configured = {name for label in labels for name in named.get(label, ())}
            unnamed = sorted(name for name in has if is_custom(name) and name not in configured)
            if unnamed:
                text = f"no provider.yaml names {what} {', '.join(unnamed)}"
                yield kind.about(item.provider, (item.node.host,), text, {"names": unnamed})
