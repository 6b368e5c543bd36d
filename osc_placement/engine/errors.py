"""What can be wrong with a request, as Placement's rules see it.

Each error carries its facts as attributes and makes its text from them; which HTTP
status and error code it becomes is the server's business. The texts are interface:
clients match on them.
"""

from __future__ import annotations

from typing import Any, ClassVar


class EngineError(Exception):
    """Base of all refusals; ``text`` is a format string over the facts given."""

    text: ClassVar[str] = ""

    def __init__(self, **facts: Any) -> None:
        super().__init__(facts)
        self.facts = facts

    def __str__(self) -> str:
        return self.text.format(**self.facts)


class ProviderNotFound(EngineError):
    """No provider has the uuid that the request names."""

    text = "No resource provider with uuid {uuid} found"


class ProviderInvalid(EngineError):
    """The provider could not be created or saved as wanted."""


class NameMissing(ProviderInvalid):
    """A provider was to be created with an empty name."""

    text = "Object action create failed because: name is required"


class ParentIsSelf(ProviderInvalid):
    """A new provider names itself as its parent."""

    text = (
        "Object action create failed because: parent provider UUID cannot be same as UUID."
        " Please set parent provider UUID to None if there is no parent."
    )


class ParentNotFound(ProviderInvalid):
    """The parent named does not exist."""

    text = "Object action create failed because: parent provider UUID does not exist."


class ReparentingForbidden(ProviderInvalid):
    """A provider that has a parent was given another one, below microversion 1.37."""

    text = "Object action update failed because: re-parenting a provider is not currently allowed."


class UnparentingForbidden(ProviderInvalid):
    """A parent was taken away, below microversion 1.37."""

    text = "Object action update failed because: un-parenting a provider is not currently allowed."


class TreeLoop(ProviderInvalid):
    """The new parent is the provider itself or one of its descendants."""

    text = "Object action update failed because: creating loop in the provider tree is not allowed."


class DuplicateProvider(EngineError):
    """Another provider has this uuid or name; ``what`` is one of the two words."""

    text = "Conflicting resource provider {what}: {value} already exists."


class ProviderNameTaken(EngineError):
    """A rename to the name of another provider."""

    text = "Conflicting resource provider {name} already exists."


class ProviderInUse(EngineError):
    """A provider that is to be deleted has allocations."""

    text = "Unable to delete resource provider {uuid}: Resource provider has allocations."


class ProviderIsParent(EngineError):
    """A provider that is to be deleted has children."""

    text = "Unable to delete parent resource provider {uuid}: It has child resource providers."


class GenerationConflict(EngineError):
    """The provider has changed since the generation given was read."""

    text = "resource provider generation conflict"


class ReshapeGenerationConflict(EngineError):
    """A provider in a reshape has changed; the text names both generations."""

    text = (
        "resource provider generation conflict for provider {uuid}:"
        " actual: {actual}, given: {given}"
    )


class ConsumerGenerationConflict(EngineError):
    """The consumer has changed, or exists already, or does not exist."""

    text = "consumer generation conflict - expected {expected} but got {given}"


class ResourceClassNotFound(EngineError):
    """A resource class that does not exist."""

    text = "No such resource class {name}."


class ResourceClassExists(EngineError):
    """A custom resource class that is to be made exists."""

    text = "Resource class already exists: {name}"


class ResourceClassStandard(EngineError):
    """A standard resource class cannot be renamed or deleted."""

    text = "Cannot {verb} standard resource class {name}"


class ResourceClassInUse(EngineError):
    """A resource class that is to be deleted has inventory somewhere."""

    text = "Cannot delete resource class {name}. Class is in use in inventory."


class TraitNotFound(EngineError):
    """Traits that do not exist; ``names`` joined by commas."""

    text = "No such trait(s): {names}."


class ProviderTraitUnknown(EngineError):
    """A provider was to get traits that do not exist."""

    text = "No such trait {names}"


class TraitInvalid(EngineError):
    """A name that no operator's trait may have."""

    text = (
        "The trait is invalid. A valid trait must be no longer than 255 characters, start with"
        ' the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
    )


class TraitStandard(EngineError):
    """A standard trait cannot be deleted."""

    text = "Cannot delete standard trait {name}."


class TraitInUse(EngineError):
    """A trait that is to be deleted stands on a provider."""

    text = "The trait {name} is in use by a resource provider."


class InventoryNotFound(EngineError):
    """The provider has no inventory of the class."""

    text = "No inventory of class {name} found."


class InventoryNotFoundForDelete(InventoryNotFound):
    """The provider has no inventory of the class that is to be deleted."""

    text = "No inventory of class {name} found for delete"


class InventoryExists(EngineError):
    """The provider has inventory of the class already."""

    text = "resource provider {uuid} already has an inventory of class {name}"


class InventoryInvalid(EngineError):
    """The capacity of an inventory would be negative (or nothing, below 1.26)."""

    text = (
        "Invalid inventory for '{name}' on resource provider '{uuid}'."
        " The reserved value is greater than {bound}."
    )


class InventoryInUse(EngineError):
    """Inventory that is to go has allocations; ``names`` joined by commas."""

    text = "Inventory for '{names}' on resource provider '{uuid}' in use."


class AllocationRefused(EngineError):
    """An allocation that does not suit the inventory it is from."""


class NoInventory(AllocationRefused):
    """An allocation of classes that providers have no inventory of; each joined by commas."""

    text = "Inventory for '{name}' on resource provider '{uuid}' invalid."


class UnitsViolated(AllocationRefused):
    """An amount against min_unit, max_unit or step_size."""

    text = (
        "Unable to create allocation for '{name}' on resource provider '{uuid}'."
        " The requested amount would violate inventory constraints."
    )


class CapacityExceeded(AllocationRefused):
    """More than what is left of the capacity."""

    text = (
        "Unable to create allocation for '{name}' on resource provider '{uuid}'."
        " The requested amount would exceed the capacity."
    )


class AllocationProviderNotFound(EngineError):
    """An allocation from a provider that does not exist."""

    text = "Allocation for resource provider '{uuid}' that does not exist."


class AllocationsNotFound(EngineError):
    """A consumer that is to lose its allocations has none."""

    text = "No allocations for consumer '{uuid}'"
