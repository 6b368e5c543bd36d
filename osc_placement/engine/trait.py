# SPDX-License-Identifier: Apache-2.0
"""Rules for traits, and for the traits of a provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from osc_placement.engine import (
    errors,
    providers,
    record,
    standard,
)
from osc_placement.engine.draft import Draft
from osc_placement.model.name import is_custom


def create(draft: Draft, name: str) -> bool:
    """Create a custom trait; False if it exists already."""
    if not is_custom(name):
        raise errors.TraitInvalid()
    if draft.knows_trait(name):
        return False
    draft.put_trait(name)
    return True


def delete(draft: Draft, name: str) -> None:
    """Delete a custom trait that no provider has."""
    if not draft.knows_trait(name):
        raise errors.TraitNotFound(names=name)
    if name in standard.traits():
        raise errors.TraitStandard(name=name)
    if name in draft.base.with_trait:
        raise errors.TraitInUse(name=name)
    draft.remove_trait(name)


def replace_all(
    draft: Draft, uuid: str, traits: Collection[str], generation: int
) -> record.ProviderRecord:
    """Set the traits of a provider; the same traits again change nothing."""
    provider = providers.require(draft, uuid)
    providers.check_generation(provider, generation)
    unknown = [name for name in dict.fromkeys(traits) if not draft.knows_trait(name)]
    if unknown:
        raise errors.ProviderTraitUnknown(names=", ".join(unknown))
    return _assign(draft, provider, frozenset(traits))


def clear(draft: Draft, uuid: str) -> None:
    """Remove all traits of a provider, regardless of its generation."""
    _assign(draft, providers.require(draft, uuid), frozenset())


def _assign(
    draft: Draft, provider: record.ProviderRecord, traits: frozenset[str]
) -> record.ProviderRecord:
    if traits == provider.traits:
        return provider
    return draft.bump(dataclasses.replace(provider, traits=traits))
