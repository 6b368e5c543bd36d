# SPDX-License-Identifier: Apache-2.0
"""What nova's API says about servers: where they may go, and what ties them to their hosts."""

from __future__ import annotations

import collections
import dataclasses
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.model.name import and_more, counted
from osc_placement.nova import api, filters, flavor, request, servers as nova_servers, values
from osc_placement.workflows.cloud import compute_nodes, nova_request

#: The states in which nova migrates a server: without a stop, and those with one.
LIVE = frozenset({"active", "paused"})
_MIGRATED = LIVE | {"stopped"}

#: The servers or hosts that a line names.
_MOST_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class KnownServers:
    """What nova says about servers.

    ``queries`` is ``{uuid: nova's request}``. ``groups`` are the server groups of nova with
    (anti-)affinity. ``not_judged`` are lines about what else may tie servers to a host;
    ``assumed`` those about what nova's requests were assumed to be. ``migrations`` are the UUIDs
    that are no servers, but migrations.
    """

    queries: Mapping[str, candidate.CandidateQuery] = dataclasses.field(default_factory=dict)
    groups: Sequence[values.ServerGroup] = ()
    not_judged: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    migrations: frozenset[str] = frozenset()


WITHOUT_NOVA = KnownServers(
    not_judged=(
        "traits, availability zones, host aggregates and server groups: they are in nova (select a"
        " snapshot that was saved --with-nova, or give --os-nova-recording)",
        "servers without allocations: they are in nova",
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class NovaReader:
    """What the judgement of hosts reads from nova; without arguments nothing.

    ``compute`` decides which hosts take a server. ``servers`` gives what nova says about servers by
    UUID, ``on_nodes`` the servers that run on compute nodes.
    """

    compute: compute_nodes.ServerHosts = dataclasses.field(
        default_factory=compute_nodes.ServerHosts
    )
    servers: Callable[[Sequence[str]], KnownServers] = lambda _: WITHOUT_NOVA
    on_nodes: Callable[[Sequence[values.ComputeNode]], Sequence[values.Server]] = lambda _: ()

    def on_roots(self, roots: Sequence[str]) -> ServersOnHosts:
        """The servers that nova has on the compute nodes with these UUIDs.

        Requests: those of ``servers_on``. A refusal is not an error but a problem of the answer.
        """
        nodes = [node for node in map(self.compute.node, roots) if node]
        try:
            return ServersOnHosts(nodes, self.on_nodes(nodes))
        except errors.PlacementError as error:
            return ServersOnHosts(problem=f"servers without allocations: {error}")


@dataclasses.dataclass(frozen=True, slots=True)
class ServersOnHosts:
    """Compute nodes and the servers on them; ``problem`` says why they could not be read."""

    nodes: Sequence[values.ComputeNode] = ()
    servers: Sequence[values.Server] = ()
    problem: str = ""

    def staying(self) -> dict[str, str]:
        """``{server UUID: why nova does not migrate it now}``, without those that it does."""
        ironic = {(node.host, node.hostname) for node in self.nodes if node.is_ironic}
        reasons: dict[str, str] = {}
        for server in self.servers:
            if (server.host, server.node) in ironic:
                reasons[server.uuid] = "nova does not migrate a server of an Ironic node"
            elif server.task_state:
                task = f"nova does not migrate it while its task is {server.task_state}"
                reasons[server.uuid] = task
            elif server.vm_state not in _MIGRATED:
                state = f"nova does not migrate a server that is {server.vm_state}"
                reasons[server.uuid] = state
        return reasons


def servers_on(nova: api.Nova, nodes: Sequence[values.ComputeNode]) -> list[values.Server]:
    """The servers on compute nodes.

    Requests: for up to five nodes one per node and 1000 servers, for more one per 1000 servers.
    """
    if len(nodes) > lookup.MAX_SINGLE_REQUESTS:
        listed = nova_servers.servers(nova)
    else:
        hosts = dict.fromkeys(node.host for node in nodes)
        listed = [each for host in hosts for each in nova_servers.servers(nova, host=host)]
    names = {(node.host, node.hostname) for node in nodes}
    by_uuid = {each.uuid: each for each in listed if (each.host, each.node) in names}
    return list(by_uuid.values())


def needs_allocations(server: values.Server) -> bool:
    """Whether a server requests anything, as far as nova shows it."""
    if server.is_deleted or server.flavor is None:
        return not server.is_deleted
    requested = flavor.request_of(
        server.flavor, server.image_properties, booted_from_volume=server.from_volume
    )
    return bool(requested.unknown or requested.total())


def observe(
    services: nova_request.RequestServices,
    options: request.SchedulerOptions,
    uuids: Sequence[str],
) -> KnownServers:
    """Read the servers with these UUIDs.

    Requests: those of ``nova_request.observe_servers``, one per 1000 server groups, and one more;
    if nova lists no server with one of the UUIDs, one per 1000 migrations.
    """
    known = nova_request.observe_servers(services, uuids, options)
    found = {uuid: each for uuid, each in known.items() if not isinstance(each, str)}
    refused = [
        f"traits, zones and aggregates of server {uuid}: {each}"
        for uuid, each in known.items()
        if isinstance(each, str)
    ]
    migrations, problem = _migrations(services.nova, set(uuids).difference(known))
    refused += problem
    unknown = [uuid for uuid in uuids if uuid not in known and uuid not in migrations]
    if unknown:
        refused.append(
            f"traits, zones and aggregates of {named(unknown)}, which nova does not list"
        )
    groups, problem = _groups(services.nova)
    return KnownServers(
        {uuid: each.query for uuid, each in found.items()},
        groups,
        (
            *refused,
            *problem,
            *dict.fromkeys(text for single in found.values() for text in single.not_judged),
            *_ties(single.server for single in found.values()),
        ),
        tuple(dict.fromkeys(text for single in found.values() for text in single.assumptions)),
        migrations,
    )


def _migrations(nova: api.Nova, unknown: Collection[str]) -> tuple[frozenset[str], list[str]]:
    """Which of the UUIDs that are no servers are migrations; and why that is not known."""
    if not unknown:
        return frozenset(), []
    try:
        listed = nova_servers.migrations(nova)
    except errors.PlacementError as error:
        return frozenset(), [f"migrations: {error}"]
    return frozenset(each.uuid for each in listed).intersection(unknown), []


def _groups(nova: api.Nova) -> tuple[list[values.ServerGroup], list[str]]:
    try:
        found = api.server_groups(nova)
    except errors.PlacementError as error:
        return [], [f"server groups: {error}"]
    return [each for each in found if not each.policy.startswith("soft-")], []


#: ``(what ties a server to its host, the filter that knows which servers)``
_TIES = (("PCI devices", "PciPassthroughFilter"), ("NUMA nodes", "NUMATopologyFilter"))


def _ties(found: Iterable[request.ServerSpec]) -> Iterator[str]:
    tied: dict[str, list[str]] = collections.defaultdict(list)
    for server in found:
        for what, name in _TIES:
            if filters.HIDDEN[name][0](server, ()):
                tied[f"{what} on the other hosts"].append(str(server.uuid))
        if not server.from_volume:
            tied["local disks, which only a migration moves"].append(str(server.uuid))
    for what, uuids in tied.items():
        yield f"{what}: {named(uuids)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Unallocated:
    """Servers on some hosts that have no allocations there, so that Placement counts them nowhere.

    ``missing`` is ``{UUID of a server without any allocation: nova's host}``, ``elsewhere`` the
    same for servers that have allocations, but only on other hosts. ``not_judged`` are lines.
    """

    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict)
    not_judged: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """What is wrong, each with the command that repairs it."""
        for uuids, what, command in (
            (self.missing, "without allocations", "heal"),
            (self.elsewhere, "with allocations on other hosts only", "audit --repair"),
        ):
            if uuids:
                hosts = sorted(set(uuids.values()))
                named = hosts if len(hosts) <= _MOST_NAMED else ()
                only = "".join(f" --host {shlex.quote(host)}" for host in named)
                yield (
                    f"{counted(len(uuids), 'server')} {what}: openstack placement allocation"
                    f" {command}{only}"
                )


def unallocated(
    base: state.CloudState, on_hosts: ServersOnHosts, among: Collection[str]
) -> Unallocated:
    """The servers on compute nodes (``among``: UUIDs) without allocations in their trees."""
    roots = {(node.host, node.hostname): node.uuid for node in on_hosts.nodes}
    missing: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    moving = []
    for server in on_hosts.servers:
        root = roots[server.host or "", server.node or ""]
        consumer = base.consumers.get(server.uuid)
        uuids = set(consumer.allocations) if consumer else set()
        if root not in among or not uuids.isdisjoint(base.tree[root]):
            continue
        if uuids and (server.task_state or server.vm_state == "resized"):
            moving.append(server.uuid)
        elif uuids:
            elsewhere[server.uuid] = server.host or ""
        elif needs_allocations(server):
            missing[server.uuid] = server.host or ""
    problems = [on_hosts.problem] if on_hosts.problem else []
    problems += [f"{named(moving)}: moving now"] if moving else []
    return Unallocated(missing, elsewhere, tuple(problems))


def named(uuids: Sequence[str]) -> str:
    """``server UUID`` or ``servers UUID, UUID and 2 more``."""
    return f"server{'s' if len(uuids) > 1 else ''} {and_more(sorted(uuids), _MOST_NAMED)}"
