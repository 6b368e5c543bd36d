"""Which providers a list request asks for."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.engine import inventory, record, state, trait
from osc_placement.model import candidate


def matching(
    base: state.State,
    wanted: candidate.RequestGroup,
    name: str | None = None,
    uuid: str | None = None,
) -> list[record.ProviderRecord]:
    """The providers that by themselves have all that is wanted, in order of creation.

    Raises TraitNotFound and ResourceClassNotFound. As in Placement, classes are looked
    at last: where trees, traits or aggregates leave nobody, an unknown one is not noticed.
    Cost: linear in the smallest set that one of the conditions leaves.
    """
    if wanted.in_tree is not None and wanted.in_tree not in base.providers:
        return []
    for alternatives in wanted.required:
        trait.check_exist(base, sorted(alternatives))
    if not all(_union(base.with_trait[name] for name in names) for names in wanted.required):
        return []
    trait.check_exist(base, sorted(wanted.forbidden))
    if not all(members(base, aggregates) for aggregates in wanted.member_of):
        return []
    inventory.check_classes(base, wanted.resources)
    found: Iterable[str] = base.providers
    narrow = _narrowest(base, wanted, name, uuid)
    if narrow is not None:
        found = narrow
    return [
        provider
        for member in found
        if _suits(base, provider := base.providers[member], wanted, name, uuid)
    ]


def _narrowest(
    base: state.State, wanted: candidate.RequestGroup, name: str | None, uuid: str | None
) -> list[str] | None:
    """The smallest set of providers that an index knows to hold every answer."""
    sets: list[list[str]] = []
    if uuid is not None:
        sets.append([uuid] if uuid in base.providers else [])
    if name:
        sets.append([base.named[name]] if name in base.named else [])
    if wanted.in_tree is not None:
        tree = base.providers.get(wanted.in_tree)
        sets.append(list(base.tree[tree.root_uuid]) if tree else [])
    for alternatives in wanted.member_of:
        sets.append(members(base, alternatives))
    for traits in wanted.required:
        sets.append(_union(base.with_trait[trait] for trait in traits))
    sets.extend(list(base.with_class[name]) for name in wanted.resources)
    return min(sets, key=len, default=None)


def members(base: state.State, aggregates: Iterable[str]) -> list[str]:
    """The providers that are in any of the aggregates."""
    return _union(base.with_aggregate[aggregate] for aggregate in aggregates)


def _union(parts: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(member for part in parts for member in part))


def _suits(
    base: state.State,
    provider: record.ProviderRecord,
    wanted: candidate.RequestGroup,
    name: str | None,
    uuid: str | None,
) -> bool:
    if uuid is not None and provider.uuid != uuid:
        return False
    if name and provider.name != name:
        return False
    return (
        _in_tree(base, provider, wanted.in_tree)
        and has_traits(provider, wanted)
        and in_aggregates(provider, wanted)
        and _has_room(base, provider, wanted)
    )


def has_traits(provider: record.ProviderRecord, wanted: candidate.RequestGroup) -> bool:
    """Whether a provider has one of each required set of traits, and no forbidden one."""
    return provider.traits.isdisjoint(wanted.forbidden) and not any(
        provider.traits.isdisjoint(alternatives) for alternatives in wanted.required
    )


def in_aggregates(provider: record.ProviderRecord, wanted: candidate.RequestGroup) -> bool:
    """Whether a provider is in one of each set of aggregates, and in no forbidden one."""
    aggregates = frozenset(provider.aggregates)
    return aggregates.isdisjoint(wanted.forbidden_aggregates) and not any(
        aggregates.isdisjoint(alternatives) for alternatives in wanted.member_of
    )


def _in_tree(base: state.State, provider: record.ProviderRecord, member: str | None) -> bool:
    if member is None:
        return True
    other = base.providers.get(member)
    return other is not None and other.root_uuid == provider.root_uuid


def _has_room(
    base: state.State, provider: record.ProviderRecord, wanted: candidate.RequestGroup
) -> bool:
    used = base.used(provider.uuid)
    for name, amount in wanted.resources.items():
        offered = provider.inventories.get(name)
        if offered is None or not offered.suits_units(amount):
            return False
        if not offered.has_room(used.get(name, 0), amount):
            return False
    return True
