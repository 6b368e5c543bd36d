# SPDX-License-Identifier: Apache-2.0
"""Rules for resource providers: create, rename, move in a tree, delete."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from osc_placement.engine import errors, record
from osc_placement.engine.draft import Draft


class UnchangedParent(enum.Enum):
    """The parent of an update that does not name one."""

    TOKEN = 0


UNCHANGED = UnchangedParent.TOKEN


def require(draft: Draft, uuid: str) -> record.ProviderRecord:
    """The provider; raises ProviderNotFound."""
    provider = draft.provider(uuid)
    if provider is None:
        raise errors.ProviderNotFound(uuid=uuid)
    return provider


def check_generation(provider: record.ProviderRecord, generation: int) -> None:
    """Raise GenerationConflict if the provider has another generation."""
    if provider.generation != generation:
        raise errors.StaleGeneration()


def create(
    draft: Draft, uuid: str, name: str, parent_uuid: str | None = None
) -> record.ProviderRecord:
    """Create a provider; without a parent it is a root."""
    if not name:
        raise errors.NameMissing()
    root_uuid = uuid
    if parent_uuid is not None:
        if parent_uuid == uuid:
            raise errors.ParentIsSelf()
        root_uuid = _parent(draft, parent_uuid).root_uuid
    if draft.provider(uuid) is not None:
        raise errors.DuplicateProvider(what="uuid", value=uuid)
    if draft.provider_named(name) is not None:
        raise errors.DuplicateProvider(what="name", value=name)
    return draft.put_provider(
        record.ProviderRecord(
            uuid=uuid,
            name=name,
            root_uuid=root_uuid,
            parent_uuid=parent_uuid,
            generation=draft.first_generation,
        )
    )


def update(
    draft: Draft,
    uuid: str,
    name: str,
    parent_uuid: str | UnchangedParent | None = UNCHANGED,
    may_move: bool = True,
) -> record.ProviderRecord:
    """Rename a provider and, if a parent is given, move it with its descendants.

    ``may_move`` False is the rule below 1.37: a parent can be set once.
    """
    provider = require(draft, uuid)
    if parent_uuid is not UNCHANGED and parent_uuid != provider.parent_uuid:
        provider = _move(draft, provider, parent_uuid, may_move)
    namesake = draft.provider_named(name)
    if namesake is not None and namesake.uuid != uuid:
        raise errors.ProviderNameTaken(name=name)
    return draft.put_provider(dataclasses.replace(provider, name=name))


def delete(draft: Draft, uuid: str) -> None:
    """Delete a provider without children and allocations."""
    require(draft, uuid)
    if draft.children(uuid):
        raise errors.ProviderIsParent(uuid=uuid)
    if any(draft.used(uuid).values()):
        raise errors.ProviderInUse(uuid=uuid)
    draft.remove_provider(uuid)


def replace_aggregates(
    draft: Draft, uuid: str, aggregates: Sequence[str], generation: int | None
) -> record.ProviderRecord:
    """Set the aggregates of a provider, in the given order.

    ``generation`` None means below 1.19: the generation is neither checked nor increased.
    """
    provider = require(draft, uuid)
    if generation is None:
        return draft.put_provider(dataclasses.replace(provider, aggregates=tuple(aggregates)))
    check_generation(provider, generation)
    return draft.bump(dataclasses.replace(provider, aggregates=tuple(aggregates)))


def _parent(draft: Draft, uuid: str) -> record.ProviderRecord:
    parent = draft.provider(uuid)
    if parent is None:
        raise errors.ParentNotFound()
    return parent


def _move(
    draft: Draft,
    provider: record.ProviderRecord,
    parent_uuid: str | None,
    may_move: bool,
) -> record.ProviderRecord:
    root_uuid = provider.uuid
    subtree = _subtree(draft, provider)
    if parent_uuid is None:
        if not may_move:
            raise errors.UnparentingForbidden()
    else:
        root_uuid = _parent(draft, parent_uuid).root_uuid
        if provider.parent_uuid is not None and not may_move:
            raise errors.ReparentingForbidden()
        if any(parent_uuid == member.uuid for member in subtree):
            raise errors.TreeLoop()
    for member in subtree:
        draft.put_provider(dataclasses.replace(member, root_uuid=root_uuid))
    return draft.put_provider(
        dataclasses.replace(provider, root_uuid=root_uuid, parent_uuid=parent_uuid)
    )


def _subtree(draft: Draft, provider: record.ProviderRecord) -> list[record.ProviderRecord]:
    """The provider and all its descendants."""
    members = [provider]
    for member in members:
        members.extend(draft.children(member.uuid))
    return members
