"""The one table of the kinds of change. A new kind is a file here and a row below."""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.plan import change
from osc_placement.plan.kinds import (
    allocations,
    base,
    inventories,
    memberships,
    provider,
    reshape,
    trait,
)

CHANGE_TYPES: Mapping[str, base.ChangeType] = {
    change.INVENTORIES: inventories.TYPE,
    change.TRAITS: memberships.TRAITS,
    change.AGGREGATES: memberships.AGGREGATES,
    change.TRAIT: trait.TYPE,
    change.PROVIDER: provider.TYPE,
    change.RESHAPE: reshape.TYPE,
    change.ALLOCATIONS: allocations.CHANGE_TYPE,
}
