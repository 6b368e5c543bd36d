# SPDX-License-Identifier: Apache-2.0
"""Which hosts take a server at all: the rules of nova's ComputeFilter. Pure."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Iterable, Mapping

from osc_placement.nova import values

#: Why the compute services were not checked.
NOVA_NOT_READ = (
    "compute services: nova was not read, so a host may be down, disabled or missing in nova"
)


class ServerHosts:
    """Which root providers can take a server: the rules of nova's ComputeFilter. Pure.

    A root provider can take a server if nova has a compute node with its UUID, in a cell that is
    up, and the compute service of this node is enabled, up and not forced down. ``hosts`` is None
    if nova was not read: no root is refused then, and ``not_checked`` says why.
    """

    def __init__(self, hosts: values.Hosts | None = None, why: str = NOVA_NOT_READ) -> None:
        self.hosts = hosts
        self.not_checked: tuple[str, ...] = () if hosts is not None else (why,)
        hosts = hosts or values.Hosts()
        self._node = {node.uuid: node for node in hosts.nodes}
        self._service = {service.host: service for service in hosts.compute_services}
        self._of_host = hosts.of_host()
        self._added: Mapping[str, str] = {}
        self._unreachable = hosts.unreachable

    @property
    def why_no_names(self) -> str:
        """Why nova's names of hosts are not known: the end of a message about such a name."""
        return "".join(f"; nova's hosts are not known: {why}" for why in self.not_checked)

    def why_not(self, root_uuid: str) -> str:
        """Why a root provider cannot take a server; empty if it can, or if nova was not read."""
        if self.hosts is None or root_uuid in self._added:
            return ""
        node = self._node.get(root_uuid)
        if node is None:
            down = f", and the cell of {', '.join(sorted(self._unreachable))} is down"
            return f"nova lists no compute node{down if self._unreachable else ''}"
        return _why_refused(self._service.get(node.host))

    def refused(self, roots: Iterable[str]) -> dict[str, str]:
        """``{root UUID: why it cannot take a server}``, without the roots that can."""
        reasons = {root: self.why_not(root) for root in roots}
        return {root: why for root, why in reasons.items() if why}

    def is_enabled(self, root_uuid: str) -> bool:
        """Whether nova reports that the compute service of a root provider is enabled."""
        node = self._node.get(root_uuid)
        service = self._service.get(node.host) if node else None
        return service is not None and service.is_reachable and service.is_enabled

    def enabled(self, root_uuid: str) -> ServerHosts:
        """The same, after the compute service of a root provider was enabled."""
        node = self._node.get(root_uuid)
        if self.hosts is None or node is None:
            return self
        services = tuple(
            dataclasses.replace(service, is_enabled=True) if service.host == node.host else service
            for service in self.hosts.compute_services
        )
        return ServerHosts(dataclasses.replace(self.hosts, compute_services=services))

    def with_added(self, like: Mapping[str, str]) -> ServerHosts:
        """The same with hosts in service: ``{root UUID: that of the host that it is like}``."""
        more = copy.copy(self)
        more._added = like
        return more

    def is_up(self, root_uuid: str) -> bool:
        """Whether nova-compute of a root provider runs, enabled or not: nova can move servers."""
        node = self._node.get(root_uuid)
        return node is not None and self.runs(node.host)

    def runs(self, host: str) -> bool:
        """Whether nova-compute of a host reports to nova, and is not forced down."""
        service = self._service.get(host)
        return service is not None and not _why_refused(
            dataclasses.replace(service, is_enabled=True)
        )

    def all_have(self, owners: Collection[str]) -> bool:
        """Whether the nodes of all services that nova counts are among these providers.

        Nova's least service version does not count a service that is forced down.
        """
        nodes = [
            node
            for node in self._node.values()
            if not ((service := self._service.get(node.host)) and service.is_forced_down)
        ]
        return bool(nodes) and all(node.uuid in owners for node in nodes)

    def node(self, root_uuid: str) -> values.ComputeNode | None:
        """The compute node of a root provider; of an added host that of its like, if it was new."""
        node = self._node.get(self._added.get(root_uuid, root_uuid))
        if node is None or root_uuid not in self._added:
            return node
        return dataclasses.replace(node, uuid=root_uuid, servers=0)

    def root_of(self, host: str) -> str | None:
        """The root provider (UUID) of a host with one compute node."""
        nodes = self._of_host.get(host, [])
        return nodes[0].uuid if len(nodes) == 1 else None

    def nodes_of(self, host: str) -> list[values.ComputeNode]:
        """The compute nodes of a host."""
        return self._of_host.get(host, [])

    def service_of(self, host: str) -> values.ComputeService | None:
        """The compute service of a host."""
        return self._service.get(host)


def _why_refused(service: values.ComputeService | None) -> str:
    if service is None:
        return "no compute service"
    if not service.is_reachable:
        return "its cell is down"
    if not service.is_enabled:
        return "nova-compute disabled"
    if service.is_forced_down:
        return "nova-compute forced down"
    return "" if service.is_up else "nova-compute down"
