"""Which providers a list request asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from osc_placement.engine import inventory, record, state, trait
from osc_placement.model import candidate

Members = Collection[str]


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
    held = _held(base, wanted, name, uuid)
    smallest: Members = min(held, key=len, default=base.providers.keys())
    found = list(smallest)
    for members_only in held:
        found = [member for member in found if member in members_only]
    for barred in _barred(base, wanted):
        found = [member for member in found if member not in barred]
    if held:
        # An index holds its members in the order in which they were changed last.
        found = base.in_order(found)
    providers = [base.providers[member] for member in found]
    for resource_class, amount in wanted.resources.items():
        providers = _with_room(base, providers, resource_class, amount)
    return providers


def _held(
    base: state.State, wanted: candidate.RequestGroup, name: str | None, uuid: str | None
) -> list[Members]:
    """What the indexes know: each of the sets holds every answer."""
    held: list[Members] = []
    if uuid is not None:
        held.append({uuid} & base.providers.keys())
    if name:
        held.append({base.named[name]} if name in base.named else ())
    if wanted.in_tree is not None:
        held.append(base.tree[base.providers[wanted.in_tree].root_uuid])
    held += [_any_of(base.with_aggregate, names) for names in wanted.member_of]
    held += [_any_of(base.with_trait, names) for names in wanted.required]
    held += [base.with_class[resource_class] for resource_class in wanted.resources]
    return held


def _barred(base: state.State, wanted: candidate.RequestGroup) -> list[Members]:
    """Sets that hold no answer."""
    aggregates = [base.with_aggregate[name] for name in wanted.forbidden_aggregates]
    return [*aggregates, *(base.with_trait[name] for name in wanted.forbidden)]


def _any_of(index: state.Index, keys: Collection[str]) -> Members:
    if len(keys) == 1:
        return index[next(iter(keys))]
    return _union(index[key] for key in keys).keys()


def _with_room(
    base: state.State, providers: list[record.ProviderRecord], name: str, amount: int
) -> list[record.ProviderRecord]:
    return [
        provider
        for provider in providers
        if (offered := provider.inventories[name]).suits_units(amount)
        and offered.has_room(base.used(provider.uuid).get(name, 0), amount)
    ]


def members(base: state.State, aggregates: Iterable[str]) -> list[str]:
    """The providers that are in any of the aggregates."""
    return list(_union(base.with_aggregate[aggregate] for aggregate in aggregates))


def _union(parts: Iterable[Iterable[str]]) -> dict[str, None]:
    return dict.fromkeys(member for part in parts for member in part)
