# SPDX-License-Identifier: Apache-2.0
"""Rules for resource classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from osc_placement.engine import errors, standard
from osc_placement.engine.draft import Draft

_Value = TypeVar("_Value")


def create(draft: Draft, name: str) -> None:
    """Create a custom resource class; raises ResourceClassExists."""
    if not ensure(draft, name):
        raise errors.ResourceClassExists(name=name)


def ensure(draft: Draft, name: str) -> bool:
    """Create a custom resource class; False if it exists already."""
    if draft.knows_resource_class(name):
        return False
    draft.put_resource_class(name)
    return True


def rename(draft: Draft, old: str, new: str) -> None:
    """Rename a custom class in all inventories and allocations (below 1.7 only)."""
    _require(draft, old)
    if old in standard.RESOURCE_CLASSES:
        raise errors.ResourceClassStandard(verb="update", name=old)
    if old == new:
        return
    if draft.knows_resource_class(new):
        raise errors.ResourceClassExists(name=new)
    draft.remove_resource_class(old)
    draft.put_resource_class(new)
    for uuid in draft.base.with_class[old]:
        provider = draft.base.providers[uuid]
        draft.put_provider(
            dataclasses.replace(provider, inventories=_renamed(provider.inventories, old, new))
        )
    for consumer in draft.base.consumers.values():
        if any(old in resources for resources in consumer.allocations.values()):
            allocations = {
                provider_uuid: _renamed(resources, old, new)
                for provider_uuid, resources in consumer.allocations.items()
            }
            draft.put_consumer(dataclasses.replace(consumer, allocations=allocations))


def delete(draft: Draft, name: str) -> None:
    """Delete a custom class without inventory."""
    _require(draft, name)
    if name in standard.RESOURCE_CLASSES:
        raise errors.ResourceClassStandard(verb="delete", name=name)
    if name in draft.base.with_class:
        raise errors.ResourceClassInUse(name=name)
    draft.remove_resource_class(name)


def _require(draft: Draft, name: str) -> None:
    if not draft.knows_resource_class(name):
        raise errors.ResourceClassNotFound(name=name)


def _renamed(values: Mapping[str, _Value], old: str, new: str) -> dict[str, _Value]:
    return {new if name == old else name: value for name, value in values.items()}
