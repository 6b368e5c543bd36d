# SPDX-License-Identifier: Apache-2.0
"""Small clouds for tests: the uuid of a provider is its name; random ones; and queries on them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from osc_placement import testing
from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import search as candidate_search
from osc_placement.model import allocation as model, candidate, inventory
from osc_placement.server.store import document
from osc_placement.testing import random_clouds

SHARES = standard.SHARING_TRAIT
#: Who uses what is used.
CONSUMER = "00000000-0000-4000-8000-0000000000cc"


def provider(
    name: str,
    parent: str = "",
    *,
    traits: str = "",
    aggregates: str = "",
    **offers: int | inventory.Inventory,
) -> tuple[str, str, frozenset[str], tuple[str, ...], Mapping[str, inventory.Inventory]]:
    """``provider("numa0", "host", traits="T1 T2", aggregates="A B", VCPU=4)``."""
    inventories = {
        name: inventory.Inventory(offer) if isinstance(offer, int) else offer
        for name, offer in offers.items()
    }
    return name, parent, frozenset(traits.split()), tuple(aggregates.split()), inventories


def cloud(
    *providers: Any,
    used: model.Allocations | None = None,
    servers: Mapping[str, str | model.Allocations] = MappingProxyType({}),
) -> state.CloudState:
    """A state of these providers, parents first; ``used`` is ``{provider: {class: amount}}``.

    ``servers`` is ``{"s": "a 2"}``, for 2 VCPU on a, or ``{"s": {"a": {"VCPU": 2}}}``.
    """
    records: dict[str, record.ProviderRecord] = {}
    for name, parent, traits, aggregates, inventories in providers:
        records[name] = record.ProviderRecord(
            uuid=name,
            name=name,
            root_uuid=records[parent].root_uuid if parent else name,
            parent_uuid=parent or None,
            inventories=inventories,
            traits=traits,
            aggregates=aggregates,
        )
    base = state.CloudState()
    allocations = {**({CONSUMER: used} if used else {}), **servers}
    consumers = {
        uuid: record.ConsumerRecord(uuid, 1, "p", "u", _allocations_of(place))
        for uuid, place in allocations.items()
    }
    classes = {name for item in records.values() for name in item.inventories}
    custom = {name: 0.0 for name in sorted(classes) if name.startswith("CUSTOM_")}
    base.apply(record.Changes(records, consumers, resource_classes=custom))
    return base


def state_of(cloud: testing.Cloud) -> state.CloudState:
    """Placement's half of a cloud."""
    base = state.CloudState()
    base.apply(document.load_document(cloud.document(), now=0.0))
    return base


def draw_state(
    draw: random.Random, shape: random_clouds.Shape = "trees", *, small: bool = False
) -> state.CloudState:
    """Placement's half of a random cloud."""
    return state_of(testing.random_cloud(draw, shape, small=small))


def _allocations_of(place: str | model.Allocations) -> model.Allocations:
    if not isinstance(place, str):
        return place
    host, _, amount = place.rpartition(" ")
    return {host: {"VCPU": int(amount)}}


def group(suffix: str = "", /, **conditions: Any) -> candidate.RequestGroup:
    """``group("_A", VCPU=1, required="T1 T2|T3", forbidden="T4", member_of="A|B")``."""
    words = {key: conditions.pop(key, "").split() for key in ("required", "member_of")}
    alternatives = {
        key: tuple(frozenset(word.split("|")) for word in parts) for key, parts in words.items()
    }
    return candidate.RequestGroup(
        suffix,
        forbidden=frozenset(conditions.pop("forbidden", "").split()),
        forbidden_aggregates=frozenset(conditions.pop("not_member_of", "").split()),
        in_tree=conditions.pop("in_tree", None),
        resources=conditions,
        **alternatives,
    )


def query(*groups: candidate.RequestGroup, **binding: Any) -> candidate.CandidateQuery:
    """The groups, and the other fields of a query."""
    return candidate.CandidateQuery(groups, **binding)


def found(
    base: state.CloudState, *groups: candidate.RequestGroup, **binding: Any
) -> list[dict[str, dict[str, int]]]:
    """The allocations of every candidate, in order of the search."""
    return [
        {uuid: dict(amounts) for uuid, amounts in allocation_candidate.allocations.items()}
        for allocation_candidate in candidate_search.search(base, query(*groups, **binding))
    ]
