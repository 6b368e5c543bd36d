# SPDX-License-Identifier: Apache-2.0
"""Reads the cases that nova decides: a new server, or what is to be done with existing ones.

A server that moves keeps its allocations until the move is over, so they count as used. Ports,
zone and server group are those of the server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, servers, values
from osc_placement.scheduling import nova_options, request, verdict
from osc_placement.scheduling.answer import Caveats, NotKnown
from osc_placement.scheduling.case import Case, GroupMembers, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import compute_nodes, nova_request, server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.nova_request import RequestOptions, RequestServices


@dataclasses.dataclass(frozen=True, slots=True)
class MoveRequest:
    """A move, by names: its target, if the operator chooses it, and the flavor of a resize."""

    kind: Way
    to_host: str | None = None
    to_flavor: str | None = None


_OWN_COUNT = "the server's own allocations count as used"
_NOT_GIVEN = "nova.conf is not given: allow_resize_to_same_host is off"


def read(
    services: RequestServices,
    options: RequestOptions,
    compute: ServerHosts,
    move: MoveRequest | None = None,
) -> Case:
    """The case of a new server, or of an existing one that is scheduled again or moves.

    Its ``requests`` are several if the releases of nova that this nova may be send different ones.

    Requests: those of ``observe_rules``, and of ``new_spec`` or ``existing_spec``; to nova one for
    host aggregates, one for the zones if none of these has the requested one; for an existing
    server one for it, those of ``read_group``, and for a move one per 1000 of its migrations.
    Errors: InvalidInput for what does not exist, for what nova or Placement refuses, and for a move
    that nova refuses whatever the target; PlacementError for a move without nova's hosts.
    """
    if move is not None and compute.hosts is None:
        raise errors.PlacementError(f"--for needs nova's hosts: {'; '.join(compute.not_checked)}")
    aggregates = nova_api.host_aggregates(services.nova)
    if options.availability_zone:
        nova_request.check_zone(services.nova, aggregates, options.availability_zone)
    server, new, facts = None, None, services.facts()
    if options.server is None:
        spec = nova_request.new_spec(services, options)
    else:
        (server,) = servers.named(services.nova, [options.server]).values()
        flavor = move.to_flavor if move else options.flavor
        options = dataclasses.replace(options, flavor=flavor)
        spec, new = nova_request.existing_spec(services, options, server, facts)
    rules = nova_request.observe_rules(
        services.nova, options.scheduler, services.with_trait, compute
    )
    case = Case(
        move.kind if move else Way.BOOT,
        spec,
        compute,
        rules.releases,
        rules.options,
        aggregates=aggregates,
        server=server,
        is_disabled=new is not None and new.is_disabled,
        facts=facts,
    )
    if server is None:
        return with_requests(case, Caveats(assumed=rules.notes))
    caveats = Caveats(assumed=(*rules.notes, _OWN_COUNT))
    if move is None:
        group = read_group(services.nova, server.uuid) if compute.hosts is not None else None
        return with_requests(dataclasses.replace(case, group=group), caveats)
    return _moved(services, move, case, caveats)


def _moved(services: RequestServices, move: MoveRequest, case: Case, caveats: Caveats) -> Case:
    """The case of a move for which nova chooses a host. Errors: InvalidInput."""
    server, hosts = case.server, case.compute.hosts
    if server is None or hosts is None:
        raise AssertionError("a move is that of a server, on hosts that were read")
    node = None if move.to_host is None else _target(move.to_host, server, hosts)
    case = dataclasses.replace(case, target=node.host if node else None)
    refusal = verdict.refusal(case)
    refused = list(refusal.refused)
    if not refused and move.kind is Way.UNSHELVE and server.vm_state == "shelved":
        # No refusal of nova, but there is no choice of a host to explain.
        refused = [f"nova starts it on {case.source}, without the scheduler"]
    errors.InputErrors(f"{label(server)}: {why}" for why in refused).check()
    may_stay = case.options.allow_resize_to_same_host if move.to_flavor else False
    caveats += Caveats(refusal.unknown) + _earlier_moves(services.nova, server, hosts)
    case = dataclasses.replace(
        case, group=read_group(services.nova, server.uuid), may_stay=bool(may_stay)
    )
    caveats += Caveats(assumed=() if may_stay is not None else (_NOT_GIVEN,))
    case = with_requests(case, caveats)
    if node is None:
        return case
    aimed = tuple(single.aimed(node) for single in case.requests)
    return dataclasses.replace(case, requests=aimed)


def with_requests(case: Case, caveats: Caveats) -> Case:
    """The case with nova's requests, which also have these caveats. Errors: InvalidInput."""
    case = dataclasses.replace(case, spec=case.facts.with_profile(case.spec))
    requests = request.requests_by_release(case.spec, case.aggregates, case.options, case.releases)
    return dataclasses.replace(case, requests=tuple(single.beside(caveats) for single in requests))


def with_requests_or_reason(case: Case, caveats: Caveats | None = None) -> Case:
    """As ``with_requests``; a refusal is a part of the case."""
    try:
        return with_requests(case, caveats or Caveats())
    except errors.InvalidInput as error:
        return dataclasses.replace(case, why_no_request="; ".join(error.reasons))


def of_servers(
    services: RequestServices,
    listed: Mapping[str, values.Server],
    options: nova_options.SchedulerOptions,
    compute: ServerHosts,
    ports: Mapping[str, Sequence[neutron_api.Port]] | None = None,
) -> dict[str, Case | str]:
    """The case of each server of ``listed`` (by UUID) without a way; of a hidden one, why not.

    ``ports`` are those of the servers if they were read. A root disk that is one of several volumes
    is not read; the groups are not known.
    Requests: those of ``observe_rules``; to nova one for host aggregates; to neutron one per 64
    servers without ``ports``; to glance one for each different image of which nova does not show
    the properties, or all if a request filter needs the disk format.
    """
    if ports is None:
        attached = neutron_api.ports_of(services.neutron(), list(listed), with_request=False)
        ports = neutron_api.by_server(attached)
    aggregates = nova_api.host_aggregates(services.nova)
    rules = nova_request.observe_rules(services.nova, options, services.with_trait, compute)
    facts = services.facts()
    caveats = Caveats(assumed=(rules.owner_note,) if rules.owner_note else ())
    with_format = rules.options.query_placement_for_image_type_support
    cases: dict[str, Case | str] = {}
    alike: dict[str, Case] = {}
    for uuid, server in listed.items():
        try:
            ports_of = ports.get(uuid, ())
            spec = nova_request.spec_of(server, ports_of, facts, with_format=with_format)
            case = Case(
                Way.BOOT,
                spec,
                compute,
                rules.releases,
                rules.options,
                aggregates=aggregates,
                server=server,
                facts=facts,
            )
            # Many servers have equal flavors and images.
            key = _kind(spec)
            if key not in alike:
                alike[key] = with_requests_or_reason(case, caveats)
            cases[uuid] = dataclasses.replace(case, requests=alike[key].requests, kind=key)
            if alike[key].why_no_request:
                # The reason names the server.
                cases[uuid] = with_requests_or_reason(case, caveats)
        except errors.InvalidInput as error:
            cases[uuid] = "; ".join(error.reasons)
    return cases


def _kind(spec: request.ServerSpec) -> str:
    """Equal for servers with equal requests: of a port that requests nothing, no field counts."""
    ports = [port for port in spec.ports if port.groups or port.vnic_type != "normal"]
    alike = dataclasses.replace(spec, uuid=None, name="", ports=ports)
    return repr((bool(spec.ports), alike))


def read_group(nova: nova_api.Nova, uuid: str) -> GroupMembers | NotKnown | None:
    """The server group of a server and the hosts of its members; why not, if nova refuses.

    Requests: one per 1000 server groups; one for each of up to five members, or one per 1000
    servers.
    """
    try:
        groups = nova_api.server_groups(nova)
        group = next((item for item in groups if uuid in item.members), None)
        members = {} if group is None else servers.find_servers(nova, set(group.members))
    except errors.PlacementError as error:
        return NotKnown(str(error))
    return members_of([group], members).get(group.uuid) if group else None


def members_of(
    groups: Iterable[values.ServerGroup], listed: Mapping[str, values.Server]
) -> dict[str, GroupMembers]:
    """``{UUID of a server group: its members}``."""
    return {
        group.uuid: GroupMembers(
            group, {uuid: listed[uuid].host or "" for uuid in group.members if uuid in listed}
        )
        for group in groups
    }


def _target(text: str, server: values.Server, hosts: values.Hosts) -> values.ComputeNode:
    """The compute node that nova's query names. Errors: InvalidInput."""
    (host,) = compute_nodes.host_names([text], hosts)
    nodes = hosts.of_host().get(host, [])
    problems = compute_nodes.unknown_hosts([host], hosts.of_host())
    if host == server.host:
        problems = [f"{host} is the source: the server is there; name another target"]
    elif len(nodes) > 1:
        problems = [f"{host} has several compute nodes: nova moves no server to such a host"]
    errors.InputErrors(problems).check()
    return nodes[0]


def _earlier_moves(nova: nova_api.Nova, server: values.Server, hosts: values.Hosts) -> Caveats:
    """What is open about the migrations that the server has had."""
    try:
        listed = servers.migrations(nova, instance_uuid=server.uuid)
    except errors.PlacementError as error:
        return Caveats((f"whether an earlier move of the server is over: {error}",))
    by_uuid = {migration.uuid: migration for migration in listed}
    reading = Cloud(hosts, {}, servers={server.uuid: server}, migrations=by_uuid)
    move = server_moves.move_of(reading, server)
    if move.is_settled or not move.migrations:
        return Caveats()
    text = f"the server: {move.why()}"
    # Where nova's host is a claim, a move from there may find no guest.
    is_certain = all(loss.is_certain for loss in move.losses)
    return Caveats(notes=(text,)) if is_certain else Caveats((text,))


def label(server: values.Server) -> str:
    """``server web-1 (UUID)``; without a name, the UUID alone."""
    return f"server {server.name} ({server.uuid})" if server.name else f"server {server.uuid}"
