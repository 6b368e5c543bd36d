# SPDX-License-Identifier: Apache-2.0
"""The provider audit: its checks, and the plan of the repairs.

A new check is a function in this folder and an entry in ``CHECKS``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_placement.client import api
from osc_placement.model.name import and_more, counted
from osc_placement.neutron.api import Neutron
from osc_placement.nova.api import Nova
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import memberships
from osc_placement.workflows.cloud.compute_nodes import ComputeStates, host_names
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.findings import UNKNOWN, AuditResult, Finding
from osc_placement.workflows.repair.providers import devices, identity, inventory, observe
from osc_placement.workflows.repair.providers.observe import AuditedCloud, ProviderFinding

#: Each returns findings with the codes of its module.
CHECKS: Sequence[Callable[[AuditedCloud], Iterator[ProviderFinding]]] = (
    identity.find_identity,
    inventory.find_totals,
    inventory.find_traits,
    devices.find_agents,
    inventory.find_unconfigured,
    devices.find_devices,
    devices.find_two_owners,
)

#: In the order in which the summary lists them.
CODES = (
    *identity.IDENTITY_CODES,
    *inventory.TOTAL_CODES,
    *inventory.TRAIT_CODES,
    *devices.AGENT_CODES,
    *inventory.CONFIGURATION_CODES,
    *devices.DEVICE_CODES,
    UNKNOWN,
)


def find(audited: AuditedCloud) -> list[ProviderFinding]:
    """All findings, sorted."""
    unread = (
        findings.unreadable(
            change.Subject(item.name, item.uuid),
            audited.hosts_of(item),
            audited.cloud.read_errors[item.uuid],
        )
        for item in audited.cloud.providers.values()
        if item.uuid in audited.cloud.read_errors
    )
    found = [item for check in CHECKS for item in check(audited)]
    return sorted([*found, *unread], key=Finding.sort_key)


def plan_repair(audited: AuditedCloud, chosen: Iterable[ProviderFinding]) -> plan.Plan:
    """One change of traits per provider, for all its repairs; other findings are not in it."""
    states = ComputeStates(audited.cloud.hosts)
    return findings.plan_repair(chosen, lambda repairs: _change(audited, states, repairs))


def _change(
    audited: AuditedCloud,
    states: ComputeStates,
    repairs: Sequence[tuple[ProviderFinding, Mapping[str, bool]]],
) -> change.Change[Any]:
    subject = repairs[0][0].subject
    traits = {name: has for _, repair in repairs for name, has in repair.items()}
    return change.Change(
        memberships.TRAITS.name,
        subject,
        memberships.Traits({name: not has for name, has in traits.items()}),
        memberships.Traits(traits),
        audited.cloud.providers[subject.uuid].generation,
        "; ".join(item.code for item, _ in repairs),
        precondition=change.Precondition(host=states.of(*subject)),
    )


def audit_providers(
    client: api.Client,
    nova: Nova,
    neutron: Neutron | None,
    request: observe.ProviderAuditRequest,
    context: ReadContext,
) -> AuditResult[Mapping[str, bool]]:
    """Everything that is wrong with providers, and the plan that repairs it.

    Requests: to nova, the services and the hypervisors in pages; to neutron, one for the agents;
    to Placement, six listings, one more if a root provider is no compute node, and one more if
    any host has SEV-ES; one GET of inventories per provider; one for the traits that are in use and
    one listing for each, or if there are fewer compute nodes one of traits for each of them; one
    of usages per one-time-use device of which everything is reserved, and per provider of SEV-ES
    on a host with SEV-SNP, and with ``pci`` one of allocations per PCI device that it may not
    match. So no provider needs more than three.
    Errors: InvalidInput with every missing permission and every unknown host.
    """
    audited = observe.read(client, nova, neutron, request, context)
    providers = audited.cloud.providers.values()
    hosts = host_names(request.hosts, audited.cloud.hosts, providers)
    findings.check_hosts(hosts, audited.cloud.existing_hosts | {item.name for item in providers})
    selected = findings.select(find(audited), hosts, request.only, by_name=True)
    notes = (f"nova's responses come from {nova.source}",) if nova.source else ()
    planned = plan_repair(audited, selected if request.repair else ())
    observed = {
        change.key(memberships.TRAITS.name, item.subject): memberships.observed_traits(
            audited.cloud.providers[item.subject.uuid].generation,
            audited.cloud.traits[item.subject.uuid],
        )
        for item in planned.changes
    }
    return AuditResult(
        selected,
        plan.ObservedPlan(dataclasses.replace(planned, notes=notes), observed),
        [
            text
            for codes, text in not_checked(audited, hosts)
            if not (codes and request.only) or not request.only.isdisjoint(codes)
        ],
    )


def not_checked(
    audited: AuditedCloud, hosts: Collection[str]
) -> Iterator[tuple[Sequence[str], str]]:
    """``(codes, sentence)`` about what may have a finding of these codes; of any, without codes.

    ``hosts`` as in the request.
    """
    unreachable = [
        host for host in sorted(audited.cloud.hosts.unreachable) if not hosts or host in hosts
    ]
    if unreachable:
        yield (), f"hosts of a cell that is down: {and_more(unreachable)}"
    if audited.cloud.agents is None:
        yield devices.AGENT_CODES, "providers of neutron's agents: the agents were not read"
    nodes = audited.cloud.hosts.nodes
    if nodes and not any(node.resources for node in nodes):
        text = "totals: nova does not report the resources of hypervisors"
        yield inventory.TOTAL_CODES, text
    for text in _devices_not_checked(audited, hosts):
        yield (devices.PCI_DEVICE_OUT_OF_SPEC.code,), text


def _devices_not_checked(audited: AuditedCloud, hosts: Collection[str]) -> Iterator[str]:
    """The PCI devices of which it is not known whether ``[pci]device_spec`` matches them."""
    selected = [
        item
        for item in audited.cloud.providers.values()
        if item.uuid in audited.pci_devices
        if not hosts or not {item.name, *audited.hosts_of(item)}.isdisjoint(hosts)
    ]
    if not selected:
        return
    if audited.pci is None:
        count = counted(len(selected), "PCI device")
        yield f"{count}: --nova-conf names the nova.conf with their device_spec"
    elif audited.pci.specs is None:
        yield f"PCI devices: {audited.pci.path} has no [pci]device_spec"
    else:
        names = [
            item.name
            for item in selected
            if audited.pci_consumers.get(item.uuid) and audited.pci_match(item) is None
        ]
        if names:
            yield (
                f"{and_more(names)}: in use, and {audited.pci.path} does not show whether"
                " device_spec matches"
            )
