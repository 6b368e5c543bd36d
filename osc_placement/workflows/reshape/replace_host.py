# SPDX-License-Identifier: Apache-2.0
"""A compute node's provider replaces another: after a rename, or a rebuild with another UUID.

Pure. One reshape moves the inventories of the old root with all allocations. Before it, the
children get the new root as parent, and the new root gets the traits and aggregates. The recipe is
refused unless nova-compute is stopped and the servers are on the host of the new root.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from osc_placement import errors
from osc_placement.model import allocation, provider
from osc_placement.model.name import and_more, counted
from osc_placement.nova import values
from osc_placement.workflows.reshape import recipes, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class ReplaceHostRequest:
    """``old`` is the root to replace, ``new`` the new root if it exists.

    ``name``, ``uuid`` and ``host`` (nova's name of the host) are those of the new root; None reads
    them from nova or Placement.
    """

    old: provider.Provider
    name: str
    new: provider.Provider | None = None
    uuid: str | None = None
    host: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Replacement:
    """A request completed from nova: with the new UUID and both hosts.

    ``new`` is None if the new provider does not exist, ``old_host`` if nova has no such host.
    """

    old: provider.Provider
    new: provider.Provider | None
    name: str
    uuid: str
    old_host: str | None
    new_host: str

    @property
    def hosts(self) -> list[str]:
        """The hosts where nova-compute must be stopped."""
        return list(dict.fromkeys(filter(None, (self.old_host, self.new_host))))

    @property
    def old_name_after(self) -> str:
        """The new name of the old provider, if the new provider gets its name."""
        return f"{self.old.name}-replaced-{self.old.uuid[:8]}" if self.takes_name else ""

    @property
    def takes_name(self) -> bool:
        """Whether the new provider gets the name of the old one."""
        return self.name == self.old.name


def resolve(nova_state: recipes.NovaState, request: ReplaceHostRequest) -> Replacement:
    """Complete a request. Errors: InvalidInput with all that is missing or contradictory."""
    new_uuid = request.new.uuid if request.new is not None else ""
    uuid = request.uuid or new_uuid or _uuid_of_node(nova_state.nodes, request)
    old = request.old
    old_host = _host(nova_state.nodes, old.uuid) or _host(nova_state.nodes, old.name)
    host = _host(nova_state.nodes, uuid) or _host(nova_state.nodes, request.name)
    new_host = request.host or host or old_host or ""
    problems = errors.InputErrors(_contradictions(request, uuid))
    if not new_host:
        problems.add(f"nova knows no node {old.name} or {request.name}: give its --host")
    problems.reasons += _shared_hosts(nova_state.nodes, old_host, new_host)
    problems.check()
    return Replacement(old, request.new, request.name, uuid, old_host, new_host)


def _contradictions(request: ReplaceHostRequest, uuid: str) -> Iterator[str]:
    old, new = request.old, request.new
    if not uuid:
        yield (
            f"neither Placement nor nova knows {request.name}: give --uuid, the content of"
            " /var/lib/nova/compute_id on the new host"
        )
    elif uuid == old.uuid:
        yield (
            f"{request.name} would keep the UUID of {old.name}: use 'openstack resource provider"
            " set --name' instead"
        )
    if new is not None and new.uuid != uuid:
        yield f"there is a provider {new.name!r} with another UUID, {new.uuid}"
    if new is not None and new.name != request.name:
        yield f"provider {new.uuid} has the name {new.name!r}, not {request.name!r}"


def _shared_hosts(nodes: Iterable[values.ComputeNode], old: str | None, new: str) -> Iterator[str]:
    """Bare metal hosts have many nodes, and a node keeps its UUID on another host."""
    every_node = list(nodes)
    for host in sorted({old, new} - {None, ""}, key=str):
        count = sum(node.host == host for node in every_node)
        if count > (2 if old == new else 1):
            yield f"host {host} has {count} nodes: the recipe supports hosts with one"


def _uuid_of_node(nodes: Iterable[values.ComputeNode], request: ReplaceHostRequest) -> str:
    uuids = [node.uuid for node in nodes if node.hostname == request.name]
    return next((uuid for uuid in uuids if uuid != request.old.uuid), "")


def _host(nodes: Iterable[values.ComputeNode], text: str) -> str | None:
    """The host of the node with this UUID or hostname."""
    return next((node.host for node in nodes if text in (node.uuid, node.hostname)), None)


def providers(trees: snapshot.TreeSnapshot, replaced: Replacement) -> Iterator[str]:
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
        nova_state: recipes.NovaState,
        replaced: Replacement,
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
        return [f"{and_more(consumers, 12)}: {reason}" for reason, consumers in reasons.items()]

    def notes(self) -> Iterator[str]:
        """Anomalies that do not prevent the replacement."""
        unknown = [item.uuid for item in self._of_old if not self._is_known(item.uuid)]
        if unknown:
            yield (
                f"Nova lists no server or migration for {and_more(unknown, 12)}; their allocations"
                " move too. openstack placement allocation audit shows whether they are orphaned."
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
                f"Nova records another node than {name} for {and_more(elsewhere, 12)}; it counts a"
                " server only where both host and node match."
            )

    def _is_known(self, uuid: str) -> bool:
        return uuid in self._nova_state.servers or uuid in self._nova_state.migrations

    def _named(self, uuid: str) -> str:
        server = self._nova_state.servers.get(uuid)
        return f"{recipes.plain(server.name)} ({uuid})" if server is not None else uuid

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


_HEAD = """\
{new} ({new_uuid}) replaces {old} ({old_uuid}): it gets the inventories, the allocations of \
{consumers}, the traits, the aggregates and {children}.

1. nova-compute must be stopped on {hosts}; nova reported it as down and disabled when this \
recipe was written. With nova-compute stopped, --allow nova-owned is safe below.
2. Check the plan, then apply it:

  openstack placement reshape FILE --allow nova-owned --dry-run
  openstack placement reshape FILE --allow nova-owned

3. On the new host, /var/lib/nova/compute_id must contain {new_uuid}, and the node of \
nova-compute must have the name {new}. Start nova-compute: it finds this provider by its UUID, and \
writes the present inventories and traits of the host. Then:

  openstack compute service set --up --enable {new_host} nova-compute"""

_RENAMED = """\
Afterwards {old} is an empty provider with the name {aside}. When everything works:

  openstack resource provider delete {old_uuid}"""

_DELETED = "{old} is deleted at the end; undo creates it again with everything."

_OTHER_HOST = """\
Nova's host aggregates list hosts, and {new_host} is not {old_host}: run openstack \
aggregate add host, then openstack placement aggregate mirror."""


def plan_replacement(
    trees: snapshot.TreeSnapshot, nova_state: recipes.NovaState, request: ReplaceHostRequest
) -> recipes.Recipe:
    """The recipe. Errors: InvalidInput with all reasons against it."""
    replaced = resolve(nova_state, request)
    consumers = Consumers(trees, nova_state, replaced)
    problems = errors.InputErrors(providers(trees, replaced))
    for host in replaced.hosts:
        problems.reasons += service(nova_state.services.get(host))
    problems.reasons += consumers.problems()
    problems.check()
    writer = _Writer(trees, replaced)
    head = "\n\n".join([*writer.head(), *consumers.notes()])
    return recipes.Recipe(tuple(head.split("\n\n")), writer.document())


class _Writer:
    """Writes the document and its comments."""

    def __init__(self, trees: snapshot.TreeSnapshot, replaced: Replacement) -> None:
        self._trees, self._replaced = trees, replaced
        self._node = trees.nodes[replaced.old.uuid]
        self._children = [
            node.provider
            for _, node in sorted(trees.inside.items(), key=lambda item: item[1].provider.name)
            if node.provider.parent_uuid == replaced.old.uuid
        ]

    def document(self) -> dict[str, Any]:
        """The document. It uses UUIDs, because names change."""
        old = self._replaced.old.uuid
        document: dict[str, Any] = {
            "moves": [
                {
                    "from": old,
                    "resources": dict.fromkeys(sorted(self._node.inventories), "all"),
                    "to": self._target(),
                }
            ]
        }
        if self._children:
            document["providers"] = [
                {"uuid": item.uuid, "parent": self._replaced.uuid} for item in self._children
            ]
        renames = dict(self._renames())
        if renames:
            document["rename"] = renames
        if not self._replaced.takes_name:
            document["delete"] = [old]
        return document

    def _target(self) -> dict[str, Any]:
        target: dict[str, Any] = {
            "name": self._replaced.name,
            "uuid": self._replaced.uuid,
            "parent": None,
        }
        if self._node.traits:
            target["traits"] = sorted(self._node.traits)
        if self._node.aggregates:
            target["aggregates"] = sorted(self._node.aggregates)
        return target

    def _renames(self) -> Iterator[tuple[str, str]]:
        """The old root if the new one takes its name; else children named after the old root."""
        old, new = self._replaced.old.name, self._replaced.name
        if self._replaced.takes_name:
            yield self._replaced.old.uuid, self._replaced.old_name_after
            return
        for uuid, node in self._trees.inside.items():
            name = node.provider.name
            below = uuid != self._replaced.old.uuid and self._trees.root_of(uuid) == (
                self._replaced.old.uuid
            )
            if below and name.startswith((f"{old}_", f"{old}:")):
                yield uuid, new + name.removeprefix(old)

    def head(self) -> Iterator[str]:
        """The comments: steps and explanations."""
        replaced = self._replaced
        names = {
            "new": recipes.plain(replaced.name),
            "new_uuid": replaced.uuid,
            "new_host": replaced.new_host,
            "old": recipes.plain(replaced.old.name),
            "old_uuid": replaced.old.uuid,
            "old_host": replaced.old_host,
            "aside": recipes.plain(replaced.old_name_after),
            "children": _count(len(self._children), "child with its descendants", "children"),
            "consumers": _count(len(self._trees.consumers), "consumer", "consumers"),
            "hosts": " and ".join(replaced.hosts),
        }
        yield _HEAD.format(**names)
        yield (_RENAMED if replaced.takes_name else _DELETED).format(**names)
        if replaced.old_host not in (None, replaced.new_host):
            yield _OTHER_HOST.format(**names)


def _count(number: int, one: str, many: str) -> str:
    return counted(number, one, many) if number else f"no {many}"
