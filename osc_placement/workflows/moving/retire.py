# SPDX-License-Identifier: Apache-2.0
"""What is left of hosts that go for good: the steps in nova, then the plan for Placement.

The order loses nothing. While nova has the compute service, nothing changes in Placement: nova
deletes a compute node's provider with the service, also the allocations of evacuated servers. What
is left after that is a provider without a compute node: its tree is deleted from the bottom up,
after its inventories, traits and aggregates, so that undo restores all of it. Placement refuses to
delete what a consumer uses, also one that came after the plan.

``plan_retire`` sends the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import command_line, name, provider
from osc_placement.model.name import and_more, counted
from osc_placement.nova import servers as nova_servers, values
from osc_placement.nova.api import Nova
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations, inventories, memberships, provider as providers
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import compute_nodes, facts, server_moves, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext

#: The trait that nova-compute gives the root of its tree.
_COMPUTE_NODE = "COMPUTE_NODE"

#: The stages of the plan; deletions follow, the lowest providers first.
_CONSUMERS, _INVENTORIES, _TRAITS, _AGGREGATES, _DELETE = range(5)


def plan_retire(
    client: api.Client, nova: Nova, hosts: Sequence[str], context: ReadContext
) -> plan.ObservedPlan:
    """What to do about hosts: nova's names, or names or UUIDs of root providers.

    Requests: to nova, those of ``source.read``, one per 1000 servers of each host that nova has,
    one per 1000 migrations, and one for each of up to five servers with allocations on the hosts,
    or one per 1000 servers; one per 1000 deleted servers of a host that neither service has, if no
    migration names it; to Placement, one listing, one for each provider of the hosts' trees and one
    for each of its consumers, and for a provider that nova does not have three more.
    Errors: InvalidInput for a host that neither service has, while a cell of nova is down, or if
    nothing in nova names it.
    """
    reading = source.read(client, nova, context, with_aggregates=True)
    named, roots, gone = _resolved(reading, hosts)
    _read(nova, reading, source.of(client, context), named, roots)
    _check_gone(nova, reading, gone)
    changes: list[change.Change[Any]] = []
    refused: list[change.Skipped] = []
    to_do: list[str] = []
    for host in named:
        reasons = list(_why_in_use(reading, host))
        if not reasons:
            service = _service(reading, host)
            if service is not None:
                to_do += _service_lines(service)
                text = "nova has its compute service: delete it there, and run this command again"
                reasons = [Reason(Code.SERVICE_STATUS, text)]
        uuids = [node.uuid for node in reading.nodes_of_host.get(host, [])]
        refused += _refused(change.Subject(host, uuids[0] if uuids else ""), reasons)
    for root in roots:
        reasons = list(_why_not_stale(reading, root))
        refused += _refused(change.Subject(root.name, root.uuid), reasons)
        if not reasons:
            changes += _changes(reading, root)
            to_do += _membership_lines(reading, root)
    notes = (
        *(f"nothing is left of {text}: neither nova nor Placement has it" for text in gone),
        *(f"to do in nova: {text}" for text in to_do),
    )
    planned = plan.Plan(
        tuple(sorted(changes, key=change.Change.sort_key)),
        tuple(refused),
        notes=notes,
        names={item.uuid: item.name for root in roots for item in reading.trees[root.uuid]},
    )
    return plan.ObservedPlan(planned)


def _resolved(
    cloud: Cloud, hosts: Sequence[str]
) -> tuple[list[str], list[provider.Provider], list[str]]:
    """``(nova's names of hosts, root providers that nova does not have, what neither has)``."""
    problems = errors.InputErrors()
    by_name = {item.name: item for item in cloud.roots.values()}
    named: dict[str, None] = {}
    roots: dict[str, provider.Provider] = {}
    gone: dict[str, None] = {}
    for text in hosts:
        (host,) = compute_nodes.host_names([text], cloud.hosts)
        uuid = name.canonical_uuid(text) if name.is_uuid(text) else ""
        root = by_name.get(text) or cloud.providers.get(uuid)
        if root is not None:
            root = cloud.providers.get(cloud.root_of(root.uuid), root)
        node = cloud.compute_nodes.get(root.uuid) if root else None
        if host in cloud.hosts.services or host in cloud.nodes_of_host:
            named[host] = None
        elif node is not None:
            named[node.host] = None
        elif root is not None:
            roots[root.uuid] = root
        elif cloud.hosts.unreachable:
            down = and_more(sorted(cloud.hosts.unreachable))
            problems.add(f"{text}: nova does not show it while the cell of {down} is down")
        else:
            gone[text] = None
    problems.check()
    return list(named), list(roots.values()), list(gone)


def _check_gone(nova: Nova, reading: Cloud, gone: Sequence[str]) -> None:
    """Tell a host that was retired from a name that no host ever had, by its former servers.

    Requests: one per 1000 deleted servers of each host that no migration names. Errors:
    InvalidInput.
    """
    named = {
        text
        for item in reading.migrations.values()
        for text in (item.source_host, item.source_node, item.dest_host, item.dest_node)
    }
    current = sorted(reading.hosts.services | {item.name for item in reading.roots.values()})
    errors.InputErrors(
        f"{text}: neither nova nor Placement has a host of this name, and no migration or deleted"
        " server in nova was there. If it never had a server, and its compute service is"
        f" deleted, nothing is left of it{lookup.similar(text, current)}"
        for text in gone
        if text not in named and not _had_servers(nova, text)
    ).check()


def _had_servers(nova: Nova, host: str) -> bool:
    """Whether nova has deleted servers of a host. Errors: NotKnown of a recording without them."""
    return bool(nova_servers.servers(nova, host=host, deleted="true"))


def _read(
    nova: Nova,
    cloud: Cloud,
    reader: source.CloudSource,
    named: Sequence[str],
    roots: Sequence[provider.Provider],
) -> None:
    """Read the servers of hosts, and the consumers and facts of their trees."""
    on_hosts = {item.uuid: item for host in named for item in nova_servers.servers(nova, host=host)}
    cloud.migrations = {item.uuid: item for item in nova_servers.migrations(nova)}
    of_named = [node.uuid for host in named for node in cloud.nodes_of_host.get(host, [])]
    trees = [*of_named, *(root.uuid for root in roots)]
    uuids = [item.uuid for root in trees for item in cloud.trees.get(root, [])]
    facts.prefetch(cloud.held, uuids)
    consumers = {uuid for key in uuids for uuid in cloud.held[key].allocations}
    reader.take_consumers(cloud, sorted(consumers))
    wanted = server_moves.servers_of(cloud.migrations, named) | consumers
    wanted -= on_hosts.keys() | cloud.migrations.keys()
    on_hosts |= nova_servers.find_servers(nova, wanted) if wanted else {}
    cloud.set_servers({uuid: item for uuid, item in on_hosts.items() if not item.is_deleted})
    stale = [item.uuid for root in roots for item in cloud.trees[root.uuid]]
    for parts in (cloud.inventories, cloud.traits, cloud.memberships):
        facts.prefetch(parts, stale)


def _refused(subject: change.Subject, reasons: Sequence[Reason]) -> Iterator[change.Skipped]:
    if reasons:
        yield change.Skipped(
            providers.TYPE.name,
            subject,
            reason="; ".join(reason.text for reason in reasons),
            code=reasons[0].code,
            refused=True,
        )


def _service(reading: Cloud, host: str) -> values.ComputeService | None:
    services = reading.hosts.compute_services
    return next((service for service in services if service.host == host), None)


def _service_lines(service: values.ComputeService) -> Iterator[str]:
    """The commands that delete a compute service."""
    if service.is_enabled:
        options = [("--disable", None), ("--disable-reason", "retired")]
        yield command_line.line(
            "compute service set", service.host, "nova-compute", options=options
        )
    yield command_line.line("compute service delete", service.uuid or service.host)


def _why_in_use(reading: Cloud, host: str) -> Iterator[Reason]:
    """Why nova needs a host that it has."""
    nodes = reading.nodes_of_host.get(host, [])
    service = _service(reading, host)
    if service is not None and not service.is_reachable:
        yield Reason(Code.CELL_DOWN, f"the cell of {host} is down")
        return
    if any(node.is_ironic for node in nodes):
        yield Reason(
            Code.NOT_A_COMPUTE_NODE,
            f"it has {counted(len(nodes), 'Ironic node')}, which another nova-compute takes over:"
            " their providers stay",
        )
        return
    servers = [item for item in reading.servers.values() if item.host == host]
    if servers:
        drain = command_line.line("placement host drain", host)
        yield Reason(Code.NOT_EMPTY, f"nova has {counted(len(servers), 'server')} there: {drain}")
    yield from _open_migrations(reading, {host})
    for move in _in_doubt(reading, nodes):
        label = move.server.name or move.server.uuid
        yield Reason(Code.MOVING, f"server {label}: {move.why()}")
    among = {item.uuid for item in servers}
    for node in nodes:
        for text in _why_needed(reading, node.uuid, {host}, among):
            yield Reason(Code.NOT_EMPTY, text)
    if service is not None and service.is_up:
        yield Reason(
            Code.SERVICE_STATUS,
            "nova-compute is up, and would register the host again: stop it on the host (nova"
            f" notices after a minute, or at once with: {_down(host)})",
        )


def _down(host: str) -> str:
    options = [("--down", None)]
    return command_line.line("compute service set", host, "nova-compute", options=options)


def _open_migrations(reading: Cloud, hosts: set[str]) -> Iterator[Reason]:
    for item in reading.migrations.values():
        if not item.is_over and not hosts.isdisjoint((item.source_host, item.dest_host)):
            yield Reason(
                Code.MOVING, f"migration {item.uuid} of server {item.server_uuid} is {item.status}"
            )


def _in_doubt(
    reading: Cloud, nodes: Sequence[values.ComputeNode]
) -> Iterator[server_moves.ServerMove]:
    """The servers that may have data on compute nodes, though their moves are over."""
    losses = server_moves.losses_on(reading, nodes)
    for move in {
        move.server.uuid: move for node in nodes for move, _ in losses[node.uuid]
    }.values():
        is_there = move.server.host in {node.host for node in nodes}
        if not is_there and all(item.is_over for item in move.migrations):
            yield move


def _why_not_stale(reading: Cloud, root: provider.Provider) -> Iterator[Reason]:
    """Why the tree of a provider without a compute node must not be deleted."""
    if _COMPUTE_NODE not in reading.traits[root.uuid] and not _is_bare(reading, root):
        delete = "openstack resource provider delete --tree"
        text = f"it lacks the trait {_COMPUTE_NODE}, so it may belong to another service: {delete}"
        yield Reason(Code.NOT_A_COMPUTE_NODE, text)
        return
    doubt = compute_nodes.why_not_stale(reading.hosts, root, was_node=True)
    if doubt is not None:
        concerned = ", ".join(doubt.hosts)
        texts = {
            Code.CELL_DOWN: f"the cell of {concerned} is down: nova cannot list its compute nodes",
            Code.UNDISCOVERED_HOST: f"nova-compute on {concerned} has no compute node yet:"
            " 'nova-manage cell_v2 discover_hosts'",
        }
        yield Reason(doubt.code, texts[doubt.code])
    hosts = {root.name, root.name.partition(".")[0]}
    yield from _open_migrations(reading, hosts)
    for text in _why_needed(reading, root.uuid, hosts, ()):
        yield Reason(Code.NOT_EMPTY, text)


def _is_bare(reading: Cloud, root: provider.Provider) -> bool:
    """Whether only the provider is left: a run that was killed had removed its traits."""
    parts = (reading.inventories, reading.traits, reading.memberships)
    return len(reading.trees[root.uuid]) == 1 and not any(part[root.uuid] for part in parts)


def _why_needed(
    reading: Cloud, root: str, hosts: set[str], among: Collection[str]
) -> Iterator[str]:
    """The consumers in a tree, without ``among``, that are not left over of an evacuation."""
    for uuid in _consumers_of(reading, root):
        if uuid not in among and not _is_leftover(reading, uuid, root, hosts):
            server = reading.servers.get(uuid)
            what = f"server {server.name}" if server else "consumer"
            audit = command_line.line("placement allocation audit")
            yield f"allocations of {what} {uuid} are there: {audit}"


def _consumers_of(reading: Cloud, root: str) -> list[str]:
    tree = {item.uuid for item in reading.trees.get(root, [])}
    return [
        uuid
        for uuid, allocations in reading.allocations.items()
        if not tree.isdisjoint(allocations)
    ]


def _is_leftover(reading: Cloud, uuid: str, root: str, hosts: set[str]) -> bool:
    """Whether a server rests elsewhere, with allocations there, and nothing of it moves."""
    server = reading.servers.get(uuid)
    if server is None or not server.host or server.host in hosts:
        return False
    node = reading.node_of(server)
    rests = server_moves.move_of(reading, server).is_settled and not server.task_state
    return node is not None and node.uuid != root and rests and _has_own(reading, uuid, node.uuid)


def _has_own(reading: Cloud, uuid: str, root: str) -> bool:
    tree = {item.uuid for item in reading.trees.get(root, [])}
    return not tree.isdisjoint(reading.allocations[uuid])


def _changes(reading: Cloud, root: provider.Provider) -> Iterator[change.Change[Any]]:
    """Everything of a tree goes: consumers, inventories, traits, aggregates, the providers.

    The traits of the root go last: by them a further run recognizes the host after a kill.
    """
    tree = reading.trees[root.uuid]
    gone = {item.uuid for item in tree}
    host = compute_nodes.ComputeStates(reading.hosts).of(root.name, root.uuid)
    precondition = change.Precondition(host=host)
    for uuid in _consumers_of(reading, root.uuid):
        before = reading.consumer(uuid)
        kept = {key: item for key, item in before.allocations.items() if key not in gone}
        after = dataclasses.replace(before, allocations=kept)
        server = reading.servers[uuid]
        yield dataclasses.replace(
            allocations.planned(server.name or uuid, before, after, stage=_CONSUMERS),
            reason=f"it was evacuated to {server.host}",
            precondition=precondition,
            group=root.uuid,
        )
    ordered = list(provider.ProviderTree(tree).walk())
    deepest = max(depth for depth, _ in ordered)
    for depth, item in ordered:
        offered = inventories.InventoryState.of(reading.inventories[item.uuid])
        none = inventories.InventoryState(dict.fromkeys(offered.classes))
        traits = memberships.Traits.of(sorted(reading.traits[item.uuid]))
        aggregates = memberships.Aggregates.of(sorted(reading.memberships[item.uuid]))
        parts: Sequence[tuple[str, bool, change.State, change.State, int]] = (
            (inventories.TYPE.name, bool(offered.classes), offered, none, _INVENTORIES),
            (
                memberships.TRAITS.name,
                bool(traits.present),
                traits,
                _absent(traits),
                _TRAITS if depth else _DELETE + deepest,
            ),
            (
                memberships.AGGREGATES.name,
                bool(aggregates.present),
                aggregates,
                _absent(aggregates),
                _AGGREGATES,
            ),
            (
                providers.TYPE.name,
                True,
                providers.ProviderState(item.name, item.parent_uuid),
                providers.ABSENT,
                _DELETE + deepest - depth + (not depth),
            ),
        )
        for kind, has_any, before_state, after_state, stage in parts:
            if has_any:
                yield change.Change(
                    kind,
                    change.Subject(item.name, item.uuid),
                    before_state,
                    after_state,
                    stage=stage,
                    reason="nova has no compute node of it",
                    precondition=precondition,
                    group=root.uuid,
                )


def _absent(members: memberships.M) -> memberships.M:
    return dataclasses.replace(members, present=dict.fromkeys(members.present, False))


def _membership_lines(reading: Cloud, root: provider.Provider) -> Iterator[str]:
    """The commands that take a host that nova has no more out of its host aggregates."""
    names = {root.name, root.name.partition(".")[0]}
    for aggregate in reading.aggregates:
        for host in sorted(names.intersection(aggregate.hosts) - reading.hosts.services):
            yield command_line.line("aggregate remove host", aggregate.subject, host)
