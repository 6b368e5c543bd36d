"""A compute node's provider takes over from another: renamed, or rebuilt under another UUID.

Pure. What the old root offers moves with everybody's allocations in one reshape, its
children go below the new root before, traits and aggregates come along. It is refused
unless nova says that nobody writes meanwhile and that the servers are where the new one is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from osc_placement.model import allocation, nova, provider
from osc_placement.workflows import fault
from osc_placement.workflows.recipe import paper, read
from osc_placement.workflows.reshape import picture

_HEAD = """\
{new} ({new_uuid}) takes over from {old} ({old_uuid}): what it offers, what {consumers} have \
of it, its traits, its aggregates and {children}.

1. nova-compute must be stopped on {hosts}; nova said that it is down and disabled when this \
was written. That nobody writes meanwhile is why --allow nova-owned is right below.
2. Look, and do it:

  openstack placement reshape FILE --allow nova-owned --dry-run
  openstack placement reshape FILE --allow nova-owned

3. On the new host /var/lib/nova/compute_id holds {new_uuid}, and nova-compute calls its node \
{new}. Start it: it finds this provider by its UUID, and writes the inventories and traits that \
the host has now. Then:

  openstack compute service set --up --enable {new_host} nova-compute"""

_RENAMED = """\
Afterwards {old} is an empty provider called {aside}. When all is well:

  openstack resource provider delete {old_uuid}"""

_DELETED = "{old} is deleted at the end; undo makes it again, with what it had."

_OTHER_HOST = """\
Nova's host aggregates name hosts, and {new_host} is another than {old_host}: openstack \
aggregate add host, then openstack placement aggregate mirror."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """``old`` is the root that goes, ``new`` the one that comes, if it is there already.

    ``name`` and ``uuid`` are of the new one, ``host`` is nova's name of the host that it is
    on; both None where nova or Placement tells.
    """

    old: provider.Provider
    name: str
    new: provider.Provider | None = None
    uuid: str | None = None
    host: str | None = None


def plan_replacement(seen: picture.Picture, told: read.Told, request: Request) -> paper.Recipe:
    """The recipe. Errors: InvalidInput with every reason against it."""
    faults = fault.Faults()
    settled = _Settled(told, request, faults)
    faults.check()
    faults.reasons += _wrong_providers(seen, settled)
    for host in dict.fromkeys(filter(None, (settled.old_host, settled.new_host))):
        faults.reasons += _running(told.services.get(host))
    consumers = _Consumers(seen, told, settled)
    faults.reasons += consumers.faults()
    faults.check()
    written = _Written(seen, settled)
    return paper.Recipe(
        tuple(
            text for part in (*written.head(), *consumers.notes()) for text in part.split("\n\n")
        ),
        written.document(),
    )


class _Settled:
    """The request with what nova adds to it: the new UUID, and both hosts."""

    def __init__(self, told: read.Told, request: Request, faults: fault.Faults) -> None:
        self.old, self.new, self.name = request.old, request.new, request.name
        known = request.new.uuid if request.new is not None else None
        self.uuid = request.uuid or known or self._uuid_of_node(told.nodes)
        if not self.uuid:
            faults.add(
                f"neither Placement nor nova knows {self.name}: give --uuid, what"
                " /var/lib/nova/compute_id says on the new host"
            )
        elif self.uuid == self.old.uuid:
            faults.add(
                f"{self.name} would keep the UUID of {self.old.name}: 'openstack resource provider"
                " set --name' is all that it takes"
            )
        if known not in (None, self.uuid):
            faults.add(f"there is a provider {self.name!r} with another UUID, {known}")
        self.old_host = _host(told.nodes, self.old.uuid) or _host(told.nodes, self.old.name)
        found = _host(told.nodes, self.uuid) or _host(told.nodes, self.name)
        self.new_host = request.host or found or self.old_host
        if self.new_host is None:
            faults.add(f"nova knows no node {self.old.name} or {self.name}: give its --host")
        for host in {self.old_host, self.new_host} - {None}:
            count = sum(node.host == host for node in told.nodes)
            if count > 2 or (count == 2 and self.old_host != self.new_host):
                faults.add(f"host {host} has {count} nodes: this is for hosts with one")

    def _uuid_of_node(self, nodes: Iterable[nova.ComputeNode]) -> str:
        found = [node.uuid for node in nodes if node.hostname == self.name]
        return next((uuid for uuid in found if uuid != self.old.uuid), "")

    @property
    def aside(self) -> str:
        """What the old provider is called from then on, where the new one gets its name."""
        return f"{self.old.name}-replaced-{self.old.uuid[:8]}" if self.takes_name else ""

    @property
    def takes_name(self) -> bool:
        """Whether the new one is called as the old one is."""
        return self.name == self.old.name


def _host(nodes: Iterable[nova.ComputeNode], of: str) -> str | None:
    """The host of the node with this UUID or hostname."""
    return next((node.host for node in nodes if of in (node.uuid, node.hostname)), None)


def _wrong_providers(seen: picture.Picture, settled: _Settled) -> Iterator[str]:
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


def _running(service: nova.ComputeService | None) -> Iterator[str]:
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


class _Consumers:
    """Everybody who has something of the old tree, and what nova says of them."""

    def __init__(self, seen: picture.Picture, told: read.Told, settled: _Settled) -> None:
        self._seen, self._told, self._settled = seen, told, settled
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
                f"Nova knows nothing of {_listed(strangers)}; they come along. openstack"
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
        return f"{paper.plain(server.name)} ({uuid})" if server is not None else uuid

    def _against(self, item: allocation.Consumer) -> Iterator[str]:
        new = {
            uuid
            for uuid, _ in self._seen.inside()
            if self._seen.root_of(uuid) == self._settled.uuid
        }
        if new & item.allocations.keys():
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


class _Written:
    """The document and its comments."""

    def __init__(self, seen: picture.Picture, settled: _Settled) -> None:
        self._seen, self._settled = seen, settled
        self._node = seen.nodes[settled.old.uuid]
        self._children = [
            node.provider
            for _, node in sorted(seen.inside(), key=lambda item: item[1].provider.name)
            if node.provider.parent_uuid == settled.old.uuid
        ]

    def document(self) -> dict[str, Any]:
        """By UUIDs: names are in motion."""
        old = self._settled.old.uuid
        found: dict[str, Any] = {
            "moves": [
                {
                    "from": old,
                    "resources": dict.fromkeys(sorted(self._node.inventories), "all"),
                    "to": self._target(),
                }
            ]
        }
        if self._children:
            found["providers"] = [
                {"uuid": item.uuid, "parent": self._settled.uuid} for item in self._children
            ]
        renamed = dict(self._renamed())
        if renamed:
            found["rename"] = renamed
        if not self._settled.takes_name:
            found["delete"] = [old]
        return found

    def _target(self) -> dict[str, Any]:
        target: dict[str, Any] = {
            "name": self._settled.name,
            "uuid": self._settled.uuid,
            "parent": None,
        }
        if self._node.traits:
            target["traits"] = sorted(self._node.traits)
        if self._node.aggregates:
            target["aggregates"] = sorted(self._node.aggregates)
        return target

    def _renamed(self) -> Iterator[tuple[str, str]]:
        """The old one where its name is wanted, and children that are called after it."""
        old, new = self._settled.old.name, self._settled.name
        if self._settled.takes_name:
            yield self._settled.old.uuid, self._settled.aside
            return
        for uuid, node in self._seen.inside():
            name = node.provider.name
            below = uuid != self._settled.old.uuid and self._seen.root_of(uuid) == (
                self._settled.old.uuid
            )
            if below and name.startswith((f"{old}_", f"{old}:")):
                yield uuid, new + name.removeprefix(old)

    def head(self) -> Iterator[str]:
        """What the operator must know."""
        settled = self._settled
        told = {
            "new": paper.plain(settled.name),
            "new_uuid": settled.uuid,
            "new_host": settled.new_host,
            "old": paper.plain(settled.old.name),
            "old_uuid": settled.old.uuid,
            "old_host": settled.old_host,
            "aside": paper.plain(settled.aside),
            "children": _count(len(self._children), "child and all below it", "children"),
            "consumers": _count(len(self._seen.consumers), "consumer", "consumers"),
            "hosts": " and ".join(
                dict.fromkeys(filter(None, (settled.old_host, settled.new_host)))
            ),
        }
        yield _HEAD.format(**told)
        yield (_RENAMED if settled.takes_name else _DELETED).format(**told)
        if settled.old_host not in (None, settled.new_host):
            yield _OTHER_HOST.format(**told)


def _count(number: int, one: str, many: str) -> str:
    if not number:
        return f"no {many}"
    return f"1 {one}" if number == 1 else f"{number} {many}"


def _listed(items: list[str]) -> str:
    shown = ", ".join(items[:12])
    return f"{shown} and {len(items) - 12} more" if len(items) > 12 else shown
