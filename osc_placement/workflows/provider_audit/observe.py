"""Reads nova, neutron and Placement for the provider audit, and plans the repair."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from osc_placement import errors
from osc_placement.client import api, api_errors, lookup, retry
from osc_placement.model.name import and_more
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, hosts as nova_hosts, pci, permission, values
from osc_placement.nova.provider_config import ProviderConfig
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import inventories as inventories_kind, memberships
from osc_placement.workflows import findings
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.findings import AuditResult
from osc_placement.workflows.provider_audit import checks
from osc_placement.workflows.provider_audit.snapshot import ProviderSnapshot, used_up_devices

T = TypeVar("T")

_NO_AGENTS = "neutron's agents were not read: their providers are not compared"
_NO_RESOURCES = "nova does not report the resources of hypervisors: totals are not compared"


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderAuditRequest:
    """What to audit: ``hosts`` by nova's names or providers' names, ``only`` these codes.

    Empty sets select everything. ``config``: what the site's provider.yaml files say.
    ``pci``: what the nova.conf of the compute hosts says about PCI devices.
    """

    hosts: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    repair: bool = False
    config: ProviderConfig | None = None
    pci: pci.PciConfiguration | None = None


def audit_providers(
    client: api.Client,
    nova: nova_api.Nova,
    neutron: neutron_api.Neutron | None,
    request: ProviderAuditRequest,
    context: ReadContext,
) -> AuditResult[Mapping[str, bool]]:
    """Everything that is wrong with providers, and the plan that repairs it.

    Requests: to nova, the services and the hypervisors in pages; to neutron, one for the agents;
    to Placement, four listings, one more if a root provider is no compute node, and one more if
    any host has SEV-ES; one GET of inventories per provider, one of traits per compute node, one
    of usages per one-time-use device of which everything is reserved, and per provider of SEV-ES
    on a host with SEV-SNP, and with ``pci`` one of allocations per PCI device that it may not
    match. So no provider needs more than three.
    Errors: InvalidInput with every missing permission and every unknown host.
    """
    snapshot = _read(client, nova, neutron, request, context)
    findings.check_hosts(request.hosts, _existing_hosts(snapshot))
    found = findings.select(checks.find(snapshot), request.hosts, request.only, by_name=True)
    notes = tuple(_notes(snapshot, nova.source))
    planned = checks.plan_repair(snapshot, found if request.repair else ())
    known = {
        change.key(memberships.TRAITS.name, item.subject): memberships.observed_traits(
            snapshot.generations[item.subject.uuid], snapshot.traits[item.subject.uuid]
        )
        for item in planned.changes
    }
    return AuditResult(found, plan.ObservedPlan(dataclasses.replace(planned, notes=notes), known))


def _read(
    client: api.Client,
    nova: nova_api.Nova,
    neutron: neutron_api.Neutron | None,
    request: ProviderAuditRequest,
    context: ReadContext,
) -> ProviderSnapshot:
    input_errors = errors.InputErrors()
    hosts = values.Hosts()
    with permission.collected(input_errors):
        hosts = nova_hosts.read_all(nova)
    with permission.collected(input_errors):
        providers = retry.read(client.list_providers)
    input_errors.check()
    agents = None if neutron is None else neutron_api.agents(neutron)
    snapshot = ProviderSnapshot(
        hosts, providers, agents=agents, config=request.config, pci=request.pci
    )
    read_errors: dict[str, str] = {}
    read = functools.partial(_each, context=context, read_errors=read_errors)
    uuids = [item.uuid for item in providers]
    inventories = read(client.list_inventories, uuids, "reading inventories")
    nodes = [item.provider.uuid for item in snapshot.host_nodes]
    traits = read(client.list_provider_traits, nodes, "reading traits")
    offered = {uuid: item.inventories for uuid, item in inventories.items()}
    one_time_use = lookup.providers_with_trait(client, inventories_kind.ONE_TIME_USE)
    devices = list(used_up_devices(offered, one_time_use))
    sev_es = _sev_es_with_snp(client, snapshot)
    usages = read(client.list_usages, [*devices, *sev_es], "reading usages")
    computes: frozenset[str] = frozenset()
    if snapshot.roots_without_node:
        computes = lookup.providers_with_trait(client, "COMPUTE_NODE")
    snapshot = dataclasses.replace(
        snapshot,
        inventories=offered,
        pci_devices=lookup.providers_with_trait(client, pci.MANAGED),
    )
    unmatched = [item.uuid for item in snapshot.unmatched_devices] if request.pci else []
    shares = read(client.list_provider_allocations, unmatched, "reading allocations")
    return dataclasses.replace(
        snapshot,
        pci_consumers={uuid: sorted(share.allocations) for uuid, share in shares.items()},
        traits={uuid: frozenset(item.traits) for uuid, item in traits.items()},
        generations={uuid: item.generation for uuid, item in traits.items()},
        used_up=frozenset(
            uuid for uuid in devices if uuid in usages and not any(usages[uuid].values())
        ),
        computes=computes,
        sev_es={uuid: usages.get(uuid, {}).get("MEM_ENCRYPTION_CONTEXT", 0) for uuid in sev_es},
        read_errors=read_errors,
    )


def _sev_es_with_snp(client: api.Client, snapshot: ProviderSnapshot) -> list[str]:
    """The providers of SEV-ES in trees with SEV-SNP. Requests: one or two listings."""
    by_uuid = snapshot.by_uuid

    def root(uuid: str) -> str:
        item = by_uuid.get(uuid)
        return uuid if item is None else item.root_uuid or uuid

    sev_es = lookup.providers_with_trait(client, "HW_CPU_X86_AMD_SEV_ES")
    if not sev_es:
        return []
    snp = {root(uuid) for uuid in lookup.providers_with_trait(client, "HW_CPU_X86_AMD_SEV_SNP")}
    return sorted(uuid for uuid in sev_es if uuid in by_uuid and root(uuid) in snp)


def _each(
    call: Callable[[str], T],
    uuids: Sequence[str],
    what: str,
    *,
    context: ReadContext,
    read_errors: dict[str, str],
) -> Mapping[str, T]:
    """``{uuid: answer}``; a provider that cannot be read is in ``read_errors`` instead."""
    found = {}
    for uuid, answer in zip(uuids, context.try_each(call, uuids, what), strict=True):
        if isinstance(answer, api_errors.ApiError):
            read_errors[uuid] = str(answer)
        else:
            found[uuid] = answer
    return found


def _existing_hosts(snapshot: ProviderSnapshot) -> set[str]:
    hosts = {node.host for node in snapshot.nodes} | snapshot.hosts.services
    return hosts | {item.name for item in snapshot.providers}


def _notes(snapshot: ProviderSnapshot, source: str) -> Iterable[str]:
    if source:
        yield f"nova's responses come from {source}"
    if snapshot.agents is None:
        yield _NO_AGENTS
    yield from _not_judged(snapshot)
    if snapshot.nodes and not any(node.resources for node in snapshot.nodes):
        yield _NO_RESOURCES


def _not_judged(snapshot: ProviderSnapshot) -> Iterable[str]:
    """The PCI devices of which it is not known whether ``[pci]device_spec`` matches them."""
    if not snapshot.pci_devices:
        return
    if snapshot.pci is None:
        count = len(snapshot.pci_devices)
        yield f"not judged: {count} PCI devices, without --nova-conf of their hosts"
    elif snapshot.pci.specs is None:
        yield f"not judged: PCI devices, because {snapshot.pci.path} has no [pci]device_spec"
    else:
        names = [
            item.name
            for item in snapshot.unmatched_devices
            if snapshot.pci_consumers.get(item.uuid) and snapshot.pci_match(item) is None
        ]
        if names:
            yield (
                f"not judged: {and_more(names, 3)}: in use, and {snapshot.pci.path} does not show"
                " whether device_spec matches"
            )
