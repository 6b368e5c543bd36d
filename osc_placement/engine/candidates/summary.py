"""Provider summaries of allocation candidates.

``summary_providers`` selects the providers, ``summarize`` gives the content. The server formats it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypedDict

from osc_placement.engine import record, state


class Resource(TypedDict):
    """Capacity and usage of one resource class, in units of the class."""

    capacity: int
    used: int


class ProviderSummary(NamedTuple):
    """The summary of one provider.

    ``resources`` is ``{resource class: capacity and usage}``; ``provider`` has the traits, and the
    root and parent uuids.
    """

    provider: record.ProviderRecord
    resources: Mapping[str, Resource]


def summary_providers(
    base: state.State, named: Iterable[str], whole_trees: bool
) -> dict[str, None]:
    """The uuids of the providers to summarize, as an ordered set.

    ``named`` are the provider uuids of the allocation requests. ``whole_trees`` (since 1.29) adds
    every provider of their trees.
    """
    if not whole_trees:
        return dict.fromkeys(named)
    roots = dict.fromkeys(base.providers[uuid].root_uuid for uuid in named)
    return {uuid: None for root_uuid in roots for uuid in base.tree[root_uuid]}


def summarize(
    base: state.State, provider_uuid: str, classes: Collection[str] | None = None
) -> ProviderSummary:
    """Capacity and usage of one provider.

    ``classes`` are the requested resource classes, which a summary is limited to below 1.27; None
    means all classes of the provider.
    """
    provider = base.providers[provider_uuid]
    used = base.used(provider_uuid)
    return ProviderSummary(
        provider,
        {
            resource_class: {"capacity": inventory.capacity, "used": used.get(resource_class, 0)}
            for resource_class, inventory in provider.inventories.items()
            if classes is None or resource_class in classes
        },
    )
