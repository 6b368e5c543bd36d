# SPDX-License-Identifier: Apache-2.0
"""Reading what nova's request for a server depends on: flavor, image, server, ports, aggregates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors
from osc_placement.engine import state
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, device_profiles, flavors, servers, values
from osc_placement.nova.flavors import NamedFlavor
from osc_placement.scheduling import api_rules, case, request, traits
from osc_placement.scheduling.answer import NotKnown
from osc_placement.scheduling.nova_options import SchedulerOptions
from osc_placement.scheduling.server_hosts import ServerHosts


@dataclasses.dataclass(frozen=True, slots=True)
class RequestOptions:
    """What the operator names: a flavor with the options of a new server, or an existing server.

    ``flavor`` and ``image`` are names or IDs, ``ports`` UUIDs. ``server`` is a UUID; with a
    ``flavor`` it is resized to that.
    """

    flavor: str | None = None
    image: str | None = None
    from_volume: bool = False
    availability_zone: str | None = None
    project_id: str | None = None
    ports: tuple[str, ...] = ()
    server: str | None = None
    scheduler: SchedulerOptions = dataclasses.field(default_factory=SchedulerOptions)


#: The hosts (UUIDs of root providers) with a trait.
WithTrait = Callable[[str], frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class RequestServices:
    """The services of one cloud; neutron and glance are opened when they are needed.

    ``used_traits`` are those of ``api_rules.TRAITS`` that a provider has.
    """

    nova: nova_api.Nova
    neutron: Callable[[], neutron_api.Neutron]
    glance: Callable[[], flavors.Glance]
    with_trait: WithTrait
    used_traits: Callable[[], frozenset[str]] = lambda: api_rules.TRAITS

    def facts(self) -> CloudFacts:
        """What only some rules ask for."""
        return CloudFacts(self)


def services_of(nova: nova_api.Nova) -> RequestServices:
    """Nova and its glance, for servers of which the ports are known. Requests: none."""
    # Which hosts have the trait of nova 34 says nothing about a server: no listing.
    return RequestServices(
        nova, _no_neutron, lambda: flavors.glance_of(nova), lambda _: frozenset()
    )


def isolated_aggregates(
    nova: nova_api.Nova, options: SchedulerOptions
) -> Sequence[values.HostAggregate]:
    """The host aggregates that nova's request for a flavor may have to leave out.

    Requests: one if nova.conf has ``enable_isolated_aggregate_filtering``, else none.
    """
    return nova_api.host_aggregates(nova) if options.enable_isolated_aggregate_filtering else ()


def _no_neutron() -> neutron_api.Neutron:
    raise errors.PlacementError("neutron is not asked for the ports of these servers")


class CloudFacts(case.Facts):
    """Reads what a rule asks for, each fact once."""

    def __init__(self, services: RequestServices, images: Iterable[flavors.Image] = ()) -> None:
        self._services = services
        self._with_trait: dict[str, frozenset[str]] = {}
        self._images: dict[str, flavors.Image | str] = {image.id: image for image in images}
        self._profiles = device_profiles.DeviceProfiles(services.nova)

    def with_trait(self, trait: str) -> frozenset[str]:
        """The hosts with a trait, if any host has it. Requests: one listing. Errors: NotKnown."""
        if trait not in self._with_trait:
            try:
                if trait in api_rules.TRAITS and trait not in self._services.used_traits():
                    self._with_trait[trait] = frozenset()
                else:
                    self._with_trait[trait] = self._services.with_trait(trait)
            except errors.PlacementError as error:
                raise NotKnown(f"the hosts with the trait {trait}: {error}") from error
        return self._with_trait[trait]

    def has_share(self, server: values.Server) -> bool:
        """Whether a share is attached. Requests: one GET to nova. Errors: NotKnown."""
        try:
            return servers.has_share(self._services.nova, server.uuid)
        except errors.PlacementError as error:
            raise NotKnown(f"whether a share is attached: {error}") from error

    def with_profile(self, spec: request.ServerSpec) -> request.ServerSpec:
        """The spec with the groups of its device profile, or why they are not known.

        Requests: one GET to cyborg for the first one. Errors: InvalidInput.
        """
        return with_profile(spec, self._profiles)

    def image(self, uuid: str) -> flavors.Image | str:
        """An image of glance, or why it cannot be read. Requests: one GET to glance."""
        if uuid not in self._images:
            try:
                self._images[uuid] = flavors.image_of_server(self._services.glance(), uuid)
            except errors.PlacementError as error:
                self._images[uuid] = f"the properties of image {uuid}: {error}"
        return self._images[uuid]


def with_profile(
    spec: request.ServerSpec, profiles: device_profiles.DeviceProfiles
) -> request.ServerSpec:
    """As ``CloudFacts.with_profile``."""
    name = spec.flavor.extra_specs.get(device_profiles.SPEC)
    if not name:
        return spec
    try:
        return dataclasses.replace(spec, profile=profiles.groups(name))
    except NotKnown as error:
        return dataclasses.replace(spec, why_no_profile=str(error))


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
    nova: nova_api.Nova,
    options: SchedulerOptions,
    with_trait: WithTrait,
    compute: ServerHosts | None = None,
) -> Rules:
    """The rules by which a nova sends its requests.

    Nova requires OWNER_NOVA once every nova-compute is nova 34; only that release sets the trait.
    Without a host that has it, it is not known, unless nova does not even show that it is nova 34.

    Requests: one to nova, unless the options name the release; those of ``with_trait`` if the
    release may have the rule.
    """
    newest = traits.RELEASES[-1]
    version: str | None = None
    releases: tuple[int, ...]
    if options.release is not None:
        releases, note = (options.release,), f"the rules of nova {options.release}"
    else:
        try:
            version = nova_api.maximum_version(nova)
        except errors.NotKnown as error:
            releases = (newest,)
            note = f"{error}: the rules of nova {newest} (--nova-release)"
        else:
            releases = traits.releases_of(version)
            text = " or ".join(map(str, releases))
            note = f"the rules of nova {text}, by its compute API {version}"
    if options.owner or max(releases) < traits.OWNER_SINCE:
        return Rules(options, releases, note)
    owners = with_trait(traits.OWNER)
    if owners:
        is_newest = compute is None or compute.hosts is None or compute.all_have(owners)
        owned = dataclasses.replace(options, owner=is_newest)
        return Rules(owned, releases, note, OWNER_MEASURED if is_newest else OWNER_NOT_YET)
    if version is None and options.release is None:
        owned = dataclasses.replace(options, owner=False)
        return Rules(owned, releases, note, request.OWNER_UNKNOWN)
    return Rules(options, releases, note)


#: Why nova requires OWNER_NOVA.
OWNER_MEASURED = (
    f"every nova-compute is nova 34, because hosts have the trait {traits.OWNER}: nova requires it"
)
OWNER_NOT_YET = (
    f"nova does not require {traits.OWNER}: hosts without it have an older nova-compute, and nova"
    " requires it once every nova-compute is nova 34"
)


def with_trait(client: api.Client, trait: str) -> frozenset[str]:
    """The roots of the trees with a trait. Requests: one listing."""
    try:
        listed = client.list_providers(required=[trait])
    except api_errors.BadRequest:
        # Placement does not have the trait.
        return frozenset()
    return frozenset(item.root_uuid or item.uuid for item in listed)


def used_traits(client: api.Client) -> frozenset[str]:
    """Those of ``api_rules.TRAITS`` that a provider has. Requests: one listing."""
    name = f"in:{','.join(sorted(api_rules.TRAITS))}"
    return frozenset(client.list_traits(name, associated=True))


def with_trait_in(base: state.CloudState, trait: str) -> frozenset[str]:
    """``with_trait`` of a state with all traits. Requests: none."""
    return frozenset(base.providers[uuid].root_uuid for uuid in base.with_trait[trait])


def check_zone(nova: nova_api.Nova, aggregates: Sequence[values.HostAggregate], zone: str) -> None:
    """Refuse a zone that nova does not have. Requests: one for a zone of no host aggregate.

    Errors: InvalidInput, with the zones.
    """
    zones = {aggregate.metadata.get("availability_zone", "") for aggregate in aggregates} - {""}
    if zone not in zones:
        zones |= set(nova_api.availability_zones(nova))
    if zone not in zones:
        raise errors.InvalidInput(
            [f"nova has no availability zone {zone!r}; it has {', '.join(sorted(zones))}"]
        )


def new_spec(services: RequestServices, options: RequestOptions) -> request.ServerSpec:
    """What the scheduler gets for a new server.

    Requests: to nova one per 1000 flavors; to neutron one per port; to glance one for an image (two
    for a name). Errors: InvalidInput.
    """
    [flavor] = flavors.select(flavors.flavors(services.nova), [options.flavor or ""])
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
        image_id=image.id if image else None,
    )


def _ports(services: RequestServices, uuids: Sequence[str]) -> list[neutron_api.Port]:
    ports = {uuid: neutron_api.port(services.neutron(), uuid) for uuid in uuids}
    errors.InputErrors(
        f"neutron has no port with the UUID {uuid!r}" for uuid, port in ports.items() if not port
    ).check()
    return [port for port in ports.values() if port]


def existing_spec(
    services: RequestServices, options: RequestOptions, server: values.Server, facts: CloudFacts
) -> tuple[request.ServerSpec, NamedFlavor | None]:
    """What the scheduler gets for a server, and the flavor of a resize.

    Requests: to neutron one for the ports; to nova one per 1000 flavors for a resize, and one for a
    server with an image and volumes; to glance one for the image if it is needed.
    Errors: InvalidInput.
    """
    ports = neutron_api.ports_of(services.neutron(), [server.uuid], with_request=False)
    with_format = options.scheduler.query_placement_for_image_type_support
    spec = dataclasses.replace(
        _with_root_disk(services, server, spec_of(server, ports, facts, with_format=with_format)),
        availability_zone=options.availability_zone or server.pinned_zone,
        names_zone=bool(options.availability_zone),
    )
    new: NamedFlavor | None = None
    if options.flavor is not None:
        [new] = flavors.select(flavors.flavors(services.nova), [options.flavor])
        spec = dataclasses.replace(spec, flavor=new.flavor, name=new.name, flavor_name=new.name)
    return spec, new


def spec_of(
    server: values.Server,
    attached: Sequence[neutron_api.Port],
    facts: CloudFacts | None = None,
    *,
    with_format: bool = False,
) -> request.ServerSpec:
    """What the scheduler gets for a server. ``facts`` reads an image that nova does not show.

    ``with_format``: also the disk format, which nova never shows.
    Requests: one to glance for such an image. Errors: InvalidInput for a server that is not
    known.
    """
    if not server.known or server.flavor is None:
        raise errors.InvalidInput(
            [f"server {server.uuid}: {server.why_unknown or 'nova shows no flavor'}"]
        )
    properties, why = server.image_properties, ""
    image: flavors.Image | str = ""
    if facts is not None and server.image_id and (server.hides_image or with_format):
        image = facts.image(server.image_id)
    if server.hides_image and image:
        properties, why = (None, image) if isinstance(image, str) else (image.properties, "")
    return request.ServerSpec(
        server.flavor,
        f"of server {server.name}",
        image=properties,
        disk_format=None if isinstance(image, str) else image.disk_format,
        why_no_format=image if isinstance(image, str) else "",
        from_volume=server.from_volume,
        availability_zone=server.pinned_zone,
        project_id=server.project_id,
        ports=attached,
        uuid=server.uuid,
        flavor_name=server.flavor_name,
        image_id=server.image_id,
        why_no_image=why,
    )


def _with_root_disk(
    services: RequestServices, server: values.Server, spec: request.ServerSpec
) -> request.ServerSpec:
    """Whether the root disk is a volume. Requests: one to nova with an image and volumes."""
    if server.from_volume or not server.has_volumes:
        return spec
    try:
        from_volume = servers.root_is_volume(services.nova, server)
    except NotKnown as error:
        # A snapshot has no attachments: there are as many requests for them as servers.
        return dataclasses.replace(spec, why_local_disk=str(error))
    return dataclasses.replace(spec, from_volume=from_volume)
