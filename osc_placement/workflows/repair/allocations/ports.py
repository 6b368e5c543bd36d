# SPDX-License-Identifier: Apache-2.0
"""What the ports of a server request and have. Pure.

A port requests resources in groups, each from one provider; its binding profile names that
provider. The allocation or the entry in the binding profile may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.model import allocation
from osc_placement.neutron import api
from osc_placement.nova import values
from osc_placement.workflows.cloud.cloud import Cloud

#: ``{port uuid: {group id: provider uuid}}``
Bindings = dict[str, dict[str, str]]


def unallocated(snapshot: Cloud, server: values.Server) -> list[api.Port]:
    """The ports for which a server holds no allocation, regardless of their binding profiles."""
    ports = snapshot.ports.get(server.uuid, ())
    if not ports:
        return []
    unbound = missing_bindings(snapshot, server)
    allocations = snapshot.allocations.get(server.uuid, {})
    return [
        port for port in ports if port.uuid not in unbound and not _is_allocated(port, allocations)
    ]


def missing_bindings(snapshot: Cloud, server: values.Server) -> Bindings:
    """The providers of ports whose allocation exists but whose binding profile does not name it.

    Each allocation counts for one port only, so that no port is allocated twice.
    """
    ports = snapshot.ports.get(server.uuid, ())
    if not ports:
        return {}
    allocations = snapshot.allocations.get(server.uuid, {})
    spare = {uuid: dict(resources) for uuid, resources in allocations.items()}
    for port in ports:
        if _is_allocated(port, allocations):
            for suffix, group in port.groups.items():
                _subtract(spare[port.allocation[suffix]], group.resources)
    bindings: Bindings = {}
    for port in ports:
        providers = {} if _is_allocated(port, allocations) else _take_all(spare, port)
        if providers:
            bindings[port.uuid] = providers
    return bindings


def describe(snapshot: Cloud, bindings: Bindings) -> str:
    """``bind its port to nic``, empty without bindings."""
    uuids = {uuid for groups in bindings.values() for uuid in groups.values()}
    return f"bind its port to {', '.join(sorted(map(snapshot.name_of, uuids)))}" if uuids else ""


def _is_allocated(port: api.Port, allocations: allocation.Allocations) -> bool:
    return all(
        _contains(allocations.get(port.allocation.get(suffix, ""), {}), group.resources)
        for suffix, group in port.groups.items()
    )


def _contains(resources: allocation.Resources, requested: allocation.Resources) -> bool:
    return all(resources.get(name, 0) >= amount for name, amount in requested.items())


def _subtract(resources: dict[str, int], requested: allocation.Resources) -> None:
    for name, amount in requested.items():
        resources[name] -= amount


def _take_all(spare: Mapping[str, dict[str, int]], port: api.Port) -> dict[str, str]:
    """The provider of each group of a port, subtracted from ``spare``; empty if one is missing."""
    taken: dict[str, str] = {}
    for suffix, group in port.groups.items():
        fitting = [uuid for uuid in sorted(spare) if _contains(spare[uuid], group.resources)]
        if not fitting:
            for other, uuid in taken.items():
                resources = port.groups[other].resources
                _subtract(spare[uuid], {name: -amount for name, amount in resources.items()})
            return {}
        taken[suffix] = fitting[0]
        _subtract(spare[fitting[0]], group.resources)
    return taken
