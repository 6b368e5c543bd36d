# SPDX-License-Identifier: Apache-2.0
"""Which flavors, images and servers lose hosts under the rules of another release. Pure.

``scheduling`` decides the same case under both releases. The hosts are those that can serve a
request without any allocation, so that a full host is no difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.engine import state
from osc_placement.model import constraint
from osc_placement.model.candidate import CandidateQuery
from osc_placement.model.name import and_more, counted
from osc_placement.nova import flavors, values
from osc_placement.nova.compute_options import ComputeOptions
from osc_placement.nova.flavor import Flavor
from osc_placement.scheduling import nova_options, releases, request, traits
from osc_placement.scheduling.case import Case, Facts, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import cases, hosts
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts

#: The smallest flavor: a request for it has what an image adds.
_PROBE = Flavor(1, 1, 0, 0, 0, {})
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


def of_flavors(listed: Iterable[flavors.NamedFlavor]) -> list[Workload]:
    """A workload for each flavor, without an image."""
    specs = (request.ServerSpec(item.flavor, item.name, flavor_name=item.name) for item in listed)
    return [Workload(f"flavor {spec.name}", spec) for spec in specs]


def of_images(images: Iterable[flavors.Image]) -> list[Workload]:
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
        for item in images
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
class CasePair:
    """The same case under both releases: ``why_no_request`` is why a release refuses it."""

    workload: Workload
    old: Case
    new: Case

    def queries(self) -> Iterator[CandidateQuery]:
        """All queries of both requests."""
        for single in (*self.old.requests, *self.new.requests):
            yield from single.queries


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
        return dataclasses.replace(self.options, owner=release >= traits.OWNER_SINCE)


def pairs(
    workloads: Iterable[Workload],
    facts: Facts,
    compute: ServerHosts,
    aggregates: Sequence[values.HostAggregate],
    upgrade: ReleaseStep,
) -> list[CasePair]:
    """The cases of the workloads that the present release does not refuse.

    Requests: those of ``facts`` for device profiles.
    """
    answers = []
    for workload in workloads:
        try:
            spec = facts.with_profile(workload.spec)
        except errors.InvalidInput:
            # Cyborg has no such profile: it cannot start today either.
            continue
        both = (
            Case(Way.BOOT, spec, compute, (it,), upgrade.of(it), aggregates=aggregates)
            for it in (upgrade.old, upgrade.new)
        )
        old, new = map(cases.with_requests_or_reason, both)
        # What cannot start today either is reported by the audit of flavors.
        if not old.why_no_request:
            answers.append(CasePair(workload, old, new))
    return answers


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadChange:
    """The hosts (UUIDs of roots) of a workload before and after an upgrade.

    ``after``: if each nova-compute writes the traits that are new in its release. ``meanwhile``:
    with the new services, and the traits that hosts have now. ``why`` names what only the new
    release requires.
    """

    workload: Workload
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    meanwhile: frozenset[str] = frozenset()
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
    base: state.CloudState, pair: CasePair, upgrade: ReleaseStep, verdicts: HostVerdicts
) -> WorkloadChange:
    """The hosts of both cases; ``base`` has no allocations."""
    if pair.new.why_no_request:
        return WorkloadChange(pair.workload, refused=pair.new.why_no_request)
    (old,), (new,) = pair.old.requests, pair.new.requests
    required = new.required_since(old)
    coming = {item for item in required if not upgrade.written.isdisjoint(item.names)}
    # Nova requires the owner only when every nova-compute writes it.
    owner = {item for item in coming if item.names == (traits.OWNER,)}
    why = "; ".join(
        f"nova {upgrade.new} requires {' or '.join(item.names)} ({source})"
        for item, source in required.items()
        if item not in owner
    )
    roots = set(base.tree) - verdicts.of(pair.old).refused.keys()
    before = hosts.serving(base, old.queries, roots)
    later = [constraint.without(query, coming) for query in new.queries]
    now = [constraint.without(query, owner) for query in new.queries]
    after = hosts.serving(base, later, before - verdicts.of(pair.new).refused.keys())
    meanwhile = hosts.serving(base, now, after) if coming - owner else after
    return WorkloadChange(pair.workload, before, after, meanwhile, why)
