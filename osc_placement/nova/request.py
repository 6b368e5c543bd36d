"""Nova's request to Placement for a new server: the query, and the source of each part. Pure.

``request_to_placement`` follows the steps of nova 34: the resources of the flavor, the ports, the
traits, then the request filters in nova's order. tests/interop/test_request.py compares the query
with that of nova's own code. A flavor that nova refuses, or that gives a query that Placement
refuses, raises InvalidInput with all reasons.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from osc_placement import errors
from osc_placement.model import constraint
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.nova import flavor as flavors, traits
from osc_placement.nova.flavor import Source
from osc_placement.nova.values import HostAggregate

IMAGE_TRAITS = "image traits"
PORTS = "port resource requests"
GROUP_POLICY = "group_policy"
TENANTS = "request filter: tenant aggregates"
ZONE = "request filter: availability zone"
IMAGE_TYPE = "request filter: image type support"
STATUS = "request filter: compute status"
ISOLATED = "request filter: isolated aggregates"
REMOTE_MANAGED = "request filter: remote managed ports"
OWNER = "request filter: owner"

_ZONE = "availability_zone"
_TENANT_KEY = "filter_tenant_id"
_TRAIT_KEY = "trait:"


_SECTION = "scheduler"
_FILTER_SECTION = "filter_scheduler"

#: The filters that nova enables by default.
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """The options of ``[scheduler]``, with nova's defaults.

    ``owner``: nova requires the trait OWNER_NOVA, once every nova-compute sets it (nova 34);
    nova.conf has no option for it. ``enabled_filters`` are those of ``[filter_scheduler]``, None
    without a nova.conf.
    """

    max_placement_results: int = 1000
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_image_type_support: bool = False
    enable_isolated_aggregate_filtering: bool = False
    image_metadata_prefilter: bool = False
    query_placement_for_routed_network_aggregates: bool = False
    owner: bool = False
    enabled_filters: tuple[str, ...] | None = None

    def optional(self) -> dict[str, bool]:
        """``{request filter that is off by default: whether it is on}``."""
        return {
            "tenant aggregates": self.limit_tenants_to_placement_aggregate,
            "image type support": self.query_placement_for_image_type_support,
            "isolated aggregates": self.enable_isolated_aggregate_filtering,
            "image metadata": self.image_metadata_prefilter,
            "routed networks": self.query_placement_for_routed_network_aggregates,
            "owner": self.owner,
        }


#: The request filters that nova.conf turns on or off.
FILTERS = tuple(
    field.name
    for field in dataclasses.fields(SchedulerOptions)
    if field.type == "bool" and field.name != "owner"
)


def read_nova_conf(path: pathlib.Path, base: SchedulerOptions) -> SchedulerOptions:
    """``base`` with the options that a nova.conf sets. Errors: PlacementError names the file."""
    from oslo_config import cfg

    conf = cfg.ConfigOpts()
    conf.register_opts(
        [
            cfg.IntOpt("max_placement_results", default=base.max_placement_results, min=1),
            *(cfg.BoolOpt(name, default=getattr(base, name)) for name in FILTERS),
        ],
        group=_SECTION,
    )
    enabled = cfg.ListOpt("enabled_filters", default=list(DEFAULT_FILTERS))
    conf.register_opts([enabled], group=_FILTER_SECTION)
    try:
        conf(args=[], project="nova", default_config_files=[str(path)], default_config_dirs=[])
        found = {
            name: getattr(conf[_SECTION], name) for name in ("max_placement_results", *FILTERS)
        }
    except (cfg.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise errors.PlacementError(f"cannot read {path} as a nova.conf: {reason}") from error
    names = tuple(conf[_FILTER_SECTION].enabled_filters)
    return dataclasses.replace(base, **found, enabled_filters=names)


class Port(Protocol):
    """A port with a resource request: ``neutron.port.Port``."""

    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> Mapping[str, RequestGroup]: ...

    @property
    def same_subtree(self) -> frozenset[str]: ...

    @property
    def is_remote_managed(self) -> bool: ...


@dataclasses.dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server to start.

    ``image`` are the image's properties, such as ``hw_disk_bus``; None if they are unknown.
    ``disk_format`` is the image's. ``name`` names the flavor in messages; ``flavor_name`` is its
    name, None if it is not known. ``uuid`` is set for an existing server.
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


@dataclasses.dataclass(frozen=True, slots=True)
class NovaRequest:
    """The query of nova's scheduler.

    ``sources`` is ``{constraint: its source}`` in nova's order, for every constraint of the query.
    ``assumptions`` are sentences about what was not known. ``server`` and ``aggregates`` are what
    the query was computed from.
    """

    query: CandidateQuery
    sources: Mapping[Constraint, Source]
    assumptions: tuple[str, ...]
    server: ServerSpec
    aggregates: Sequence[HostAggregate] = ()


def request_to_placement(
    server: ServerSpec,
    aggregates: Sequence[HostAggregate] = (),
    options: SchedulerOptions | None = None,
) -> NovaRequest:
    """The request of nova's scheduler for a server.

    ``aggregates`` are all host aggregates, with metadata.
    Errors: InvalidInput if nova or Placement refuses the flavor with this image.
    """
    return _Builder(server, aggregates, options or SchedulerOptions()).build()


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


class _Builder:
    """Adds the parts of a request one by one, each with its source."""

    def __init__(
        self, server: ServerSpec, aggregates: Sequence[HostAggregate], options: SchedulerOptions
    ) -> None:
        self._server, self._aggregates, self._options = server, aggregates, options
        self._specs = server.flavor.extra_specs
        self._image = server.image or {}
        self._groups: dict[str, _Group] = collections.defaultdict(_Group)
        self._root: tuple[set[str], set[str]] = (set(), set())
        self._same_subtree: list[frozenset[str]] = []
        self._isolate = False
        self._sources: dict[Constraint, Source] = {}
        self._assumptions: list[str] = []
        self._problems = errors.InputErrors()

    def build(self) -> NovaRequest:
        """Run nova's steps."""
        self._add_flavor()
        self._add_ports()
        self._add_traits()
        for step in self._request_filters():
            self._collect(step)
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
        sources = {each: where for each, where in self._sources.items() if each in present}
        return NovaRequest(query, sources, tuple(self._assumptions), self._server, self._aggregates)

    def _collect(self, step: Callable[[], None]) -> None:
        try:
            step()
        except traits.Refused as refused:
            self._problems.add(f"nova refuses {self._title}: {refused}")

    @property
    def _title(self) -> str:
        return f"flavor {self._server.name}" if self._server.name else "the flavor"

    # Flavor, ports, traits

    def _add_flavor(self) -> None:
        server = self._server
        if server.image is None and not server.from_volume:
            self._assumptions.append("the image has no properties that change the request")
        request = flavors.request_of(
            server.flavor, self._image, booted_from_volume=server.from_volume
        )
        for reason in request.unknown:
            self._problems.add(f"nova cannot turn {self._title} into a request: {reason}")
        for alias in request.pci_aliases:
            self._assumptions.append(
                f"the devices of the PCI alias {alias} are not in the query: nova requests them"
                " from Placement only with [filter_scheduler]pci_in_placement"
            )
        for (suffix, name), where in request.sources.items():
            group = request.groups.get(suffix)
            if group and name in group.resources:
                self._add_resources(suffix, name, group.resources[name], where)
        self._isolate = request.isolate
        if request.isolate:
            self._sources[Constraint(Kind.ISOLATE)] = Source(GROUP_POLICY, "group_policy=isolate")

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
        self._collect(self._add_derived)

    def _add_derived(self) -> None:
        for trait in traits.derived(self._specs, self._image):
            if trait.forbidden:
                self._forbid("", trait.name, trait.source)
            else:
                self._require("", {trait.name}, trait.source)

    # Request filters

    def _request_filters(self) -> Iterator[Callable[[], None]]:
        """The filters that are on, in nova's order."""
        options = self._options
        if options.limit_tenants_to_placement_aggregate:
            yield self._tenants
        yield self._zone
        if options.query_placement_for_image_type_support:
            yield self._image_type
        yield self._status
        if options.enable_isolated_aggregate_filtering:
            yield self._isolated
        if options.image_metadata_prefilter:
            yield functools.partial(self._from_properties, traits.image_metadata)
        for each in traits.BEFORE_NETWORKS:
            yield functools.partial(self._from_properties, each)
        if options.query_placement_for_routed_network_aggregates:
            self._assumptions.append(
                "the aggregates of routed networks are not in the query: they need the segments"
                " of the server's networks"
            )
        yield self._remote_managed
        for each in traits.AFTER_NETWORKS:
            yield functools.partial(self._from_properties, each)
        if options.owner:
            yield self._owner
        if options.enabled_filters is None:
            off = [title for title, is_on in options.optional().items() if not is_on]
            self._assumptions.append(
                f"nova.conf is not given: these request filters are off: {', '.join(off)}"
            )

    def _tenants(self) -> None:
        project = self._server.project_id
        if project is None:
            self._assumptions.append(
                "no project is given: the aggregates of a project are not in the query"
            )
            return
        found = [
            each
            for each in self._aggregates
            if any(
                key.startswith(_TENANT_KEY) and value == project
                for key, value in each.metadata.items()
            )
        ]
        if found:
            self._member_of(found, Source(TENANTS, f"project {project}"))
        elif self._options.placement_aggregate_required_for_tenants:
            raise traits.Refused(
                f"no host aggregate has {_TENANT_KEY}={project}, and"
                " placement_aggregate_required_for_tenants is set"
            )

    def _zone(self) -> None:
        zone = self._server.availability_zone
        if zone is None:
            return
        found = [each for each in self._aggregates if each.metadata.get(_ZONE) == zone]
        if found:
            self._member_of(found, Source(ZONE, zone))
        else:
            self._assumptions.append(
                f"no host aggregate has the availability zone {zone}: nova adds no aggregate to"
                " the query"
            )

    def _image_type(self) -> None:
        form = self._server.disk_format
        if self._server.from_volume:
            return
        if form is None:
            self._assumptions.append("the image's disk format is unknown: its trait is left out")
            return
        trait = f"COMPUTE_IMAGE_TYPE_{form.upper()}"
        if trait in traits.standard():
            self._root_trait(Kind.ROOT_REQUIRED, trait, IMAGE_TYPE, f"disk_format={form}")

    def _isolated(self) -> None:
        groups = self._groups.values()
        required = {name for group in groups for any_of in group.required for name in any_of}
        for aggregate in sorted(self._aggregates, key=lambda each: each.uuid):
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
            if port.is_remote_managed:
                self._root_trait(
                    Kind.ROOT_REQUIRED,
                    "COMPUTE_REMOTE_MANAGED_PORTS",
                    REMOTE_MANAGED,
                    f"port {port.name}",
                )

    def _status(self) -> None:
        self._root_trait(Kind.ROOT_FORBIDDEN, "COMPUTE_STATUS_DISABLED", STATUS)

    def _owner(self) -> None:
        self._root_trait(Kind.ROOT_REQUIRED, "OWNER_NOVA", OWNER)

    def _from_properties(self, each: traits.RootFilter) -> None:
        for trait in each(self._specs, self._image):
            self._root_trait(Kind.ROOT_REQUIRED, trait.name, *trait.source)

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

    def _member_of(self, found: Iterable[HostAggregate], where: Source) -> None:
        names = frozenset(each.uuid for each in found)
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
        if len(suffixed) > 1 and not self._server.ports and GROUP_POLICY not in self._specs:
            self._problems.add(f"{refused} has {len(suffixed)} suffixed groups but no group_policy")
        self._problems.check()
