"""What the API answers beyond the model's words: values made by ``wire``.

Named tuples: a dataclass costs half a millisecond to define, in each command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from osc_placement.model import allocation, inventory


class ProviderInventories(NamedTuple):
    """All inventories of one provider, with the provider generation they belong to."""

    generation: int
    inventories: inventory.Inventories


class ProviderAggregates(NamedTuple):
    """The aggregates of one provider; ``generation`` is None below 1.19."""

    generation: int | None
    aggregates: tuple[str, ...]


class ProviderTraits(NamedTuple):
    """The traits of one provider, in the order of the answer."""

    generation: int
    traits: tuple[str, ...]


class ProviderAllocation(NamedTuple):
    """What one consumer has of one provider; ``consumer_generation`` is None below 1.28."""

    resources: allocation.Resources
    consumer_generation: int | None


class ProviderAllocations(NamedTuple):
    """Everything allocated on one provider: ``{consumer uuid: ProviderAllocation}``."""

    generation: int
    allocations: Mapping[str, ProviderAllocation]


class ConsumerAllocations(NamedTuple):
    """A consumer, with ``{provider uuid: generation}`` of the providers that it uses."""

    consumer: allocation.Consumer
    provider_generations: Mapping[str, int]


class Usage(NamedTuple):
    """What the consumers of one type use together.

    ``consumer_type`` and ``consumer_count`` are None below 1.38.
    """

    resources: allocation.Resources
    consumer_type: str | None = None
    consumer_count: int | None = None


class AllocationRequest(NamedTuple):
    """One candidate, in the form that an allocation write takes.

    ``mappings`` is ``{suffix: (provider uuid, …)}``, None below 1.34.
    """

    allocations: allocation.Allocations
    mappings: Mapping[str, tuple[str, ...]] | None = None


class ResourceSummary(NamedTuple):
    """Of one resource class: what there is, and what of it is in use."""

    capacity: int
    used: int


class ProviderSummary(NamedTuple):
    """A provider that some candidate uses, or that stands in the tree of one.

    ``traits`` is None below 1.17, ``root_uuid`` and ``parent_uuid`` below 1.29.
    """

    resources: Mapping[str, ResourceSummary]
    traits: tuple[str, ...] | None = None
    root_uuid: str | None = None
    parent_uuid: str | None = None


class Candidates(NamedTuple):
    """The answer to an allocation candidates query, in the server's order."""

    requests: tuple[AllocationRequest, ...]
    summaries: Mapping[str, ProviderSummary]
