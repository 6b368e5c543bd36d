# SPDX-License-Identifier: Apache-2.0
"""Reading what nova's request for a server depends on: flavor, image, server, ports, aggregates."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from osc_placement import errors
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, flavors, request, servers, traits, values
from osc_placement.nova.request import SchedulerOptions


@dataclasses.dataclass(frozen=True, slots=True)
class RequestOptions:
    """What the operator names: a flavor with the options of a new server, or an existing server.

    ``flavor``, ``image`` and ``server`` are names or IDs (a server's UUID); ``ports`` are UUIDs.
    """

    flavor: str | None = None
    image: str | None = None
    from_volume: bool = False
    availability_zone: str | None = None
    project_id: str | None = None
    ports: tuple[str, ...] = ()
    server: str | None = None
    scheduler: SchedulerOptions = dataclasses.field(default_factory=SchedulerOptions)


#: Nova moves a server that was requested in a zone within this zone only.
ZONE_HIDDEN = "the zone in which a server was requested: nova shows it from compute API 2.96 on"


@dataclasses.dataclass(frozen=True, slots=True)
class RequestServices:
    """The services of one cloud; neutron and glance are opened when they are needed."""

    nova: nova_api.Nova
    neutron: Callable[[], neutron_api.Neutron]
    glance: Callable[[], flavors.Glance]


def observe_releases(nova: nova_api.Nova, options: SchedulerOptions) -> tuple[tuple[int, ...], str]:
    """The releases that a nova may be, and a sentence about their rules.

    Requests: one to nova, unless the options name the release.
    """
    if options.release is not None:
        return (options.release,), f"the rules of nova {options.release}"
    version = nova_api.maximum_version(nova)
    if version is None:
        newest = traits.RELEASES[-1]
        return (newest,), f"nova shows no version: the rules of nova {newest} (--nova-release)"
    releases = traits.releases_of(version)
    text = " or ".join(map(str, releases))
    return releases, f"the rules of nova {text}, by its compute API {version}"


def observe_request(
    services: RequestServices, options: RequestOptions
) -> tuple[request.NovaRequest, ...]:
    """Nova's request for the server that the options describe.

    Several if the releases of nova that this nova may be send different requests; the newest first.

    Requests: to nova one for its version, one for host aggregates, one for the zones if none of
    these has the requested one, and one per 1000 flavors or one for the server; to neutron one per
    port, or one for a server; to glance one for an image (two for a name).
    Errors: InvalidInput for what does not exist, and for what nova or Placement refuses.
    """
    aggregates = nova_api.host_aggregates(services.nova)
    if options.availability_zone:
        _check_zone(services.nova, aggregates, options.availability_zone)
    own: tuple[str, ...] = ()
    if options.server:
        spec, own = _existing(services, options)
    else:
        spec = _new(services, options)
    releases, note = observe_releases(services.nova, options.scheduler)
    return tuple(
        dataclasses.replace(single, assumptions=(note, *single.assumptions, *own))
        for single in request.requests_by_release(spec, aggregates, options.scheduler, releases)
    )


def _check_zone(nova: nova_api.Nova, aggregates: Sequence[values.HostAggregate], zone: str) -> None:
    """Refuse a zone that nova does not have. Requests: one for a zone of no host aggregate.

    Errors: InvalidInput, with the zones.
    """
    zones = {each.metadata.get("availability_zone", "") for each in aggregates} - {""}
    if zone not in zones:
        zones |= set(nova_api.availability_zones(nova))
    if zone not in zones:
        raise errors.InvalidInput(
            [f"nova has no availability zone {zone!r}; it has {', '.join(sorted(zones))}"]
        )


def _new(services: RequestServices, options: RequestOptions) -> request.ServerSpec:
    if options.flavor is None:
        raise errors.InvalidInput(["name a flavor or a server"])
    [flavor] = flavors.select(flavors.flavors(services.nova), [options.flavor])
    image = flavors.image(services.glance(), options.image) if options.image else None
    return request.ServerSpec(
        flavor.flavor,
        flavor.name,
        image=image.properties if image else None,
        disk_format=image.disk_format if image else None,
        from_volume=options.from_volume,
        availability_zone=options.availability_zone,
        project_id=options.project_id,
        ports=_ports(services, options.ports),
        flavor_name=flavor.name,
    )


def _ports(services: RequestServices, uuids: Sequence[str]) -> list[neutron_api.Port]:
    found = {uuid: neutron_api.port(services.neutron(), uuid) for uuid in uuids}
    errors.InputErrors(
        f"neutron has no port with the UUID {uuid!r}" for uuid, port in found.items() if not port
    ).check()
    return [port for port in found.values() if port]


def _existing(
    services: RequestServices, options: RequestOptions
) -> tuple[request.ServerSpec, tuple[str, ...]]:
    """The server, and what was assumed about it."""
    uuid = options.server or ""
    server = servers.find_servers(services.nova, {uuid}).get(uuid)
    if server is None:
        raise errors.InvalidInput([f"nova has no server with the UUID {options.server!r}"])
    spec = spec_of(
        server, neutron_api.ports_of(services.neutron(), [server.uuid], with_request=False)
    )
    disk_format, missing = _disk_format(services, options, server)
    spec = dataclasses.replace(
        spec,
        disk_format=disk_format,
        from_volume=_from_volume(services, server),
        availability_zone=options.availability_zone or server.pinned_zone,
    )
    hidden = [] if server.shows_zone or spec.availability_zone else [ZONE_HIDDEN]
    return spec, ("the server's own allocations count as used", *missing, *hidden)


def spec_of(server: values.Server, attached: Sequence[neutron_api.Port]) -> request.ServerSpec:
    """Errors: InvalidInput for a server of a cell that is down."""
    if not server.known or server.flavor is None:
        raise errors.InvalidInput(
            [f"server {server.uuid}: its cell is down, so nova shows neither flavor nor image"]
        )
    return request.ServerSpec(
        server.flavor,
        f"of server {server.name}",
        image=server.image_properties,
        from_volume=server.from_volume,
        availability_zone=server.pinned_zone,
        project_id=server.project_id,
        ports=attached,
        uuid=server.uuid,
        flavor_name=server.flavor_name,
    )


def observe_servers(
    services: RequestServices, listed: Mapping[str, values.Server], options: SchedulerOptions
) -> dict[str, request.NovaRequest | str]:
    """Nova's request for each server of ``listed`` (by UUID), or why there is none.

    The disk format of images, and a root disk that is one of several volumes, are not read.
    Requests: to nova one for its version and one for host aggregates; to neutron one per 64
    servers.
    """
    attached: dict[str, list[neutron_api.Port]] = collections.defaultdict(list)
    for each in neutron_api.ports_of(services.neutron(), list(listed), with_request=False):
        attached[each.server_uuid].append(each)
    aggregates = nova_api.host_aggregates(services.nova)
    releases, _ = observe_releases(services.nova, options)
    requests: dict[str, request.NovaRequest | str] = {}
    for uuid, server in listed.items():
        try:
            spec = spec_of(server, attached[uuid])
            newest, *others = request.requests_by_release(spec, aggregates, options, releases)
            different = tuple(f"{single.title} sends another request" for single in others)
            hidden = () if server.shows_zone else (ZONE_HIDDEN,)
            requests[uuid] = dataclasses.replace(
                newest, not_judged=(*newest.not_judged, *different, *hidden)
            )
        except errors.InvalidInput as error:
            requests[uuid] = "; ".join(error.reasons)
    return requests


def _from_volume(services: RequestServices, server: values.Server) -> bool:
    """Whether the root disk is a volume. Requests: one to nova with an image and volumes."""
    if server.from_volume or not server.has_volumes:
        return server.from_volume
    return servers.root_is_volume(services.nova, server)


def _disk_format(
    services: RequestServices, options: RequestOptions, server: values.Server
) -> tuple[str | None, list[str]]:
    """``(disk format, warnings)`` of the server's image.

    The format is None if no request filter needs it, or if it cannot be read; a warning says why.
    Requests: one or two to glance, if a request filter needs the format.
    """
    needed = options.scheduler.query_placement_for_image_type_support
    if not needed or server.image_id is None:
        return None, []
    try:
        return flavors.image(services.glance(), server.image_id).disk_format, []
    except errors.InvalidInput:
        return None, [f"the image {server.image_id} of the server is deleted"]
    except errors.PlacementError as error:
        return None, [f"the format of the image {server.image_id} is not known: {error}"]
