"""What the ports of a server need and have: pure.

A port asks for resources in groups, each from one provider, and its binding profile tells
from which it has them. Either may be missing: the allocation, or the telling.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.model import allocation
from osc_placement.neutron import port as neutron_port
from osc_placement.nova import values
from osc_placement.workflows.allocations import snapshot as pictures

#: ``{port uuid: {group id: provider uuid}}``
Bindings = dict[str, dict[str, str]]


def lacking(picture: pictures.CloudSnapshot, server: values.Server) -> list[neutron_port.Port]:
    """The ports for which a server has nothing, whatever they tell."""
    told = untold(picture, server)
    held = picture.allocations.get(server.uuid, {})
    return [
        port
        for port in picture.ports.get(server.uuid, ())
        if port.uuid not in told and not _is_met(port, held)
    ]


def untold(picture: pictures.CloudSnapshot, server: values.Server) -> Bindings:
    """Where ports have what they need though they do not tell it, or tell something else.

    Only what no other port has is theirs: so that nothing is allocated twice for a port.
    """
    held = picture.allocations.get(server.uuid, {})
    ports = picture.ports.get(server.uuid, ())
    spare = {uuid: dict(resources) for uuid, resources in held.items()}
    for port in ports:
        if _is_met(port, held):
            for suffix, group in port.groups.items():
                _take(spare[port.allocation[suffix]], group.resources)
    found: Bindings = {}
    for port in ports:
        bound = {} if _is_met(port, held) else _found_in(spare, port)
        if bound:
            found[port.uuid] = bound
    return found


def _is_met(port: neutron_port.Port, held: allocation.Allocations) -> bool:
    return all(
        _has(held.get(port.allocation.get(suffix, ""), {}), group.resources)
        for suffix, group in port.groups.items()
    )


def _has(there: allocation.Resources, wanted: allocation.Resources) -> bool:
    return all(there.get(name, 0) >= amount for name, amount in wanted.items())


def _take(there: dict[str, int], wanted: allocation.Resources) -> None:
    for name, amount in wanted.items():
        there[name] -= amount


def _found_in(spare: Mapping[str, dict[str, int]], port: neutron_port.Port) -> dict[str, str]:
    """All of a port's groups, or none; what is found is taken."""
    bound: dict[str, str] = {}
    for suffix, group in port.groups.items():
        fitting = [uuid for uuid in sorted(spare) if _has(spare[uuid], group.resources)]
        if not fitting:
            for each, uuid in bound.items():
                _take(spare[uuid], {name: -n for name, n in port.groups[each].resources.items()})
            return {}
        bound[suffix] = fitting[0]
        _take(spare[fitting[0]], group.resources)
    return bound
