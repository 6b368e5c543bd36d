# SPDX-License-Identifier: Apache-2.0
"""Reading what nova's request for a server depends on: flavor, image, server, ports, aggregates."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors, retry
from osc_placement.engine import state
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, flavors, servers, values
from osc_placement.scheduling import request, traits
from osc_placement.scheduling.request import SchedulerOptions


@dataclasses.dataclass(frozen=True, slots=True)
class RequestOptions:
    """What the operator names: a flavor with the options of a new server, or an existing server.

    ``flavor`` and ``image`` are names or IDs, ``ports`` UUIDs. ``server`` is a UUID, or a server
    that was read; with a ``flavor`` it is resized to that.
    """

    flavor: str | None = None
    image: str | None = None
    from_volume: bool = False
    availability_zone: str | None = None
    project_id: str | None = None
    ports: tuple[str, ...] = ()
    server: str | values.Server | None = None
    scheduler: SchedulerOptions = dataclasses.field(default_factory=SchedulerOptions)


#: Nova moves a server that was requested in a zone within this zone only.
ZONE_HIDDEN = "the zone in which a server was requested: nova shows it from compute API 2.96 on"


@dataclasses.dataclass(frozen=True, slots=True)
class RequestServices:
    """The services of one cloud; neutron and glance are opened when they are needed.

    ``has_owner``: whether a host has the trait OWNER_NOVA.
    """

    nova: nova_api.Nova
    neutron: Callable[[], neutron_api.Neutron]
    glance: Callable[[], flavors.Glance]
    has_owner: Callable[[], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The releases that a nova may be, and the options with what was read about their rules.

    ``note`` and ``owner_note`` are sentences; the latter is empty if nothing was assumed about the
    trait OWNER_NOVA.
    """

    options: SchedulerOptions
    releases: tuple[int, ...]
    note: str
    owner_note: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """All sentences."""
        return tuple(filter(None, (self.note, self.owner_note)))

    @property
    def newest(self) -> SchedulerOptions:
        """The options with the newest release."""
        return dataclasses.replace(self.options, release=max(self.releases))


def observe_rules(
    nova: nova_api.Nova, options: SchedulerOptions, has_owner: Callable[[], bool]
) -> Rules:
    """The rules by which a nova sends its requests.

    Nova requires OWNER_NOVA if a host has it, which only nova-compute 34 sets. Without such a host
    it is not known, unless nova does not even show that it is nova 34.

    Requests: one to nova, unless the options name the release; those of ``has_owner`` if the
    release may have the rule.
    """
    newest = traits.RELEASES[-1]
    version: str | None = None
    releases: tuple[int, ...]
    if options.release is not None:
        releases, note = (options.release,), f"the rules of nova {options.release}"
    elif version := nova_api.maximum_version(nova):
        releases = traits.releases_of(version)
        text = " or ".join(map(str, releases))
        note = f"the rules of nova {text}, by its compute API {version}"
    else:
        releases = (newest,)
        note = f"nova shows no version: the rules of nova {newest} (--nova-release)"
    if options.owner or max(releases) < traits.OWNER_SINCE:
        return Rules(options, releases, note)
    if has_owner():
        return Rules(dataclasses.replace(options, owner=True), releases, note, OWNER_MEASURED)
    if version is None and options.release is None:
        owned = dataclasses.replace(options, owner=False)
        return Rules(owned, releases, note, request.OWNER_UNKNOWN)
    return Rules(options, releases, note)


#: Why nova requires OWNER_NOVA.
OWNER_MEASURED = (
    f"every nova-compute is nova 34, because hosts have the trait {traits.OWNER}: nova requires it"
)


def has_owner(client: api.Client) -> bool:
    """Whether a root provider has the trait OWNER_NOVA. Requests: one listing."""
    try:
        listed = retry.read(lambda: client.list_providers(required=[traits.OWNER]))
    except api_errors.BadRequest:
        # Placement does not have the trait.
        return False
    return any(item.root_uuid in (None, item.uuid) for item in listed)


def has_owner_in(base: state.CloudState) -> bool:
    """``has_owner`` of a state with all traits. Requests: none."""
    uuids = base.with_trait[traits.OWNER]
    return any(base.providers[uuid].root_uuid == uuid for uuid in uuids)


def observe_request(
    services: RequestServices, options: RequestOptions
) -> tuple[request.NovaRequest, ...]:
    """Nova's request for the server that the options describe.

    Several if the releases of nova that this nova may be send different requests; the newest first.

    Requests: those of ``observe_rules``; to nova one for host aggregates, one for the zones if none
    of these has the requested one, and one per 1000 flavors or one for the server; to neutron one
    per port, or one for a server; to glance one for an image (two for a name).
    Errors: InvalidInput for what does not exist, and for what nova or Placement refuses.
    """
    aggregates = nova_api.host_aggregates(services.nova)
    if options.availability_zone:
        _check_zone(services.nova, aggregates, options.availability_zone)
    own: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    if options.server:
        spec, own, hidden = _existing(services, options, aggregates)
    else:
        spec = _new(services, options)
    rules = observe_rules(services.nova, options.scheduler, services.has_owner)
    return tuple(
        dataclasses.replace(
            single,
            assumptions=(*rules.notes, *single.assumptions, *own),
            not_checked=(*single.not_checked, *hidden),
        )
        for single in request.requests_by_release(spec, aggregates, rules.options, rules.releases)
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
    services: RequestServices, options: RequestOptions, aggregates: Sequence[values.HostAggregate]
) -> tuple[request.ServerSpec, tuple[str, ...], tuple[str, ...]]:
    """The server, what was assumed about it, and what was not checked."""
    server = read_server(services.nova, options)
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
    if options.flavor is not None:
        [new] = flavors.select(flavors.flavors(services.nova), [options.flavor])
        if (new.name, new.flavor) == (server.flavor_name, server.flavor):
            raise errors.InvalidInput([f"the server has the flavor {new.name} already"])
        spec = dataclasses.replace(spec, flavor=new.flavor, name=new.name, flavor_name=new.name)
    hidden = () if options.availability_zone else _hidden_zone(server, aggregates)
    return spec, ("the server's own allocations count as used", *missing), hidden


def _hidden_zone(
    server: values.Server, aggregates: Sequence[values.HostAggregate]
) -> tuple[str, ...]:
    """That the zone of a server is not known, in a cloud with zones."""
    has_zones = any("availability_zone" in each.metadata for each in aggregates)
    return (ZONE_HIDDEN,) if has_zones and not server.shows_zone else ()


def read_server(nova: nova_api.Nova, options: RequestOptions) -> values.Server:
    """The existing server. Requests: one, if it was not read. Errors: InvalidInput."""
    if isinstance(options.server, values.Server):
        return options.server
    uuid = options.server or ""
    server = servers.find_servers(nova, {uuid}).get(uuid)
    if server is None:
        raise errors.InvalidInput([f"nova has no server with the UUID {uuid!r}"])
    return server


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
    Requests: those of ``observe_rules``; to nova one for host aggregates; to neutron one per 64
    servers.
    """
    attached: dict[str, list[neutron_api.Port]] = collections.defaultdict(list)
    for each in neutron_api.ports_of(services.neutron(), list(listed), with_request=False):
        attached[each.server_uuid].append(each)
    aggregates = nova_api.host_aggregates(services.nova)
    rules = observe_rules(services.nova, options, services.has_owner)
    requests: dict[str, request.NovaRequest | str] = {}
    for uuid, server in listed.items():
        try:
            spec = spec_of(server, attached[uuid])
            newest, *others = request.requests_by_release(
                spec, aggregates, rules.options, rules.releases
            )
            different = tuple(f"{single.title} sends another request" for single in others)
            hidden = _hidden_zone(server, aggregates)
            requests[uuid] = dataclasses.replace(
                newest,
                assumptions=tuple(filter(None, (rules.owner_note, *newest.assumptions))),
                not_checked=(*newest.not_checked, *different, *hidden),
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
