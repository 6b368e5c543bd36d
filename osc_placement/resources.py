"""The command classes under upstream's names, for plugins that import them. Deprecated.

``osc_placement.resources.trait.ListTrait`` is the class of ``openstack trait list``. The next
release removes this module: programs use the commands, or ``client_manager.placement``.
"""

from __future__ import annotations

import sys
import types
import warnings

from osc_placement.v1 import resource_class as class_commands, trait as trait_commands
from osc_placement.v1.allocations import allocation as allocation_commands
from osc_placement.v1.candidates import candidate as candidate_commands
from osc_placement.v1.providers import (
    aggregate as aggregate_commands,
    inventory as inventory_commands,
    inventory_set,
    provider_trait,
    resource_provider as provider_commands,
    usage as usage_commands,
)

warnings.warn(
    "osc_placement.resources is deprecated and will be removed in osc-placement 6: use the"
    " commands of openstack, or client_manager.placement",
    DeprecationWarning,
    stacklevel=2,
)


def _module(name: str, **commands: type) -> types.ModuleType:
    """A module of this name with the commands, which ``import`` finds."""
    module = types.ModuleType(f"{__name__}.{name}")
    vars(module).update(commands)
    sys.modules[module.__name__] = module
    return module


aggregate = _module(
    "aggregate",
    ListAggregate=aggregate_commands.ListAggregate,
    SetAggregate=aggregate_commands.SetAggregate,
)
allocation = _module(
    "allocation",
    DeleteAllocation=allocation_commands.DeleteAllocation,
    SetAllocation=allocation_commands.SetAllocation,
    ShowAllocation=allocation_commands.ShowAllocation,
    UnsetAllocation=allocation_commands.UnsetAllocation,
)
allocation_candidate = _module(
    "allocation_candidate", ListAllocationCandidate=candidate_commands.ListAllocationCandidate
)
inventory = _module(
    "inventory",
    DeleteInventory=inventory_commands.DeleteInventory,
    ListInventory=inventory_commands.ListInventory,
    SetClassInventory=inventory_commands.SetClassInventory,
    SetInventory=inventory_set.SetInventory,
    ShowInventory=inventory_commands.ShowInventory,
)
resource_class = _module(
    "resource_class",
    CreateResourceClass=class_commands.CreateResourceClass,
    DeleteResourceClass=class_commands.DeleteResourceClass,
    ListResourceClass=class_commands.ListResourceClass,
    SetResourceClass=class_commands.SetResourceClass,
    ShowResourceClass=class_commands.ShowResourceClass,
)
resource_provider = _module(
    "resource_provider",
    CreateResourceProvider=provider_commands.CreateResourceProvider,
    DeleteResourceProvider=provider_commands.DeleteResourceProvider,
    ListResourceProvider=provider_commands.ListResourceProvider,
    SetResourceProvider=provider_commands.SetResourceProvider,
    ShowResourceProvider=provider_commands.ShowResourceProvider,
)
trait = _module(
    "trait",
    CreateTrait=trait_commands.CreateTrait,
    DeleteResourceProviderTrait=provider_trait.DeleteResourceProviderTrait,
    DeleteTrait=trait_commands.DeleteTrait,
    ListResourceProviderTrait=provider_trait.ListResourceProviderTrait,
    ListTrait=trait_commands.ListTrait,
    SetResourceProviderTrait=provider_trait.SetResourceProviderTrait,
    ShowTrait=trait_commands.ShowTrait,
)
usage = _module(
    "usage",
    ResourceShowUsage=usage_commands.ShowUsage,
    ShowUsage=usage_commands.ShowProviderUsage,
)
