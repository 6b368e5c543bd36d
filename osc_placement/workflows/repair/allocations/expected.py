# SPDX-License-Identifier: Apache-2.0
"""The allocations that a server should have on its host: every possible answer. Pure.

Classes of which the root provider has inventory come from the root; classes that only sharing
providers have come from these. For the rest, and for every granular group, Placement lists the
possible providers: one allocation candidates query per host and request, restricted to the
host's tree. Only the host knows which of several answers is true: ``decision.choose`` takes one.

``FreeCapacity`` is the free capacity of providers while a plan is made: each planned allocation
reduces it. Its rules are Placement's, which checks them again when the plan is applied.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import query, responses
from osc_placement.model import allocation, inventory
from osc_placement.model.candidate import CandidateQuery
from osc_placement.nova import flavor, values
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import facts
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair.allocations.ports import unallocated

_PCI = "only the host knows which PCI devices it has (alias {aliases})"

#: The snapshot changed after the round of queries.
_NOT_QUERIED = errors.PlacementError("its allocations are changing: run the command again")

#: More candidates than an operator would compare.
_LIMIT = 1000


class NoRepair(Exception):
    """What is wrong cannot be put right with certainty; ``reason`` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class HealOption(NamedTuple):
    """One possible answer: the allocations, and in ``ports`` ``{port's group: provider}``."""

    allocations: allocation.Allocations
    ports: Mapping[str, str] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What a server lacks: ``options``, at least one, sorted by their providers' names.

    ``doubts``: why a single option may be incomplete.
    """

    options: tuple[HealOption, ...]
    doubts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Sources:
    """Where the resources of the unnumbered group come from.

    ``root``: amounts from the root. ``shared``: ``{class: sharing providers that have it}``.
    ``rest``: amounts from other providers of the tree, if from any.
    """

    root: dict[str, int]
    shared: dict[str, list[str]]
    rest: dict[str, int]


def request_of(server: values.Server, *, pins_cpus: bool = True) -> flavor.ServerRequest:
    """What the flavor and image request; without ``pins_cpus``, all CPUs are VCPU."""
    of, image = server.flavor, server.image_properties
    if of is None:
        return flavor.ServerRequest(unknown=("nova does not report its flavor",))
    sizes = (of.vcpus, of.ram, of.disk, of.ephemeral, of.swap)
    properties = None if image is None else tuple(image.items())
    return _built(sizes, tuple(of.extra_specs.items()), properties, server.from_volume, pins_cpus)


def _request_on(snapshot: Cloud, server: values.Server, root: str) -> flavor.ServerRequest:
    """What a server requests of a host: VCPU for pinned CPUs on one that has no PCPU."""
    request = request_of(server)
    unread = any(uuid not in snapshot.inventories for uuid in _tree(snapshot, root))
    if unread or flavor.PCPU in snapshot.classes_in_tree(root) or flavor.VCPU in request.total():
        return request
    return request_of(server, pins_cpus=False)


@functools.lru_cache(maxsize=4096)
def _built(
    sizes: tuple[int, int, int, int, int],
    specs: tuple[tuple[str, str], ...],
    image: tuple[tuple[str, str], ...] | None,
    booted_from_volume: bool,
    pins_cpus: bool,
) -> flavor.ServerRequest:
    """A request, built once: many servers have equal flavors and images."""
    return flavor.request_of(
        flavor.Flavor(*sizes, dict(specs)),
        None if image is None else dict(image),
        booted_from_volume=booted_from_volume,
        pins_cpus=pins_cpus,
    )


def missing_request(snapshot: Cloud, server: values.Server, root: str) -> flavor.ServerRequest:
    """What a server lacks: everything with its ports' groups, or the groups of some ports."""
    groups = {
        suffix: group
        for port in unallocated(snapshot, server)
        for suffix, group in port.groups.items()
    }
    if snapshot.allocations.get(server.uuid):
        return flavor.ServerRequest(groups)
    request = _request_on(snapshot, server, root)
    return dataclasses.replace(request, groups={**request.groups, **groups})


def needs_tree(snapshot: Cloud, server: values.Server, root: str) -> bool:
    """Whether resources come from other providers than the root and those that share."""
    request = missing_request(snapshot, server, root)
    if not request.unknown:
        # ``expect`` says what cannot be read.
        with contextlib.suppress(NoRepair):
            rest = _sources(snapshot, root, request).rest
            return request.is_granular or bool(rest)
    return False


def query_of(
    snapshot: Cloud, server: values.Server, root: str
) -> tuple[str, CandidateQuery] | None:
    """The candidates query for a server on this root, with its key; None without need."""
    if not needs_tree(snapshot, server, root):
        return None
    request = missing_request(snapshot, server, root)
    rest = _sources(snapshot, root, request).rest
    whole = request.query(root)
    groups = [
        group if group.suffix else dataclasses.replace(group, resources=rest)
        for group in whole.groups
    ]
    restricted = dataclasses.replace(
        whole,
        groups=tuple(group for group in groups if group.resources),
        same_subtree=tuple(filter(None, (p.same_subtree for p in unallocated(snapshot, server)))),
        limit=_LIMIT,
    )
    return query.encode(query.candidate_pairs(restricted)), restricted


def expect(snapshot: Cloud, server: values.Server, root: str) -> Expected:
    """All that a server may have on the tree of ``root``, regardless of capacity.

    ``snapshot`` needs the inventories of the root and of its sharing providers, those of the
    whole tree if ``needs_tree``, and the candidates of ``query_of``. Raises NoRepair without any.
    """
    request = missing_request(snapshot, server, root)
    if request.unknown:
        raise NoRepair(Reason(Code.NO_FLAVOR, "; ".join(request.unknown)))
    unread = [uuid for uuid in _tree(snapshot, root) if uuid in snapshot.read_errors]
    if unread:
        why = snapshot.read_errors[unread[0]]
        text = f"{snapshot.name_of(unread[0])} cannot be read: {why}"
        raise NoRepair(Reason(Code.UNREADABLE, text))
    sources = _sources(snapshot, root, request)
    candidates = _candidates(snapshot, server, root)
    if isinstance(candidates, errors.PlacementError) or not candidates:
        raise NoRepair(_why_none(snapshot, root, request, sources, candidates))
    options = [
        HealOption(_merge([{root: sources.root}, shared, candidate.allocations]), candidate.ports)
        for shared in _shared(request, sources)
        for candidate in candidates
    ]
    return Expected(tuple(options), doubts=tuple(_doubts(snapshot, root, request)))


def _sources(snapshot: Cloud, root: str, request: flavor.ServerRequest) -> _Sources:
    sources = _Sources({}, {}, {})
    resources = request.groups[""].resources if "" in request.groups else {}
    for resource_class, amount in resources.items():
        offering = offering_to(snapshot, root, resource_class)
        if offering == [root]:
            sources.root[resource_class] = amount
        elif offering:
            sources.shared[resource_class] = offering
        else:
            sources.rest[resource_class] = amount
    return sources


def offering_to(snapshot: Cloud, root: str, resource_class: str) -> list[str]:
    """The providers that offer a class to a host: the root, or else those that share.

    Raises NoRepair if one of these cannot be read.
    """
    try:
        if resource_class in snapshot.inventories.get(root, {}):
            return [root]
        sharing = snapshot.sharing.get(root, ())
        return [uuid for uuid in sharing if resource_class in snapshot.inventories.get(uuid, {})]
    except errors.NotKnown as error:
        text = f"what offers {resource_class} to {snapshot.name_of(root)} cannot be read: {error}"
        raise NoRepair(Reason(Code.UNREADABLE, text)) from error


def _shared(request: flavor.ServerRequest, sources: _Sources) -> Iterator[allocation.Allocations]:
    """Each way to take every shared class from one sharing provider."""
    for uuids in itertools.product(*sources.shared.values()):
        yield _merge(
            {uuid: {resource_class: request.groups[""].resources[resource_class]}}
            for resource_class, uuid in zip(sources.shared, uuids, strict=True)
        )


def _candidates(
    snapshot: Cloud, server: values.Server, root: str
) -> Sequence[HealOption] | errors.PlacementError:
    """The distinct candidates of Placement; a single empty one if no query is needed."""
    needed = query_of(snapshot, server, root)
    if needed is None:
        return [HealOption({})]
    answer = snapshot.candidates.get(needed[0], _NOT_QUERIED)
    if isinstance(answer, errors.PlacementError):
        return answer
    ports = {
        suffix: port.allocation.get(suffix)
        for port in unallocated(snapshot, server)
        for suffix in port.groups
    }
    # Allocations do not show which group of a flavor a resource is for; a port's group counts.
    distinct = {
        json.dumps([option.allocations, option.ports], sort_keys=True): option
        for request in answer.requests
        if (option := _option(request, ports)) is not None
    }
    # Placement's order may differ between two requests.
    ordered = sorted(distinct.items(), key=lambda item: (_names(snapshot, item[1]), item[0]))
    return _as_bound([option for _, option in ordered], ports)


def _names(snapshot: Cloud, option: HealOption) -> list[str]:
    return sorted(map(snapshot.name_of, option.allocations))


def _option(
    candidate: responses.AllocationRequest, ports: Mapping[str, str | None]
) -> HealOption | None:
    """A candidate as an option; None if it has no mappings (below 1.34) and ports need them."""
    if not ports:
        return HealOption(candidate.allocations)
    if candidate.mappings is None:
        return None
    return HealOption(
        candidate.allocations, {suffix: candidate.mappings[suffix][0] for suffix in ports}
    )


def _as_bound(options: list[HealOption], ports: Mapping[str, str | None]) -> list[HealOption]:
    """The options that agree with the ports' binding profiles; all options if none agrees."""
    bound = {suffix: uuid for suffix, uuid in ports.items() if uuid}
    agreeing = [option for option in options if bound.items() <= option.ports.items()]
    return agreeing or options


def _merge(parts: Iterable[allocation.Allocations]) -> dict[str, dict[str, int]]:
    """The sum of allocations, without providers of which nothing is allocated."""
    merged: dict[str, dict[str, int]] = {}
    for part in parts:
        for uuid, resources in part.items():
            if resources:
                merged[uuid] = allocation.add_resources(merged.get(uuid, {}), resources)
    return merged


def _tree(snapshot: Cloud, root: str) -> list[str]:
    return [item.uuid for item in snapshot.trees.get(root, ())]


def _why_none(
    snapshot: Cloud,
    root: str,
    request: flavor.ServerRequest,
    sources: _Sources,
    candidates: object,
) -> Reason:
    """Why Placement has no candidate: a class is not in the tree, an error, or no capacity."""
    offered = snapshot.classes_in_tree(root)
    name = snapshot.name_of(root)
    grouped = (group.resources for suffix, group in request.groups.items() if suffix)
    needed = allocation.add_resources(sources.rest, *grouped)
    absent = [resource_class for resource_class in needed if resource_class not in offered]
    if absent:
        needs = ", ".join(
            f"{resource_class} (it needs {needed[resource_class]})" for resource_class in absent
        )
        text = f"nothing in the tree of {name} has inventory of {needs}"
        return Reason(Code.NO_INVENTORY, text)
    if isinstance(candidates, errors.PlacementError):
        return Reason(Code.UNREADABLE, f"Placement returned no candidates: {candidates}")
    needs = ", ".join(
        f"{resource_class} needs {amount}, {_free(snapshot, root, resource_class)} free"
        for resource_class, amount in needed.items()
    )
    return Reason(Code.NO_CAPACITY, f"no capacity in the tree of {name}: {needs}")


def _free(snapshot: Cloud, root: str, resource_class: str) -> int:
    """The free capacity of a class in a tree."""
    return sum(
        max(offered.capacity - snapshot.used.get(uuid, {}).get(resource_class, 0), 0)
        for uuid in _tree(snapshot, root)
        if (offered := snapshot.inventories.get(uuid, {}).get(resource_class))
    )


def _doubts(snapshot: Cloud, root: str, request: flavor.ServerRequest) -> Iterator[str]:
    offered = snapshot.classes_in_tree(root)
    reasons = (reason for name, reason in request.undecided.items() if name in offered)
    yield from dict.fromkeys(reasons)
    if request.pci_aliases and any(name.startswith("CUSTOM_PCI_") for name in offered):
        yield _PCI.format(aliases=", ".join(request.pci_aliases))


class FreeCapacity:
    """Capacities and usages of a snapshot; ``allocate`` adds to the usages."""

    def __init__(self, snapshot: Cloud) -> None:
        self._exact = snapshot.inventories
        self._inventories: dict[str, inventory.Inventories] = {}
        self._used = {uuid: dict(by_class) for uuid, by_class in snapshot.used.items()}
        self._name_of = snapshot.name_of
        for answer in snapshot.candidates.values():
            if not isinstance(answer, errors.PlacementError):
                self._add_summaries(answer.summaries)

    def _add_summaries(self, summaries: Mapping[str, responses.ProviderSummary]) -> None:
        """Use the summaries of providers whose inventories were not read."""
        for uuid, summary in summaries.items():
            if uuid in self._exact:
                continue
            self._inventories[uuid] = {
                name: inventory.Inventory(total=amount.capacity)
                for name, amount in summary.resources.items()
            }
            self._used[uuid] = {name: amount.used for name, amount in summary.resources.items()}

    def shortages(
        self, added: allocation.Allocations, before: allocation.Allocations
    ) -> list[Reason]:
        """Why a consumer with allocations cannot get more; empty if it can.

        The sum is written, so it must suit the units.
        """
        problems: list[Reason] = []
        for uuid, resources in added.items():
            own = before.get(uuid, {})
            parts = [
                self._why_not(uuid, name, amount, own.get(name, 0) + amount)
                for name, amount in resources.items()
            ]
            full = ", ".join(part.text for part in parts if part.code is Code.NO_CAPACITY)
            if full:
                text = f"no capacity on {self._name_of(uuid)}: {full}"
                problems.append(Reason(Code.NO_CAPACITY, text))
            problems += [part for part in parts if part and part.code is not Code.NO_CAPACITY]
        return problems

    def allocate(self, allocations: allocation.Allocations) -> None:
        """Count allocations as used."""
        for uuid, resources in allocations.items():
            used = self._used.setdefault(uuid, {})
            for resource_class, amount in resources.items():
                used[resource_class] = used.get(resource_class, 0) + amount

    def utilization(self, allocations: allocation.Allocations) -> float:
        """The highest used share of a class on these providers with the allocations, 0 to 1."""
        return max(
            (
                (self._used_of(uuid, resource_class) + amount)
                / max(self._inventories[uuid][resource_class].capacity, 1)
                for uuid, resources in allocations.items()
                for resource_class, amount in resources.items()
                if resource_class in self._inventories.get(uuid, {})
            ),
            default=0.0,
        )

    def _offered(self, uuid: str) -> inventory.Inventories:
        """The inventories of a provider with their units. Errors: NotKnown."""
        if uuid not in self._inventories:
            try:
                self._inventories[uuid] = facts.exact(self._exact, uuid)
            except KeyError:
                self._inventories[uuid] = {}
        return self._inventories[uuid]

    def _why_not(self, uuid: str, resource_class: str, amount: int, total: int) -> Reason:
        provider = self._name_of(uuid)
        try:
            offered = self._offered(uuid).get(resource_class)
        except errors.NotKnown as error:
            return Reason(Code.UNREADABLE, f"{provider} cannot be read: {error}")
        if offered is None:
            text = f"{provider} has no inventory of {resource_class}, it needs {amount}"
            return Reason(Code.NO_INVENTORY, text)
        used = self._used_of(uuid, resource_class)
        if not offered.has_room(used, amount):
            free = max(offered.capacity - used, 0)
            return Reason(Code.NO_CAPACITY, f"{resource_class} needs {amount}, {free} free")
        if not offered.suits_units(total):
            text = f"{total} {resource_class} do not suit {provider}: min_unit {offered.min_unit},"
            text += f" max_unit {offered.max_unit}, step_size {offered.step_size}"
            return Reason(Code.WRONG_UNIT, text)
        return reasons.NONE

    def _used_of(self, uuid: str, resource_class: str) -> int:
        return self._used.get(uuid, {}).get(resource_class, 0)
