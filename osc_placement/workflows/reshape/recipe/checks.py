"""Checks of a replacement: its providers, services and servers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import read, replacement, yaml_writer

_SHOWN = 12


def providers(trees: snapshot.TreeSnapshot, replaced: replacement.Replacement) -> Iterator[str]:
    """Why the old provider cannot be replaced, or the new one cannot replace it."""
    if not trees.nodes[replaced.old.uuid].inventories:
        yield f"{replaced.old.name} has no inventory: there is nothing to move"
    new = replaced.new
    if new is None:
        return
    if new.root_uuid not in (None, new.uuid):
        yield f"{new.name} is not a compute node: it has a parent"
        return
    node = trees.nodes[new.uuid]
    if not node.inventories:
        return
    offered = ", ".join(sorted(node.inventories))
    if any(node.used.values()):
        yield (
            f"{new.name} already has inventories of {offered}, with allocations: the"
            f" inventories of {replaced.old.name} would be counted twice"
        )
    else:
        yield (
            f"{new.name} already has inventories of {offered}: nova-compute was started there. Stop"
            f" it, and delete them: openstack resource provider inventory delete {new.uuid}"
        )


def service(service: values.ComputeService | None) -> Iterator[str]:
    """Why a service must be stopped first; a host without a service passes."""
    if service is None:
        return
    host = service.host
    if not service.is_reachable:
        yield f"the cell of {host} is down: its state is unknown"
        return
    if service.is_up:
        yield (
            f"nova-compute on {host} is up: stop it (nova notices after a minute, or at once with:"
            f" openstack compute service set --down {host} nova-compute)"
        )
    if service.is_enabled:
        yield (
            f"nova-compute on {host} is enabled: openstack compute service set --disable"
            f" {host} nova-compute"
        )


class Consumers:
    """The consumers with allocations in the old tree, and their state in nova."""

    def __init__(
        self,
        trees: snapshot.TreeSnapshot,
        nova_state: read.NovaState,
        replaced: replacement.Replacement,
    ) -> None:
        self._nova_state, self._replaced = nova_state, replaced
        self._new = {uuid for uuid in trees.inside if trees.root_of(uuid) == replaced.uuid}
        tree = {uuid for uuid in trees.inside if trees.root_of(uuid) == replaced.old.uuid}
        self._of_old = [
            item for _, item in sorted(trees.consumers.items()) if tree & item.allocations.keys()
        ]

    def problems(self) -> list[str]:
        """Why consumers cannot move to the new host; one line per reason."""
        reasons: dict[str, list[str]] = {}
        for item in self._of_old:
            for reason in self._reasons_against(item):
                reasons.setdefault(reason, []).append(self._named(item.uuid))
        return [f"{_join(consumers)}: {reason}" for reason, consumers in reasons.items()]

    def notes(self) -> Iterator[str]:
        """Anomalies that do not prevent the replacement."""
        unknown = [item.uuid for item in self._of_old if not self._is_known(item.uuid)]
        if unknown:
            yield (
                f"Nova lists no server or migration for {_join(unknown)}; their allocations move"
                " too. openstack placement allocation audit shows whether they are orphaned."
            )
        name = self._replaced.name
        elsewhere = [
            self._named(item.uuid)
            for item in self._of_old
            if (server := self._nova_state.servers.get(item.uuid))
            and server.node not in (None, name)
        ]
        if elsewhere:
            yield (
                f"Nova records another node than {name} for {_join(elsewhere)}; it counts a server"
                " only where both host and node match."
            )

    def _is_known(self, uuid: str) -> bool:
        return uuid in self._nova_state.servers or uuid in self._nova_state.migrations

    def _named(self, uuid: str) -> str:
        server = self._nova_state.servers.get(uuid)
        return f"{yaml_writer.plain(server.name)} ({uuid})" if server is not None else uuid

    def _reasons_against(self, item: allocation.Consumer) -> Iterator[str]:
        if self._new & item.allocations.keys():
            yield f"already has allocations on {self._replaced.name}, as after an evacuation"
        moving = self._nova_state.migrations.get(item.uuid) or next(
            (one for one in self._nova_state.migrations.values() if one.server_uuid == item.uuid),
            None,
        )
        if moving is not None and not moving.is_over:
            yield f"is being migrated: {moving.type}, {moving.status}"
        server = self._nova_state.servers.get(item.uuid)
        if server is None:
            return
        host = self._replaced.new_host
        if not server.known:
            yield "its cell is down: its host is unknown"
        elif server.host != host:
            where = f"on {server.host}" if server.host else "on no host"
            yield f"is {where} according to nova, and not on {host}"
        elif server.task_state:
            yield f"is busy: task_state is {server.task_state}"


def _join(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_SHOWN])
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown
