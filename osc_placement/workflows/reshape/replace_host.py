# SPDX-License-Identifier: Apache-2.0
"""A compute node's provider replaces another: after a rename, or a rebuild with another UUID.

Pure. One reshape moves the inventories of the old root with all allocations. Before it, the
children get the new root as parent, and the new root gets the traits and aggregates. The recipe is
refused unless nova-compute is stopped and the servers are on the host of the new root.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import command_line, provider
from osc_placement.model.name import and_more, counted
from osc_placement.nova import values
from osc_placement.workflows.reshape import documents, recipes, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class ReplaceHostRequest:
    """``old`` is the root to replace, ``new`` the new root if it exists.

    ``name``, ``uuid`` and ``host`` (nova's name of the host) are those of the new root; if they are
    empty, ``complete`` reads them from nova or Placement. ``old_host`` is nova's host of the old
    root; it is empty if nova has none.
    """

    old: provider.Provider
    name: str
    new: provider.Provider | None = None
    uuid: str = ""
    host: str = ""
    old_host: str = ""

    @property
    def hosts(self) -> list[str]:
        """The hosts where nova-compute must be stopped."""
        return list(dict.fromkeys(filter(None, (self.old_host, self.host))))

    @property
    def takes_name(self) -> bool:
        """Whether the new provider gets the name of the old one."""
        return self.name == self.old.name

    @property
    def old_name_after(self) -> str:
        """The new name of the old provider, if the new provider gets its name."""
        return f"{self.old.name}-replaced-{self.old.uuid[:8]}"


def complete(nova_state: recipes.NovaState, request: ReplaceHostRequest) -> ReplaceHostRequest:
    """Complete a request. Errors: InvalidInput with all that is missing or contradictory."""
    nodes, old, new = nova_state.nodes, request.old, request.new
    named = (node.uuid for node in nodes if node.hostname == request.name and node.uuid != old.uuid)
    uuid = request.uuid or (new.uuid if new is not None else next(named, ""))
    old_host = _host(nodes, old.uuid) or _host(nodes, old.name)
    host = request.host or _host(nodes, uuid) or _host(nodes, request.name) or old_host
    reasons = [
        *_contradictions(request, uuid),
        *_same_node(nodes, request, host),
        *_shared_hosts(nodes, old_host, host),
    ]
    if not host:
        reasons.append(f"nova knows no node {old.name} or {request.name}: give its --host")
    errors.InputErrors(reasons).check()
    return dataclasses.replace(request, uuid=uuid, host=host, old_host=old_host)


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


def _same_node(
    nodes: Iterable[values.ComputeNode], request: ReplaceHostRequest, host: str
) -> Iterator[str]:
    """Nova never changes the UUID of a compute node of the same host and name."""
    kept = (request.old.uuid, request.name, host)
    if kept in ((node.uuid, node.hostname, node.host) for node in nodes):
        yield (
            f"nova has the compute node {request.name} with the UUID {request.old.uuid}, and"
            " nova-compute does not start with another: write this UUID to"
            f" /var/lib/nova/compute_id on {host}, and start nova-compute"
        )


def _shared_hosts(nodes: Iterable[values.ComputeNode], old: str, new: str) -> Iterator[str]:
    """Bare metal hosts have many nodes, and a node keeps its UUID on another host."""
    counts = collections.Counter(node.host for node in nodes)
    for host in sorted({old, new} - {""}):
        if counts[host] > (2 if old == new else 1):
            yield f"host {host} has {counts[host]} nodes: the recipe supports hosts with one"


def _host(nodes: Iterable[values.ComputeNode], text: str) -> str:
    """The host of the node with this UUID or hostname."""
    return next((node.host for node in nodes if text in (node.uuid, node.hostname)), "")


def providers(trees: snapshot.TreeSnapshot, request: ReplaceHostRequest) -> Iterator[str]:
    """Why the old provider cannot be replaced, or the new one cannot replace it."""
    old, new = request.old, request.new
    if not trees.nodes[old.uuid].inventories:
        yield f"{old.name} has no inventory: there is nothing to move"
    if new is None:
        return
    if new.root_uuid not in (None, new.uuid):
        yield f"{new.name} is not a compute node: it has a parent"
        return
    node = trees.nodes[new.uuid]
    present = f"{new.name} already has inventories of {', '.join(sorted(node.inventories))}"
    if node.inventories and any(node.used.values()):
        yield (f"{present}, with allocations: the inventories of {old.name} would be counted twice")
    elif node.inventories:
        yield (
            f"{present}: nova-compute was started there. Stop it, and delete them: openstack"
            f" resource provider inventory delete {new.uuid}"
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
            f" {_set_service(host, '--down')})"
        )
    if service.is_enabled:
        yield (f"nova-compute on {host} is enabled: {_set_service(host, '--disable')}")


def _set_service(host: str, *options: str) -> str:
    """The command that changes the compute service of a host."""
    flags = [(option, None) for option in options]
    return command_line.line("compute service set", host, "nova-compute", options=flags)


def consumers(
    trees: snapshot.TreeSnapshot, nova_state: recipes.NovaState, request: ReplaceHostRequest
) -> list[str]:
    """Why consumers cannot move to the new host; one line per reason."""
    old, new = (
        {uuid for uuid in trees.inside if trees.root_of(uuid) == root}
        for root in (request.old.uuid, request.uuid)
    )
    reasons: dict[str, list[str]] = {}
    for _, item in sorted(trees.consumers.items()):
        if not old & item.allocations.keys():
            continue
        against = [*_reasons_against(item.uuid, nova_state, request.host)]
        if new & item.allocations.keys():
            against.insert(0, f"already has allocations on {request.name}, as after an evacuation")
        for reason in against:
            reasons.setdefault(reason, []).append(_named(item.uuid, nova_state))
    return [f"{and_more(names, 12)}: {reason}" for reason, names in reasons.items()]


def _reasons_against(uuid: str, nova_state: recipes.NovaState, host: str) -> Iterator[str]:
    for moving in nova_state.migrations.values():
        if uuid in (moving.uuid, moving.server_uuid) and not moving.is_over:
            yield f"is being migrated: {moving.type}, {moving.status}"
    server = nova_state.servers.get(uuid)
    if server is None:
        return
    if not server.known:
        yield f"{server.why_unknown}: {'its state' if server.host else 'its host'} is unknown"
    elif server.host != host:
        where = f"on {server.host}" if server.host else "on no host"
        yield f"is {where} according to nova, and not on {host}"
    elif server.task_state:
        yield f"is busy: task_state is {server.task_state}"


def _named(uuid: str, nova_state: recipes.NovaState) -> str:
    server = nova_state.servers.get(uuid)
    return f"{recipes.plain(server.name)} ({uuid})" if server is not None else uuid


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

  {enable}"""

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
    request = complete(nova_state, request)
    reasons = [*providers(trees, request)]
    for host in request.hosts:
        reasons += service(nova_state.services.get(host))
    errors.InputErrors([*reasons, *consumers(trees, nova_state, request)]).check()
    node = trees.nodes[request.old.uuid]
    children = [
        item.provider.uuid
        for item in sorted(trees.inside.values(), key=lambda item: item.provider.name)
        if item.provider.parent_uuid == request.old.uuid
    ]
    head = _head(trees, request, len(children))
    document = _document(node, request, children, dict(_renames(trees, request)))
    return recipes.Recipe(tuple("\n\n".join(head).split("\n\n")), document)


def _document(
    node: snapshot.Node,
    request: ReplaceHostRequest,
    children: Iterable[str],
    renames: Mapping[str, str],
) -> dict[str, Any]:
    """The document. It uses UUIDs, because names change."""
    old = request.old.uuid
    described: dict[str, Any] = {
        "name": request.name,
        "uuid": request.uuid,
        "parent": None,
        "traits": sorted(node.traits),
        "aggregates": sorted(node.aggregates),
    }
    target = {key: value for key, value in described.items() if value != []}
    document = {
        "moves": [
            {
                "from": old,
                "resources": dict.fromkeys(sorted(node.inventories), documents.ALL),
                "to": target,
            }
        ],
        "providers": [{"uuid": uuid, "parent": request.uuid} for uuid in children],
        "rename": renames,
        "delete": [] if request.takes_name else [old],
    }
    return {key: value for key, value in document.items() if value}


def _renames(
    trees: snapshot.TreeSnapshot, request: ReplaceHostRequest
) -> Iterator[tuple[str, str]]:
    """The old root if the new one takes its name; else descendants named after the old root."""
    old = request.old
    if request.takes_name:
        yield old.uuid, request.old_name_after
        return
    for uuid, node in trees.inside.items():
        name = node.provider.name
        below = uuid != old.uuid and trees.root_of(uuid) == old.uuid
        if below and name.startswith((f"{old.name}_", f"{old.name}:")):
            yield uuid, request.name + name.removeprefix(old.name)


def _head(
    trees: snapshot.TreeSnapshot, request: ReplaceHostRequest, children: int
) -> Iterator[str]:
    """The comments: steps and explanations."""
    names = {
        "new": recipes.plain(request.name),
        "new_uuid": request.uuid,
        "new_host": request.host,
        "enable": _set_service(request.host, "--up", "--enable"),
        "old": recipes.plain(request.old.name),
        "old_uuid": request.old.uuid,
        "old_host": request.old_host,
        "aside": recipes.plain(request.old_name_after),
        "children": _count(children, "child with its descendants", "children"),
        "consumers": _count(len(trees.consumers), "consumer", "consumers"),
        "hosts": " and ".join(request.hosts),
    }
    yield _HEAD.format(**names)
    yield (_RENAMED if request.takes_name else _DELETED).format(**names)
    if request.old_host not in ("", request.host):
        yield _OTHER_HOST.format(**names)


def _count(number: int, one: str, many: str) -> str:
    return counted(number, one, many) if number else f"no {many}"
