"""What nova knows of its hosts: the values that are held against Placement's state."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate; ``uuid`` is also the placement aggregate that mirrors it."""

    id: str
    name: str
    uuid: str
    hosts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """A hypervisor; ``uuid`` is also its resource provider's, ``hostname`` the provider's name.

    ``host`` is the compute service that runs it: one for most, many nodes with ironic.
    """

    uuid: str
    hostname: str
    host: str


@dataclasses.dataclass(frozen=True, slots=True)
class Hosts:
    """All compute hosts of a cloud, as far as nova can tell of them now.

    ``services`` are the hosts that have a compute service, ``unreachable`` those of them
    whose cell is down: their nodes, and perhaps others, are missing. ``tells_cells``: this
    nova would tell of a cell that is down (compute API 2.69).
    """

    nodes: tuple[ComputeNode, ...] = ()
    services: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()
    tells_cells: bool = True

    def of_host(self) -> dict[str, list[ComputeNode]]:
        """``{host: its nodes}``, in nova's order."""
        found: dict[str, list[ComputeNode]] = {}
        for node in self.nodes:
            found.setdefault(node.host, []).append(node)
        return found
