"""The command classes under upstream's names, for plugins that import them. Deprecated.

``osc_placement.resources.trait.ListTrait`` is the class of ``openstack trait list``. The next
release removes this module: programs use the commands, or ``client_manager.placement``.
"""

from __future__ import annotations

import sys
import types
import warnings

from osc_placement.v1 import (
    allocation as allocation_module,
    candidate,
    inventory as inventory_module,
    provider,
    provider_aggregate,
    provider_trait,
    trait as trait_commands,
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
    ListAggregate=provider_aggregate.ListAggregate,
    SetAggregate=provider_aggregate.SetAggregate,
)
allocation = _module(
    "allocation",
    DeleteAllocation=allocation_module.DeleteAllocation,
    SetAllocation=allocation_module.SetAllocation,
    ShowAllocation=allocation_module.ShowAllocation,
    UnsetAllocation=allocation_module.UnsetAllocation,
)
allocation_candidate = _module(
    "allocation_candidate", ListAllocationCandidate=candidate.ListAllocationCandidate
)
inventory = _module(
    "inventory",
    DeleteInventory=inventory_module.DeleteInventory,
    ListInventory=inventory_module.ListInventory,
    SetClassInventory=inventory_module.SetClassInventory,
    SetInventory=inventory_module.SetInventory,
    ShowInventory=inventory_module.ShowInventory,
)
resource_class = _module(
    "resource_class",
    CreateResourceClass=trait_commands.CreateResourceClass,
    DeleteResourceClass=trait_commands.DeleteResourceClass,
    ListResourceClass=trait_commands.ListResourceClass,
    SetResourceClass=trait_commands.SetResourceClass,
    ShowResourceClass=trait_commands.ShowResourceClass,
)
resource_provider = _module(
    "resource_provider",
    CreateResourceProvider=provider.CreateResourceProvider,
    DeleteResourceProvider=provider.DeleteResourceProvider,
    ListResourceProvider=provider.ListResourceProvider,
    SetResourceProvider=provider.SetResourceProvider,
    ShowResourceProvider=provider.ShowResourceProvider,
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
    ResourceShowUsage=provider.ShowUsage,
    ShowUsage=provider.ShowProviderUsage,
)
