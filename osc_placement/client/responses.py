# SPDX-License-Identifier: Apache-2.0
"""Defines one named tuple for each response of the Placement API, and for parts of responses.

``wire`` builds them from JSON; ``model`` has the values that other rooms use too. They are no
dataclasses, because each dataclass adds half a millisecond to the start of a command.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import NamedTuple

from osc_placement.model import allocation, inventory


class ProviderInventories(NamedTuple):
    """All inventories of a provider, with the provider's generation.

    ``updated`` is the last-modified header of the response (1.15), None if it was not read.
    """

    generation: int
    inventories: inventory.Inventories
    updated: str | None = None


class ProviderAggregates(NamedTuple):
    """The aggregates of a provider; ``generation`` is None below 1.19."""

    generation: int | None
    aggregates: tuple[str, ...]


class ProviderTraits(NamedTuple):
    """The traits of a provider, in the order of the response."""

    generation: int
    traits: tuple[str, ...]


class ProviderAllocation(NamedTuple):
    """A consumer's resources on one provider; ``consumer_generation`` is None below 1.28."""

    resources: allocation.Resources
    consumer_generation: int | None


class ProviderAllocations(NamedTuple):
    """All allocations on a provider: ``{consumer uuid: ProviderAllocation}``."""

    generation: int
    allocations: Mapping[str, ProviderAllocation]


class ConsumerAllocations(NamedTuple):
    """A consumer, with ``{provider uuid: generation}`` of its providers."""

    consumer: allocation.Consumer
    provider_generations: Mapping[str, int]


class Usage(NamedTuple):
    """The total usage of consumers of one type.

    ``consumer_type`` and ``consumer_count`` are None below 1.38. ``sent`` is what the server
    sent for the type: the amounts and, from 1.38, the number of consumers among them.
    """

    resources: allocation.Resources
    consumer_type: str | None = None
    consumer_count: int | None = None
    sent: Mapping[str, int] = types.MappingProxyType({})


class AllocationRequest(NamedTuple):
    """One allocation candidate, in the form of an allocation request body.

    ``mappings`` is ``{suffix: (provider uuid, …)}``, None below 1.34.
    """

    allocations: allocation.Allocations
    mappings: Mapping[str, tuple[str, ...]] | None = None


class ResourceSummary(NamedTuple):
    """Capacity and usage of one resource class."""

    capacity: int
    used: int


class ProviderSummary(NamedTuple):
    """A provider of an allocation candidate, or of the tree of such a provider.

    ``traits`` is None below 1.17, ``root_uuid`` and ``parent_uuid`` below 1.29.
    """

    resources: Mapping[str, ResourceSummary]
    traits: tuple[str, ...] | None = None
    root_uuid: str | None = None
    parent_uuid: str | None = None


class Candidates(NamedTuple):
    """All allocation candidates of a query, in the server's order."""

    requests: tuple[AllocationRequest, ...]
    summaries: Mapping[str, ProviderSummary]
