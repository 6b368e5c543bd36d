# SPDX-License-Identifier: Apache-2.0
"""The reshaper: inventories of several providers and allocations in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osc_placement.engine import (
    allocation,
    errors,
    inventories,
    providers,
    state,
)
from osc_placement.engine.draft import Draft
from osc_placement.model.inventory import Inventories


def reshape(
    draft: Draft,
    inventories_by_provider: Mapping[str, tuple[int, Inventories]],
    claims: Sequence[allocation.Claim],
) -> None:
    """Set inventories, ``{provider uuid: (generation, inventories)}``, and allocations.

    As in Placement: first the old and new inventories together (generation + 1 if there are new
    ones), then the allocations (+ 1 per provider used), then the new inventories alone (+ 1).
    Unlike other writes, the result may have a negative capacity.
    """
    for uuid, (generation, _) in inventories_by_provider.items():
        provider = providers.require(draft, uuid)
        if provider.generation != generation:
            raise errors.ReshapeGenerationConflict(
                uuid=uuid, actual=provider.generation, given=generation
            )
    allocation.check(draft, claims)
    for uuid, (_, target) in inventories_by_provider.items():
        state.check_classes(draft, target)
        for name, inventory in target.items():
            inventories.check_finite(uuid, name, inventory)
    for uuid, (_, target) in inventories_by_provider.items():
        if target:
            provider = providers.require(draft, uuid)
            inventories.assign(draft, provider, {**provider.inventories, **target})
    allocation.write(draft, claims)
    for uuid, (_, target) in inventories_by_provider.items():
        inventories.assign(draft, providers.require(draft, uuid), target)
