# SPDX-License-Identifier: Apache-2.0
"""Nova's request to Placement for a new server: the query, and the source of each part. Pure.

``request_to_placement`` follows the steps of nova 34: the resources of the flavor, the ports, the
traits, then the request filters in nova's order. lab/tests/test_request.py compares the query
with that of nova's own code. A flavor that nova refuses, or that gives a query that Placement
refuses, raises InvalidInput with all reasons.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.engine import standard
from osc_placement.model import constraint
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.neutron.api import Port
from osc_placement.nova import device_profiles, flavor as flavors, topology
from osc_placement.nova.flavor import Source
from osc_placement.nova.values import ComputeNode, HostAggregate
from osc_placement.scheduling import nova_options, traits
from osc_placement.scheduling.answer import Caveats

IMAGE_TRAITS = "image traits"
PCI = "PCI alias"
DEVICE_PROFILE = "device profile"
PORTS = "port resource requests"
GROUP_POLICY = "group_policy"
TENANTS = "request filter: tenant aggregates"
ZONE = "request filter: availability zone"
IMAGE_TYPE = "request filter: image type support"
STATUS = "request filter: compute status"
ISOLATED = "request filter: isolated aggregates"
REMOTE_MANAGED = "request filter: remote managed ports"
OWNER = "request filter: owner"
ROUTED = "request filter: routed networks"

#: What is assumed if no host has the trait: older nova-computes do not set it.
OWNER_UNKNOWN = (
    f"nova does not require {traits.OWNER}, because no host has it: nova does once every"
    " nova-compute is nova 34 (--filter owner)"
)
#: The other case.
_WITH_OWNER = f" that requires {traits.OWNER}"
NETWORKS = (
    "the aggregates of routed networks are not in the query: they need the segments of the server's"
    " networks"
)

#: Nova checks all aliases of its nova.conf from this release on, also nova-compute at its start.
ALIASES_CHECKED_SINCE = 31

#: The beginning of the names of the groups of PCI devices; nova uses random UUIDs.
_DEVICE = "_pci-"
_PROFILE = "_device_profile_"
_ZONE = "availability_zone"
_REQUIRING = frozenset({Kind.REQUIRED, Kind.ROOT_REQUIRED})
_TENANT_KEY = "filter_tenant_id"
_TRAIT_KEY = "trait:"


@dataclasses.dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server to start.

    ``image`` are the image's properties, such as ``hw_disk_bus``; None if they are unknown:
    ``why_no_image`` says why. ``disk_format`` is the image's; ``why_no_format`` says why it is not
    known; ``profile`` are the groups of the flavor's device profile, ``why_no_profile`` why they
    are not known. ``why_local_disk``: why it is not known whether the root disk is a volume; it
    counts as local. ``names_zone``: the operator names the zone of a move. ``name`` names the
    flavor in messages; ``flavor_name`` is its name, None if it is not known. ``uuid`` is set for an
    existing server.
    """

    flavor: flavors.Flavor
    name: str = ""
    image: Mapping[str, str] | None = None
    disk_format: str | None = None
    from_volume: bool = False
    availability_zone: str | None = None
    project_id: str | None = None
    ports: Sequence[Port] = ()
    uuid: str | None = None
    flavor_name: str | None = None
    image_id: str | None = None
    why_no_image: str = ""
    why_no_format: str = ""
    profile: device_profiles.Groups | None = None
    why_no_profile: str = ""
    why_local_disk: str = ""
    names_zone: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class NovaRequest:
    """The query of nova's scheduler.

    ``sources`` is ``{constraint: its source}`` in nova's order, for every constraint of the query.
    ``caveats`` are assumptions where something was not known, doubts about what nova also checks,
    and the query does not, and notes about what a flavor alone leaves open. ``server`` and
    ``aggregates`` are what the query was computed from; ``releases`` are the releases of nova that
    send it, and ``condition`` when they do, if that is not known. ``second`` is the request that
    nova also sends for pinned CPUs, with VCPU in their place: it takes the hosts of both answers.
    """

    query: CandidateQuery
    sources: Mapping[Constraint, Source]
    server: ServerSpec
    aggregates: Sequence[HostAggregate] = ()
    caveats: Caveats = dataclasses.field(default_factory=Caveats)
    releases: tuple[int, ...] = ()
    condition: str = ""
    second: NovaRequest | None = None

    @property
    def all(self) -> tuple[NovaRequest, ...]:
        """The request, and the second one if there is one."""
        return (self, *([self.second] if self.second else ()))

    @property
    def queries(self) -> tuple[CandidateQuery, ...]:
        """The queries of nova, in its order: it takes the hosts of all answers."""
        return tuple(single.query for single in self.all)

    def required_since(self, old: NovaRequest) -> dict[Constraint, Source]:
        """The constraints on traits that the request of another release lacks, in any query."""
        return {
            item: source
            for before, after in zip(old.all, self.all, strict=True)
            for item, source in after.sources.items()
            if item.kind in _REQUIRING and item not in before.sources
        }

    def aimed(self, node: ComputeNode) -> NovaRequest:
        """The request for a target that the operator names: its tree is the only one."""
        first, *others = self.query.groups
        groups = (dataclasses.replace(first, in_tree=node.uuid), *others)
        constraint = Constraint(Kind.IN_TREE, first.suffix, (node.uuid,))
        source = Source("requested destination", node.host)
        return dataclasses.replace(
            self,
            query=dataclasses.replace(self.query, groups=groups),
            sources={**self.sources, constraint: source},
            second=self.second and self.second.aimed(node),
        )

    def sent_by(self, releases: tuple[int, ...], condition: str = "") -> NovaRequest:
        """The request of these releases of nova, under a condition."""
        return dataclasses.replace(
            self,
            releases=releases,
            condition=condition + self.condition,
            second=self.second and self.second.sent_by(releases, condition),
        )

    def beside(self, caveats: Caveats) -> NovaRequest:
        """The request with more that stands beside an answer about it."""
        return dataclasses.replace(
            self,
            caveats=caveats + self.caveats,
            second=self.second and self.second.beside(caveats),
        )

    @property
    def title(self) -> str:
        """The releases of nova that send this query: ``nova 31 or 32``."""
        return f"nova {' or '.join(map(str, self.releases))}{self.condition}"


def requests_by_release(
    server: ServerSpec,
    aggregates: Sequence[HostAggregate] = (),
    options: nova_options.SchedulerOptions | None = None,
    releases: Sequence[int] = traits.RELEASES[-1:],
) -> tuple[NovaRequest, ...]:
    """The different requests of several releases of nova, that of the newest release first.

    The last one is that which requires OWNER_NOVA, if it is not known whether nova does.
    Errors: InvalidInput if every release refuses the flavor with this image, or Placement its
    query.
    """
    options = options or nova_options.SchedulerOptions()
    owners = [release for release in releases if release >= traits.OWNER_SINCE]
    if options.owner is None and owners:
        owned = dataclasses.replace(options, owner=True)
        return (
            *_different(server, aggregates, options, releases),
            *(
                request.sent_by(request.releases, _WITH_OWNER)
                for request in _different(server, aggregates, owned, owners)
            ),
        )
    return _different(server, aggregates, options, releases)


def _different(
    server: ServerSpec,
    aggregates: Sequence[HostAggregate],
    options: nova_options.SchedulerOptions,
    releases: Sequence[int],
) -> tuple[NovaRequest, ...]:
    different: list[NovaRequest] = []
    refused: dict[int, errors.InvalidInput] = {}
    for release in sorted(releases, reverse=True):
        try:
            single = dataclasses.replace(options, release=release)
            request = request_to_placement(server, aggregates, single)
        except errors.InvalidInput as error:
            refused[release] = error
            continue
        previous = different[-1] if different else None
        if previous and previous.queries == request.queries:
            different[-1] = previous.sent_by((release, *previous.releases))
        else:
            different.append(request.sent_by((release,)))
    if not different:
        raise refused[max(refused)]
    doubts = tuple(f"nova {release} refuses it: {error}" for release, error in refused.items())
    return tuple(request.beside(Caveats(doubts)) for request in different)


def request_to_placement(
    server: ServerSpec,
    aggregates: Sequence[HostAggregate] = (),
    options: nova_options.SchedulerOptions | None = None,
) -> NovaRequest:
    """The request of nova's scheduler for a server.

    ``aggregates`` are all host aggregates, with metadata.
    Errors: InvalidInput if nova or Placement refuses the flavor with this image.
    """
    options = options or nova_options.SchedulerOptions()
    built = _Builder(server, aggregates, options).build()
    specs, image = server.flavor.extra_specs, server.image or {}
    policy = specs.get("hw:cpu_policy") or image.get("hw_cpu_policy")
    if options.disable_fallback_pcpu_query or policy != "dedicated":
        return built
    second = _Builder(server, aggregates, options, pins_cpus=False).build()
    return dataclasses.replace(built, second=dataclasses.replace(second, condition=SECOND_QUERY))


#: How the second query is named.
SECOND_QUERY = ", second query for pinned CPUs"


@dataclasses.dataclass(slots=True)
class _Group:
    """A request group while it is built."""

    resources: dict[str, int] = dataclasses.field(default_factory=dict)
    required: list[frozenset[str]] = dataclasses.field(default_factory=list)
    forbidden: set[str] = dataclasses.field(default_factory=set)
    member_of: list[frozenset[str]] = dataclasses.field(default_factory=list)
    not_member_of: set[str] = dataclasses.field(default_factory=set)

    def frozen(self, suffix: str) -> RequestGroup:
        return RequestGroup(
            suffix,
            self.resources,
            tuple(dict.fromkeys(self.required)),
            frozenset(self.forbidden),
            tuple(dict.fromkeys(self.member_of)),
            frozenset(self.not_member_of),
        )


#: A rule that reads only the extra specs, the image properties and the release.
PropertiesRule = Callable[[traits.Properties, traits.Properties, int], Iterator[traits.Trait]]


class _Builder:
    """Adds the parts of a request one by one, each with its source."""

    def __init__(
        self,
        server: ServerSpec,
        aggregates: Sequence[HostAggregate],
        options: nova_options.SchedulerOptions,
        *,
        pins_cpus: bool = True,
    ) -> None:
        self._server, self._aggregates, self._options = server, aggregates, options
        self._pins_cpus = pins_cpus
        self._release = options.release or traits.RELEASES[-1]
        self._specs = server.flavor.extra_specs
        assumed = {} if server.image is not None else traits.image_for_encryption(self._specs)
        self._image = server.image or assumed
        self._groups: dict[str, _Group] = collections.defaultdict(_Group)
        self._root: tuple[set[str], set[str]] = (set(), set())
        self._same_subtree: list[frozenset[str]] = []
        self._isolate = False
        self._sources: dict[Constraint, Source] = {}
        self._assumed: list[str] = []
        self._doubts: list[str] = []
        self._notes: list[str] = []
        self._problems = errors.InputErrors()

    def build(self) -> NovaRequest:
        """Run nova's steps."""
        self._add_flavor()
        self._add_ports()
        self._add_traits()
        for rule in RULES:
            if rule.since <= self._release and (self._pins_cpus or not rule.is_of_pinning):
                self._apply(rule)
        self._note_options()
        self._check()
        query = CandidateQuery(
            tuple(group.frozen(suffix) for suffix, group in sorted(self._groups.items())),
            isolate=self._isolate,
            same_subtree=tuple(self._same_subtree),
            root_required=frozenset(self._root[0]),
            root_forbidden=frozenset(self._root[1]),
            limit=self._options.max_placement_results,
        )
        present = set(constraint.constraints_of(query))
        sources = {part: where for part, where in self._sources.items() if part in present}
        return NovaRequest(
            query,
            sources,
            self._server,
            self._aggregates,
            Caveats(tuple(self._doubts), tuple(self._notes), tuple(self._assumed)),
        )

    @property
    def _title(self) -> str:
        return f"flavor {self._server.name}" if self._server.name else "the flavor"

    # Flavor, ports, traits

    def _add_flavor(self) -> None:
        server = self._server
        if server.image is None and server.why_no_image:
            self._doubts.append(server.why_no_image)
        elif server.image is None and not server.from_volume:
            self._assumed.append("the image has no properties that change the request")
        if server.image is None and self._image:
            texts = (f"{key}={value}" for key, value in self._image.items())
            self._assumed.append(f"the image has {', '.join(texts)} for encrypted memory")
        if server.why_local_disk and server.flavor.disk:
            self._assumed.append(f"the root disk is local, and no volume: {server.why_local_disk}")
        request = flavors.request_of(
            server.flavor,
            self._image,
            booted_from_volume=server.from_volume,
            pins_cpus=self._pins_cpus,
        )
        for reason in request.unknown:
            if reason == request.needs_cyborg:
                continue
            self._problems.add(f"nova cannot turn {self._title} into a request: {reason}")
        if server.uuid is None:
            numbers = server.flavor.vcpus, server.flavor.ram
            for reason in topology.refusals(*numbers, self._specs, self._image):
                self._problems.add(f"nova refuses {self._title}: {reason}")
        for (suffix, name), where in request.sources.items():
            group = request.groups.get(suffix)
            if group and name in group.resources:
                self._add_resources(suffix, name, group.resources[name], where)
        self._isolate = request.isolate
        if request.isolate:
            self._sources[Constraint(Kind.ISOLATE)] = Source(GROUP_POLICY, "group_policy=isolate")
        self._add_devices()
        self._add_profile(request.needs_cyborg)

    def _add_profile(self, needs_cyborg: str) -> None:
        """A group for each group of the device profile."""
        if not needs_cyborg:
            return
        if self._server.profile is None:
            self._doubts.append(self._server.why_no_profile or needs_cyborg)
        where = Source(DEVICE_PROFILE, self._specs[device_profiles.SPEC])
        for number, group in enumerate(self._server.profile or ()):
            suffix = f"{_PROFILE}{number}"
            for _, name, amount in flavors.matching("resources", group):
                self._add_resources(suffix, name, int(amount), where)
            for _, name, how in flavors.matching("trait", group):
                if how == "required":
                    self._require(suffix, {name}, where)
                else:
                    self._forbid(suffix, name, where)

    def _add_devices(self) -> None:
        """A group for each PCI device, if nova requests them from Placement."""
        requested = flavors.pci_devices(self._specs)
        if not requested:
            return
        names = ", ".join(dict.fromkeys(alias for alias, _ in requested))
        aliases, in_placement = self._options.aliases, self._options.pci_in_placement
        if aliases is None:
            self._doubts.append(
                f"the devices of the PCI alias {names} are not in the query: only nova.conf"
                " (--nova-conf) says what an alias requests"
            )
            return
        wrong = list(_wrong_aliases(aliases, requested, self._release, in_placement=in_placement))
        if wrong and self._server.uuid is not None:
            # Nova keeps what the alias requested when the server was started.
            self._doubts.append(
                f"the devices of the PCI alias {names} are not in the query: [pci]{wrong[0]}"
            )
            return
        for reason in wrong:
            self._problems.add(f"nova refuses {self._title}: [pci]{reason}")
        if wrong:
            return
        if not in_placement:
            self._doubts.append(
                f"the devices of the PCI alias {names} are not in the query: nova requests them"
                " from Placement only with [filter_scheduler]pci_in_placement"
            )
            return
        devices = [alias for alias, count in requested for _ in range(count)]
        for number, alias in enumerate(devices, 1):
            suffix, where = f"{_DEVICE}{number}", Source(PCI, alias)
            self._add_resources(suffix, aliases[alias][0].resource_class, 1, where)
            for trait in sorted(aliases[alias][0].traits):
                self._require(suffix, {trait}, where)

    def _add_ports(self) -> None:
        for port in self._server.ports:
            where = Source(PORTS, f"port {port.name}")
            for suffix, group in port.groups.items():
                for name, amount in group.resources.items():
                    self._add_resources(suffix, name, amount, where)
                for any_of in group.required:
                    self._require(suffix, any_of, where)
            if len(port.same_subtree) > 1:
                self._same_subtree.append(port.same_subtree)
                names = tuple(sorted(port.same_subtree))
                self._sources[Constraint(Kind.SAME_SUBTREE, names=names)] = where

    def _add_traits(self) -> None:
        for suffix, name, how in flavors.matching("trait", self._specs):
            where = Source(flavors.EXTRA_SPECS, f"trait{suffix}:{name}={how}")
            if how == "required":
                self._require(suffix, {name}, where)
            elif how == "forbidden":
                self._forbid(suffix, name, where)
        for suffix, name, how in flavors.matching("trait", self._image):
            if (suffix, how) == ("", "required"):
                self._require("", {name}, Source(IMAGE_TRAITS, f"trait:{name}=required"))

    def _apply(self, rule: RequestRule) -> None:
        if rule.option and not getattr(self._options, rule.option):
            return
        try:
            rule.add(self)
        except traits.FlavorRefused as refused:
            self._problems.add(f"nova refuses {self._title}: {refused}")

    # Rules

    def _tenants(self) -> None:
        project = self._server.project_id
        if project is None:
            self._assumed.append(
                "no project is given: the aggregates of a project are not in the query"
            )
            return
        members = [
            aggregate
            for aggregate in self._aggregates
            if any(
                key.startswith(_TENANT_KEY) and value == project
                for key, value in aggregate.metadata.items()
            )
        ]
        if members:
            self._member_of(members, Source(TENANTS, f"project {project}"))
        elif self._options.placement_aggregate_required_for_tenants:
            raise traits.FlavorRefused(
                f"no host aggregate has {_TENANT_KEY}={project}, and"
                " placement_aggregate_required_for_tenants is set"
            )

    def _zone(self) -> None:
        zone = self._server.availability_zone
        if zone is None:
            return
        members = [
            aggregate for aggregate in self._aggregates if aggregate.metadata.get(_ZONE) == zone
        ]
        if members:
            self._member_of(members, Source(ZONE, zone))
        else:
            self._assumed.append(
                f"no host aggregate has the availability zone {zone}: nova adds no aggregate to"
                " the query"
            )

    def _image_type(self) -> None:
        form = self._server.disk_format
        if self._server.from_volume:
            return
        if form is None and self._server.why_no_format:
            self._doubts.append(f"the disk format and {self._server.why_no_format}")
            return
        if form is None:
            self._assumed.append("the image's disk format is unknown: its trait is left out")
            return
        trait = f"COMPUTE_IMAGE_TYPE_{form.upper()}"
        if trait in standard.traits():
            self._root_trait(Kind.ROOT_REQUIRED, trait, IMAGE_TYPE, f"disk_format={form}")

    def _isolated(self) -> None:
        groups = self._groups.values()
        required = {name for group in groups for any_of in group.required for name in any_of}
        for aggregate in sorted(self._aggregates, key=lambda item: item.uuid):
            isolating = {
                key.removeprefix(_TRAIT_KEY)
                for key, value in aggregate.metadata.items()
                if key.startswith(_TRAIT_KEY) and value == "required"
            }
            if not isolating <= required:
                self._groups[""].not_member_of.add(aggregate.uuid)
                self._sources[Constraint(Kind.NOT_MEMBER_OF, "", (aggregate.uuid,))] = Source(
                    ISOLATED, f"aggregate {aggregate.name}"
                )

    def _remote_managed(self) -> None:
        for port in self._server.ports:
            if port.vnic_type == "remote-managed":
                self._root_trait(
                    Kind.ROOT_REQUIRED,
                    "COMPUTE_REMOTE_MANAGED_PORTS",
                    REMOTE_MANAGED,
                    f"port {port.name}",
                )

    def _status(self) -> None:
        self._root_trait(Kind.ROOT_FORBIDDEN, "COMPUTE_STATUS_DISABLED", STATUS)

    def _owner(self) -> None:
        self._root_trait(Kind.ROOT_REQUIRED, traits.OWNER, OWNER)
        for suffix in self._groups:
            if suffix.startswith(_DEVICE):
                self._require(suffix, {traits.OWNER}, Source(OWNER, ""))

    def _routed_networks(self) -> None:
        if self._server.uuid is None:
            self._notes.append(NETWORKS)
        elif self._server.ports:
            self._doubts.append(NETWORKS)

    def unsuffixed(self, read: PropertiesRule) -> None:
        """Add the traits of a rule to the unsuffixed group. Raises FlavorRefused."""
        for trait in read(self._specs, self._image, self._release):
            if trait.forbidden:
                self._forbid("", trait.name, trait.source)
            else:
                self._require("", {trait.name}, trait.source)

    def root(self, read: PropertiesRule) -> None:
        """Add the traits of a rule to those of the root provider. Raises FlavorRefused."""
        for trait in read(self._specs, self._image, self._release):
            self._root_trait(Kind.ROOT_REQUIRED, trait.name, *trait.source)

    def _note_options(self) -> None:
        options = self._options
        if self._release >= traits.OWNER_SINCE and options.owner is None:
            self._assumed.append(OWNER_UNKNOWN)
        if options.enabled_filters is None:
            off = [
                rule.step.removeprefix("request filter: ")
                for rule in RULES
                if rule.option in nova_options.FILTERS and not getattr(options, rule.option)
            ]
            self._assumed.append(
                f"nova.conf is not given: these request filters are off: {', '.join(off)}"
            )

    # Parts

    def _add_resources(self, suffix: str, name: str, amount: int, where: Source) -> None:
        self._groups[suffix].resources[name] = amount
        self._sources[Constraint(Kind.RESOURCES, suffix, (name,), amount)] = where

    def _require(self, suffix: str, any_of: Iterable[str], where: Source) -> None:
        names = frozenset(any_of)
        self._groups[suffix].required.append(names)
        self._sources.setdefault(Constraint(Kind.REQUIRED, suffix, tuple(sorted(names))), where)

    def _forbid(self, suffix: str, name: str, where: Source) -> None:
        self._groups[suffix].forbidden.add(name)
        self._sources.setdefault(Constraint(Kind.FORBIDDEN, suffix, (name,)), where)

    def _member_of(self, aggregates: Iterable[HostAggregate], where: Source) -> None:
        names = frozenset(aggregate.uuid for aggregate in aggregates)
        self._groups[""].member_of.append(names)
        self._sources.setdefault(Constraint(Kind.MEMBER_OF, "", tuple(sorted(names))), where)

    def _root_trait(self, kind: Kind, name: str, step: str, origin: str = "") -> None:
        self._root[kind is Kind.ROOT_FORBIDDEN].add(name)
        self._sources.setdefault(Constraint(kind, names=(name,)), Source(step, origin))

    def _check(self) -> None:
        """Collect what Placement refuses with 400. Raises InvalidInput."""
        refused = f"Placement refuses the query of {self._title}: it"
        if not self._groups:
            self._problems.add(f"{self._title} requests no resources")
        for suffix, group in self._groups.items():
            if not group.resources:
                names = sorted(group.forbidden.union(*group.required))
                self._problems.add(f"{refused} has {', '.join(names)} but no resources{suffix}")
            for name in sorted(group.forbidden):
                if frozenset({name}) in group.required:
                    self._problems.add(f"{refused} requires and forbids {name}")
        suffixed = [suffix for suffix in self._groups if suffix]
        devices = any(suffix.startswith(_DEVICE) for suffix in suffixed)
        sets_policy = self._server.ports or devices or GROUP_POLICY in self._specs
        if len(suffixed) > 1 and not sets_policy:
            self._problems.add(f"{refused} has {len(suffixed)} suffixed groups but no group_policy")
        self._problems.check()


def _wrong_aliases(
    aliases: nova_options.PciAliases,
    requested: Sequence[tuple[str, int]],
    release: int,
    *,
    in_placement: bool,
) -> Iterator[str]:
    """What is wrong with the aliases of a nova.conf, for a flavor that requests some."""
    for name, _ in dict(requested).items():
        if name not in aliases:
            yield f"alias has no {name}"
    if release >= ALIASES_CHECKED_SINCE:
        yield from nova_options.wrong_aliases(aliases, in_placement=in_placement)
        return
    yield from nova_options.alias_problems(aliases)
    for name in dict(requested) if in_placement else ():
        if len(aliases.get(name, ())) > 1:
            yield f"alias {name} is set {len(aliases[name])} times: pci_in_placement allows one"


class RequestRule(NamedTuple):
    """A rule of nova: the first release that has it, and what it adds to a request.

    ``step`` names it. ``option`` is the field of SchedulerOptions that switches it on; empty if it
    is always on. ``is_of_pinning``: the second query for pinned CPUs lacks it.
    """

    step: str
    since: int
    add: Callable[[_Builder], None]
    option: str = ""
    is_of_pinning: bool = False


def _unsuffixed(step: str, since: int, read: PropertiesRule, *, pins: bool = False) -> RequestRule:
    return RequestRule(step, since, lambda builder: builder.unsuffixed(read), is_of_pinning=pins)


def _root(step: str, since: int, read: PropertiesRule, option: str = "") -> RequestRule:
    return RequestRule(step, since, lambda builder: builder.root(read), option)


#: Nova's rules by release, in nova's order: those of the scheduler's request, then the request
#: filters.
RULES: tuple[RequestRule, ...] = (
    _unsuffixed("image values", 27, traits.image_values),
    _unsuffixed(traits.THREADS, 27, traits.threads, pins=True),
    _unsuffixed(traits.TPM, 27, traits.tpm),
    _unsuffixed(traits.SECURE_BOOT, 27, traits.secure_boot),
    _unsuffixed(traits.ADDRESSES, 29, traits.addresses),
    _unsuffixed(traits.FIRMWARE, 30, traits.stateless_firmware),
    _unsuffixed(traits.ENCRYPTION, 27, traits.encryption),
    _unsuffixed(traits.PCI_AFFINITY, 27, traits.pci_affinity),
    RequestRule(TENANTS, 27, _Builder._tenants, "limit_tenants_to_placement_aggregate"),
    RequestRule(ZONE, 27, _Builder._zone),
    RequestRule(IMAGE_TYPE, 27, _Builder._image_type, "query_placement_for_image_type_support"),
    RequestRule(STATUS, 27, _Builder._status),
    RequestRule(ISOLATED, 27, _Builder._isolated, "enable_isolated_aggregate_filtering"),
    _root(traits.METADATA, 27, traits.image_metadata, "image_metadata_prefilter"),
    _root(traits.ACCELERATORS, 27, traits.accelerators),
    _root(traits.PACKED, 29, traits.packed),
    RequestRule(
        ROUTED, 27, _Builder._routed_networks, "query_placement_for_routed_network_aggregates"
    ),
    RequestRule(REMOTE_MANAGED, 27, _Builder._remote_managed),
    _root(traits.EPHEMERAL, 27, traits.ephemeral),
    _root(traits.SOUND, 32, traits.sound),
    _root(traits.TPM_SECRETS, 33, traits.tpm_secrets),
    RequestRule(OWNER, traits.OWNER_SINCE, _Builder._owner, "owner"),
)
