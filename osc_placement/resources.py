# SPDX-License-Identifier: Apache-2.0
"""The command classes, URLs and fields under upstream's names, for plugins. Deprecated.

``osc_placement.resources.trait.ListTrait`` is the class of ``openstack trait list``, and
``RP_TRAITS_URL`` there is what plugins send a provider's traits to. The next release removes this
module: programs use the commands, or ``client_manager.placement``.
"""

from __future__ import annotations

import sys
import types
import warnings

from osc_placement.v1.resources import (
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


_PROVIDERS = "/resource_providers"
_PROVIDER = "/resource_providers/{uuid}"


def _module(name: str, **content: type | str | tuple[str, ...]) -> types.ModuleType:
    """A module of this name with the commands and constants, which ``import`` finds."""
    module = types.ModuleType(f"{__name__}.{name}")
    vars(module).update(content)
    sys.modules[module.__name__] = module
    return module


aggregate = _module(
    "aggregate",
    BASE_URL=f"{_PROVIDER}/aggregates",
    FIELDS=("uuid",),
    ListAggregate=provider_aggregate.ListAggregate,
    SetAggregate=provider_aggregate.SetAggregate,
)
allocation = _module(
    "allocation",
    BASE_URL="/allocations",
    DeleteAllocation=allocation_module.DeleteAllocation,
    SetAllocation=allocation_module.SetAllocation,
    ShowAllocation=allocation_module.ShowAllocation,
    UnsetAllocation=allocation_module.UnsetAllocation,
)
allocation_candidate = _module(
    "allocation_candidate",
    BASE_URL="/allocation_candidates",
    ListAllocationCandidate=candidate.ListAllocationCandidate,
)
inventory = _module(
    "inventory",
    BASE_URL=f"{_PROVIDER}/inventories",
    PER_CLASS_URL=f"{_PROVIDER}/inventories/{{resource_class}}",
    RP_BASE_URL=_PROVIDERS,
    USAGES_BASE_URL=f"{_PROVIDER}/usages",
    FIELDS=("allocation_ratio", "min_unit", "max_unit", "reserved", "step_size", "total"),
    DeleteInventory=inventory_module.DeleteInventory,
    ListInventory=inventory_module.ListInventory,
    SetClassInventory=inventory_module.SetClassInventory,
    SetInventory=inventory_module.SetInventory,
    ShowInventory=inventory_module.ShowInventory,
)
resource_class = _module(
    "resource_class",
    BASE_URL="/resource_classes",
    PER_CLASS_URL="/resource_classes/{name}",
    FIELDS=("name",),
    CreateResourceClass=trait_commands.CreateResourceClass,
    DeleteResourceClass=trait_commands.DeleteResourceClass,
    ListResourceClass=trait_commands.ListResourceClass,
    SetResourceClass=trait_commands.SetResourceClass,
    ShowResourceClass=trait_commands.ShowResourceClass,
)
resource_provider = _module(
    "resource_provider",
    BASE_URL=_PROVIDERS,
    ALLOCATIONS_URL=f"{_PROVIDER}/allocations",
    CreateResourceProvider=provider.CreateResourceProvider,
    DeleteResourceProvider=provider.DeleteResourceProvider,
    ListResourceProvider=provider.ListResourceProvider,
    SetResourceProvider=provider.SetResourceProvider,
    ShowResourceProvider=provider.ShowResourceProvider,
)
trait = _module(
    "trait",
    BASE_URL="/traits",
    RP_BASE_URL=_PROVIDER,
    RP_TRAITS_URL=f"{_PROVIDER}/traits",
    FIELDS=("name",),
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
    BASE_URL=f"{_PROVIDER}/usages",
    USAGES_URL="/usages",
    FIELDS=("resource_class", "usage"),
    ResourceShowUsage=provider.ShowUsage,
    ShowUsage=provider.ShowProviderUsage,
)
