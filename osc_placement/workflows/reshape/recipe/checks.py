"""What stands in the way of a replacement: providers, services, servers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import read, replacement, yaml_writer

_SHOWN = 12


def wrong_providers(seen: snapshot.TreeSnapshot, settled: replacement.Settled) -> Iterator[str]:
    """Why the one cannot give, or the other cannot take."""
    if not seen.nodes[settled.old.uuid].inventories:
        yield f"{settled.old.name} offers nothing: there is nothing to take over"
    new = settled.new
    if new is None:
        return
    if new.root_uuid not in (None, new.uuid):
        yield f"{new.name} is no compute node: it stands below another provider"
        return
    node = seen.nodes[new.uuid]
    if not node.inventories:
        return
    offered = ", ".join(sorted(node.inventories))
    if any(node.used.values()):
        yield (
            f"{new.name} offers {offered} already, and is used: what {settled.old.name} offers"
            " would come twice"
        )
    else:
        yield (
            f"{new.name} offers {offered} already: nova-compute has started there. Stop it, and"
            f" take away what nobody uses: openstack resource provider inventory delete {new.uuid}"
        )


def running(service: values.ComputeService | None) -> Iterator[str]:
    """Why a service is in the way; a host that has none is fine."""
    if service is None:
        return
    host = service.host
    if not service.is_reachable:
        yield f"the cell of {host} is down: nobody can tell what is there"
        return
    if service.is_up:
        yield (
            f"nova-compute on {host} is up: stop it (and where nova takes a minute to see that:"
            f" openstack compute service set --down {host} nova-compute)"
        )
    if service.is_enabled:
        yield (
            f"nova-compute on {host} is enabled: openstack compute service set --disable"
            f" {host} nova-compute"
        )


class Consumers:
    """Everybody who has something of the old tree, and what nova says of them."""

    def __init__(
        self, seen: snapshot.TreeSnapshot, told: read.NovaState, settled: replacement.Settled
    ) -> None:
        self._seen, self._told, self._settled = seen, told, settled
        self._new = {uuid for uuid, _ in seen.inside() if seen.root_of(uuid) == settled.uuid}
        tree = {uuid for uuid, _ in seen.inside() if seen.root_of(uuid) == settled.old.uuid}
        self._of_old = [
            item for _, item in sorted(seen.consumers.items()) if tree & item.allocations.keys()
        ]

    def faults(self) -> list[str]:
        """Why they cannot all go to the new host; one line for all with the same reason."""
        reasons: dict[str, list[str]] = {}
        for item in self._of_old:
            for reason in self._against(item):
                reasons.setdefault(reason, []).append(self._named(item.uuid))
        return [f"{_listed(who)}: {reason}" for reason, who in reasons.items()]

    def notes(self) -> Iterator[str]:
        """What is odd and stops nothing."""
        strangers = [item.uuid for item in self._of_old if not self._is_known(item.uuid)]
        if strangers:
            yield (
                f"Nova lists no server or move for {_listed(strangers)}; they come along. openstack"
                " placement allocation audit tells whether they are orphans."
            )
        name = self._settled.name
        elsewhere = [
            self._named(item.uuid)
            for item in self._of_old
            if (server := self._told.servers.get(item.uuid)) and server.node not in (None, name)
        ]
        if elsewhere:
            yield (
                f"Nova has another node than {name} written down for {_listed(elsewhere)}; it"
                " counts a server where host and node are its own."
            )

    def _is_known(self, uuid: str) -> bool:
        return uuid in self._told.servers or uuid in self._told.migrations

    def _named(self, uuid: str) -> str:
        server = self._told.servers.get(uuid)
        return f"{yaml_writer.plain(server.name)} ({uuid})" if server is not None else uuid

    def _against(self, item: allocation.Consumer) -> Iterator[str]:
        if self._new & item.allocations.keys():
            yield f"has allocations on {self._settled.name} already, as after an evacuation"
        moving = self._told.migrations.get(item.uuid) or next(
            (one for one in self._told.migrations.values() if one.server_uuid == item.uuid), None
        )
        if moving is not None and not moving.is_over:
            yield f"is moving: {moving.type}, {moving.status}"
        server = self._told.servers.get(item.uuid)
        if server is None:
            return
        host = self._settled.new_host
        if not server.known:
            yield "its cell is down: nobody can tell where it is"
        elif server.host != host:
            where = f"on {server.host}" if server.host else "on no host"
            yield f"is {where} for nova, and not on {host}"
        elif server.task_state:
            yield f"is busy: task_state is {server.task_state}"


def _listed(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_SHOWN])
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown
