"""Former place of the batch commands, for installations whose entry points are not updated."""

from osc_placement.v1.inventory import AmendInventory
from osc_placement.v1.provider_aggregate import AddAggregate, RemoveAggregate
from osc_placement.v1.provider_trait import AddTrait, RemoveTrait

__all__ = ["AddAggregate", "AddTrait", "AmendInventory", "RemoveAggregate", "RemoveTrait"]
