"""Nova's own filters, which may refuse hosts that Placement returned.

The services and hypervisors of nova's API decide about the compute filter. The other filters depend
on data that only nova's scheduler has; they are named as not judged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from osc_placement.nova import api, values

COMPUTE = "ComputeFilter"

NOT_JUDGED = "not judged: "

#: ``{filter: what it compares}``: nova's default filters, and those of devices and CPU pinning.
OTHERS = {
    "ComputeCapabilitiesFilter": "extra specs against the host's capabilities",
    "ImagePropertiesFilter": "architecture and hypervisor of the image",
    "NUMATopologyFilter": "NUMA nodes, pinned CPUs and huge pages of the host",
    "PciPassthroughFilter": "free PCI devices of the host",
    "ServerGroupAffinityFilter": "the hosts of the server group",
    "ServerGroupAntiAffinityFilter": "the hosts of the server group",
    "AggregateInstanceExtraSpecsFilter": "extra specs against metadata of host aggregates",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What a filter says; ``refused`` is the number of hosts, None if it was not judged."""

    filter: str
    text: str
    refused: int | None = None


def judge(nova: api.Nova, candidates: Sequence[str]) -> list[Judgement]:
    """The judgement of each filter about candidates, by the names of their root providers.

    Requests: one for services, one per 1000 hypervisors.
    """
    services = api.services(nova)
    found = [_compute(services, api.hosts(nova), candidates)]
    return found + [Judgement(name, f"{NOT_JUDGED}{what}") for name, what in OTHERS.items()]


def _compute(
    services: Iterable[values.ComputeService], hosts: values.Hosts, candidates: Sequence[str]
) -> Judgement:
    by_host = {each.host: each for each in services}
    host_of = {node.hostname: node.host for node in hosts.nodes}
    reasons = {name: _reason(by_host.get(host_of.get(name, ""))) for name in candidates}
    refused = [f"{name} ({why})" for name, why in reasons.items() if why]
    if not refused:
        return Judgement(COMPUTE, "accepts all candidates", 0)
    return Judgement(COMPUTE, f"refuses {', '.join(refused)}", len(refused))


def _reason(service: values.ComputeService | None) -> str:
    if service is None:
        return "no compute service"
    if not service.is_reachable:
        return "its cell is down"
    if not service.is_enabled:
        return "disabled"
    return "" if service.is_up else "down"
