# SPDX-License-Identifier: Apache-2.0
"""The errors of a request by Placement's rules.

Each error has its fields and builds its text from them. The server maps it to an HTTP status and an
error code. The texts are interface: clients match on them.
"""

from __future__ import annotations

from typing import Any, ClassVar


class EngineError(Exception):
    """Base of all errors here; ``text`` is a format string over the fields."""

    text: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)
        self.fields = fields

    def __str__(self) -> str:
        return self.text.format(**self.fields)


class ProviderNotFound(EngineError):
    """No provider has this uuid."""

    text = "No resource provider with uuid {uuid} found"


class ProviderInvalid(EngineError):
    """The provider cannot be created or changed as requested."""


class NameMissing(ProviderInvalid):
    """A new provider has an empty name."""

    text = "Object action create failed because: name is required"


class ParentIsSelf(ProviderInvalid):
    """A new provider names itself as its parent."""

    text = (
        "Object action create failed because: parent provider UUID cannot be same as UUID."
        " Please set parent provider UUID to None if there is no parent."
    )


class ParentNotFound(ProviderInvalid):
    """The parent does not exist."""

    text = "Object action create failed because: parent provider UUID does not exist."


class ReparentingForbidden(ProviderInvalid):
    """A provider gets another parent, below microversion 1.37."""

    text = "Object action update failed because: re-parenting a provider is not currently allowed."


class UnparentingForbidden(ProviderInvalid):
    """A provider loses its parent, below microversion 1.37."""

    text = "Object action update failed because: un-parenting a provider is not currently allowed."


class TreeLoop(ProviderInvalid):
    """The new parent is the provider itself or one of its descendants."""

    text = "Object action update failed because: creating loop in the provider tree is not allowed."


class DuplicateProvider(EngineError):
    """Another provider has this uuid or name; ``what`` is ``uuid`` or ``name``."""

    text = "Conflicting resource provider {what}: {value} already exists."


class ProviderNameTaken(EngineError):
    """Another provider has the new name."""

    text = "Conflicting resource provider {name} already exists."


class ProviderInUse(EngineError):
    """The provider cannot be deleted because it has allocations."""

    text = "Unable to delete resource provider {uuid}: Resource provider has allocations."


class ProviderIsParent(EngineError):
    """The provider cannot be deleted because it has children."""

    text = "Unable to delete parent resource provider {uuid}: It has child resource providers."


class StaleGeneration(EngineError):
    """The provider changed since the client read its generation."""

    text = "resource provider generation conflict"


class ReshapeGenerationConflict(EngineError):
    """A provider of a reshape changed; the text names both generations."""

    text = (
        "resource provider generation conflict for provider {uuid}:"
        " actual: {actual}, given: {given}"
    )


class ConsumerGenerationConflict(EngineError):
    """The consumer changed, exists already, or does not exist."""

    text = "consumer generation conflict - expected {expected} but got {given}"


class ResourceClassNotFound(EngineError):
    """A resource class that does not exist."""

    text = "No such resource class {name}."


class ResourceClassExists(EngineError):
    """The resource class exists already."""

    text = "Resource class already exists: {name}"


class ResourceClassStandard(EngineError):
    """A standard resource class cannot be renamed or deleted."""

    text = "Cannot {verb} standard resource class {name}"


class ResourceClassInUse(EngineError):
    """The resource class cannot be deleted because a provider has inventory of it."""

    text = "Cannot delete resource class {name}. Class is in use in inventory."


class TraitNotFound(EngineError):
    """Traits do not exist; ``names`` joined by commas."""

    text = "No such trait(s): {names}."


class ProviderTraitUnknown(EngineError):
    """New traits of a provider do not exist."""

    text = "No such trait {names}"


class TraitInvalid(EngineError):
    """The name is not valid for a custom trait."""

    text = (
        "The trait is invalid. A valid trait must be no longer than 255 characters, start with"
        ' the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
    )


class TraitStandard(EngineError):
    """A standard trait cannot be deleted."""

    text = "Cannot delete standard trait {name}."


class TraitInUse(EngineError):
    """The trait cannot be deleted because a provider has it."""

    text = "The trait {name} is in use by a resource provider."


class InventoryNotFound(EngineError):
    """The provider has no inventory of the class."""

    text = "No inventory of class {name} found."


class InventoryNotFoundForDelete(InventoryNotFound):
    """The provider has no inventory of the class to delete."""

    text = "No inventory of class {name} found for delete"


class InventoryExists(EngineError):
    """The provider has inventory of the class already."""

    text = "resource provider {uuid} already has an inventory of class {name}"


class InventoryInvalid(EngineError):
    """The capacity is negative (or zero, below 1.26)."""

    text = (
        "Invalid inventory for '{name}' on resource provider '{uuid}'."
        " The reserved value is greater than {bound}."
    )


class UsedInventory(EngineError):
    """Inventory with allocations cannot be removed; ``names`` joined by commas."""

    text = "Inventory for '{names}' on resource provider '{uuid}' in use."


class AllocationRefused(EngineError):
    """The allocation violates the inventory."""


class NoInventory(AllocationRefused):
    """Providers have no inventory of the classes; each joined by commas."""

    text = "Inventory for '{name}' on resource provider '{uuid}' invalid."


class UnitsViolated(AllocationRefused):
    """The amount violates min_unit, max_unit or step_size."""

    text = (
        "Unable to create allocation for '{name}' on resource provider '{uuid}'."
        " The requested amount would violate inventory constraints."
    )


class CapacityExceeded(AllocationRefused):
    """The amount exceeds the free capacity."""

    text = (
        "Unable to create allocation for '{name}' on resource provider '{uuid}'."
        " The requested amount would exceed the capacity."
    )


class AllocationProviderNotFound(EngineError):
    """The provider of an allocation does not exist."""

    text = "Allocation for resource provider '{uuid}' that does not exist."


class AllocationsNotFound(EngineError):
    """The consumer has no allocations to delete."""

    text = "No allocations for consumer '{uuid}'"
