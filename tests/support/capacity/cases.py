# SPDX-License-Identifier: Apache-2.0
"""Nova's cases, wanted requests, server groups and hosts of a cloud that only Placement describes.

Nova's host of a provider has the provider's UUID as its name; ``root_of`` is therefore identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from osc_placement.engine import standard, state
from osc_placement.model import candidate
from osc_placement.nova import flavor, values
from osc_placement.scheduling import request
from osc_placement.scheduling.case import Case, GroupMembers, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving.places import Wanted

NO_IMAGE: Mapping[str, str] = {}


def root_of(host: str) -> str | None:
    """The root provider of nova's host."""
    return host


def case(
    query: candidate.CandidateQuery, compute: ServerHosts | None = None, **fields: Any
) -> Case:
    """What nova sends this query for; ``fields`` are those of the case."""
    spec = request.ServerSpec(flavor.Flavor(1, 1, 1), image=NO_IMAGE)
    single = request.NovaRequest(query, {}, spec)
    defaults: dict[str, Any] = {"way": Way.BOOT, "spec": spec, "requests": (single,)}
    return Case(**{**defaults, "compute": compute or ServerHosts(), **fields})


def of_servers(queries: Mapping[str, candidate.CandidateQuery]) -> dict[str, Case]:
    """The cases of servers, of which nova shows nothing but its queries."""
    return {uuid: case(query) for uuid, query in queries.items()}


def wanted(query: candidate.CandidateQuery) -> Wanted:
    """A request that every host may serve."""
    return Wanted(((query,),))


def hosts_of_server(base: state.CloudState, uuid: str) -> set[str]:
    """The root UUIDs of the trees in which a consumer has allocations, without shared ones."""
    consumer = base.consumers.get(uuid)
    return {
        base.providers[provider].root_uuid
        for provider in (consumer.allocations if consumer else ())
        if standard.SHARING_TRAIT not in base.providers[provider].traits
    }


def members(
    base: state.CloudState, groups: Iterable[values.ServerGroup]
) -> dict[str, GroupMembers]:
    """Server groups with the hosts of their members, by the allocations of these."""
    return {
        group.uuid: GroupMembers(
            group,
            {uuid: next(iter(sorted(hosts_of_server(base, uuid))), "") for uuid in group.members},
        )
        for group in groups
    }


def compute_of(
    base: state.CloudState, hypervisors: Mapping[str, tuple[str, int]] | None = None
) -> ServerHosts:
    """A node for each host of a cloud, in service; ``hypervisors`` are by root UUID."""
    roots = hosts_of(base)
    nodes = (
        values.ComputeNode(root, root, root, hypervisor=(hypervisors or {}).get(root, ("", 0)))
        for root in roots
    )
    services = tuple(map(values.ComputeService, roots))
    return ServerHosts(values.Hosts(tuple(nodes), services, frozenset(roots)))
