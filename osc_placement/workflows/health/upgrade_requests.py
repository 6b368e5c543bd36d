# SPDX-License-Identifier: Apache-2.0
"""Which flavors, images and servers lose hosts under the rules of another release. Pure.

Two requests are compared: that of the present release, and that of the new one. The hosts are
those that can serve a request without any allocation, so that a full host is no difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.engine import state
from osc_placement.model import constraint
from osc_placement.model.candidate import CandidateQuery
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.model.name import and_more, counted
from osc_placement.nova import flavors, values
from osc_placement.nova.compute_options import ComputeOptions
from osc_placement.nova.flavor import Flavor, Source
from osc_placement.scheduling import nova_options, releases, request, traits
from osc_placement.workflows.cloud.hosts import HostSearch

#: The smallest flavor: a request for it has what an image adds.
_PROBE = Flavor(1, 1, 0, 0, 0, {})
_REQUIRING = frozenset({Kind.REQUIRED, Kind.ROOT_REQUIRED})
_SHOWN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """What nova may be asked to start: ``name`` for people, and the request's inputs."""

    name: str
    spec: request.ServerSpec
    alike: tuple[str, ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of all that are alike."""
        return self.alike or (self.name,)


def of_flavors(known: Iterable[flavors.NamedFlavor]) -> list[Workload]:
    """A workload for each flavor, without an image."""
    specs = (request.ServerSpec(item.flavor, item.name, flavor_name=item.name) for item in known)
    return [Workload(f"flavor {spec.name}", spec) for spec in specs]


def of_images(known: Iterable[flavors.Image]) -> list[Workload]:
    """A workload for each image, with the smallest flavor."""
    return [
        Workload(
            f"image {item.name}",
            request.ServerSpec(
                _PROBE,
                "1-vcpu",
                image=item.properties,
                disk_format=item.disk_format,
                image_id=item.id,
            ),
        )
        for item in known
    ]


def of_servers(specs: Iterable[tuple[str, request.ServerSpec]]) -> list[Workload]:
    """A workload for the servers that are alike, of ``(name, what nova schedules)``."""
    alike: dict[str, list[tuple[str, request.ServerSpec]]] = {}
    for name, spec in specs:
        key = repr(dataclasses.replace(spec, uuid=None, name=""))
        alike.setdefault(key, []).append((f"server {name}", spec))
    return [
        Workload(
            name + (f" and {counted(len(others), 'server')} like it" if others else ""),
            spec,
            (name, *(other for other, _ in others)),
        )
        for (name, spec), *others in alike.values()
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class RequestPair:
    """The requests of both releases for a workload.

    ``new`` is None, with the reason in ``refused``, if the new release refuses it.
    """

    workload: Workload
    old: request.NovaRequest
    new: request.NovaRequest | None
    refused: str = ""

    def queries(self) -> Iterator[CandidateQuery]:
        """All queries of both requests."""
        yield from self.old.queries
        yield from self.new.queries if self.new is not None else ()

    def new_constraints(self) -> dict[Constraint, Source]:
        """The constraints on traits that only the new release has, in any of its queries."""
        if self.new is None:
            return {}
        return {
            item: source
            for old, new in zip(self.old.all, self.new.all, strict=True)
            for item, source in new.sources.items()
            if item.kind in _REQUIRING and item not in old.sources
        }


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseStep:
    """The step from one release to a newer one, and the options of nova's scheduler.

    ``compute`` are the options of nova-compute, None without a nova.conf.
    """

    old: int
    new: int
    options: nova_options.SchedulerOptions
    compute: ComputeOptions | None = None

    @property
    def titles(self) -> str:
        """``nova 31 (2025.1) to nova 34 (2026.2)``"""
        return f"{releases.title(self.old)} to {releases.title(self.new)}"

    @property
    def written(self) -> frozenset[str]:
        """The traits that only the new nova-compute writes, with the options that are given."""
        new = releases.new_traits(self.old, self.new)
        compute = self.compute
        return new if compute is None else frozenset(t for t in new if not compute.withholds(t))

    def of(self, release: int) -> nova_options.SchedulerOptions:
        """The options of a release whose nova-computes are all of this release."""
        owner = release >= traits.OWNER_SINCE
        return dataclasses.replace(self.options, release=release, owner=owner)


def pairs(
    workloads: Iterable[Workload],
    aggregates: Sequence[values.HostAggregate],
    upgrade: ReleaseStep,
) -> list[RequestPair]:
    """The requests for the workloads that the present release does not refuse."""
    answers = []
    for workload in workloads:
        try:
            old = request.request_to_placement(workload.spec, aggregates, upgrade.of(upgrade.old))
        except errors.InvalidInput:
            # It cannot start today either: the audit of flavors reports it.
            continue
        try:
            new = request.request_to_placement(workload.spec, aggregates, upgrade.of(upgrade.new))
        except errors.InvalidInput as error:
            answers.append(RequestPair(workload, old, None, "; ".join(error.reasons)))
        else:
            answers.append(RequestPair(workload, old, new))
    return answers


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadChange:
    """The hosts (UUIDs of roots) of a workload before and after an upgrade.

    ``after``: if each nova-compute writes the traits that are new in its release. ``meanwhile``:
    with the new services, and the traits that hosts have now. ``why`` names what only the new
    release requires.
    """

    workload: Workload
    before: frozenset[str]
    after: frozenset[str]
    meanwhile: frozenset[str]
    why: str = ""
    refused: str = ""

    @property
    def loses_all(self) -> bool:
        """Whether it has hosts, and none after the upgrade."""
        return bool(self.refused) or (bool(self.before) and not self.after)

    @property
    def loses_some(self) -> bool:
        """Whether it has fewer hosts after the upgrade, but has some."""
        return bool(self.after) and self.after < self.before

    @property
    def waits(self) -> bool:
        """Whether it has no host until nova-computes are upgraded."""
        return bool(self.before) and bool(self.after) and not self.meanwhile

    def text(self, names: Mapping[str, str]) -> str:
        """A sentence; ``names`` is ``{root UUID: host}``."""
        if self.refused:
            return f"{self.workload.name}: {self.refused}"
        lost = and_more(sorted(names.get(uuid, uuid) for uuid in self.before - self.after), _SHOWN)
        if self.loses_all:
            return f"{self.workload.name} loses its {counted(len(self.before), 'host')}: {self.why}"
        if self.loses_some:
            count = f"{len(self.before - self.after)} of {counted(len(self.before), 'host')}"
            return f"{self.workload.name} loses {count} ({lost}): {self.why}"
        return f"{self.workload.name} has no host until a nova-compute is upgraded: {self.why}"


def compare(
    base: state.CloudState, pair: RequestPair, upgrade: ReleaseStep, roots: Collection[str]
) -> WorkloadChange:
    """The hosts of both requests; ``base`` has no allocations.

    ``roots`` are the compute nodes that nova's filters accept.
    """
    if pair.new is None:
        return WorkloadChange(
            pair.workload, frozenset(), frozenset(), frozenset(), refused=pair.refused
        )
    required = pair.new_constraints()
    coming = {item for item in required if not upgrade.written.isdisjoint(item.names)}
    # Nova requires the owner only when every nova-compute writes it.
    owner = {item for item in coming if item.names == (traits.OWNER,)}
    why = "; ".join(
        f"nova {upgrade.new} requires {' or '.join(item.names)} ({source})"
        for item, source in required.items()
        if item not in owner
    )
    before = _serving(base, pair.old.queries, roots)
    later = [constraint.without(query, coming) for query in pair.new.queries]
    now = [constraint.without(query, owner) for query in pair.new.queries]
    after = _serving(base, later, before)
    meanwhile = _serving(base, now, after) if coming - owner else after
    return WorkloadChange(pair.workload, before, after, meanwhile, why)


def _serving(
    base: state.CloudState, queries: Iterable[CandidateQuery], roots: Collection[str]
) -> frozenset[str]:
    """The roots that serve one of the queries of a request: nova takes the hosts of all."""
    among = [uuid for uuid in base.providers if uuid in roots]
    return frozenset(uuid for query in queries for uuid in HostSearch(base, query).serving(among))
