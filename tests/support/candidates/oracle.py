# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates by brute force: slow and simple.

It builds every assignment of groups to providers and checks each one separately. It shares only the
records and the query with the search.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from osc_placement.engine import record, standard, state
from osc_placement.model import candidate

#: ``{(group suffix, resource class or ""): provider}``
Choice = dict[tuple[str, str], record.ProviderRecord]

#: Allocations and mappings as comparable values.
Answer = tuple[
    frozenset[tuple[str, frozenset[tuple[str, int]]]],
    frozenset[tuple[str, frozenset[str]]],
]


def freeze(found: candidate.Candidate) -> Answer:
    """A candidate as a hashable value, without its tree."""
    return (
        frozenset(
            (uuid, frozenset(amounts.items())) for uuid, amounts in found.allocations.items()
        ),
        frozenset((suffix, frozenset(uuids)) for suffix, uuids in found.mappings.items()),
    )


def brute_force(base: state.CloudState, query: candidate.CandidateQuery) -> set[Answer]:
    """All candidates of a query, without its limit."""
    answers = set()
    for root in base.providers.values():
        if root.root_uuid != root.uuid:
            continue
        if not query.root_required <= root.traits or query.root_forbidden & root.traits:
            continue
        for choice in _choices(base, query, root):
            if _is_right(base, query, choice):
                answers.add(freeze(_candidate(query, root, choice)))
    return answers


def hosts(base: state.CloudState, query: candidate.CandidateQuery) -> set[str]:
    """The names of the root providers of which a candidate takes something."""
    return {
        root.name
        for root in base.providers.values()
        if root.root_uuid == root.uuid
        and query.root_required <= root.traits
        and not query.root_forbidden & root.traits
        and any(
            any(base.providers[uuid].root_uuid == root.uuid for uuid, _ in _amounts(query, choice))
            for choice in _choices(base, query, root)
            if _is_right(base, query, choice)
        )
    }


def _choices(
    base: state.CloudState, query: candidate.CandidateQuery, root: record.ProviderRecord
) -> Iterator[Choice]:
    tree = [p for p in base.providers.values() if p.root_uuid == root.uuid]
    aggregates = {aggregate for p in tree for aggregate in p.aggregates}
    sharing = [
        p
        for p in base.providers.values()
        if standard.SHARING_TRAIT in p.traits
        and p.root_uuid != root.uuid
        and aggregates & set(p.aggregates)
    ]
    slots: dict[tuple[str, str], list[record.ProviderRecord]] = {}
    for group in query.groups:
        if not group.resources:
            slots[group.suffix, ""] = _choices_without_resources(base, group, tree + sharing)
        elif group.suffix:
            slots[group.suffix, ""] = [
                p for p in tree + sharing if _suits(base, group, p, group.resources)
            ]
        else:
            for resource_class, amount in group.resources.items():
                slots["", resource_class] = [
                    p for p in tree + sharing if _suits(base, group, p, {resource_class: amount})
                ]
    for chosen in itertools.product(*slots.values()):
        yield dict(zip(slots, chosen, strict=True))


def _choices_without_resources(
    base: state.CloudState, group: candidate.RequestGroup, providers: list[record.ProviderRecord]
) -> list[record.ProviderRecord]:
    """The providers of a group without resources, by its required traits and aggregates."""
    if not (group.required or group.member_of):
        return []
    if group.in_tree is not None and group.in_tree not in base.providers:
        return []
    anywhere = dataclasses.replace(group, in_tree=None)
    return [p for p in providers if _suits(base, anywhere, p, {})]


def _suits(
    base: state.CloudState,
    group: candidate.RequestGroup,
    provider: record.ProviderRecord,
    resources: Mapping[str, int],
) -> bool:
    memberships = [set(provider.aggregates)]
    if not group.suffix:
        memberships.append(set(base.providers[provider.root_uuid].aggregates))
    return (
        all(_gives(base, provider, *item) for item in resources.items())
        and not (provider.traits & group.forbidden)
        and (not group.suffix or all(provider.traits & any_of for any_of in group.required))
        and any(all(own & any_of for any_of in group.member_of) for own in memberships)
        and not any(own & group.forbidden_aggregates for own in memberships)
        and (group.in_tree is None or provider.root_uuid == _root_of(base, group.in_tree))
    )


def _root_of(base: state.CloudState, uuid: str) -> str | None:
    return base.providers[uuid].root_uuid if uuid in base.providers else None


def _gives(
    base: state.CloudState, provider: record.ProviderRecord, resource_class: str, amount: int
) -> bool:
    inventory = provider.inventories.get(resource_class)
    if inventory is None:
        return False
    used = base.used(provider.uuid).get(resource_class, 0)
    return inventory.suits_units(amount) and used + amount <= inventory.capacity


def _is_right(base: state.CloudState, query: candidate.CandidateQuery, choice: Choice) -> bool:
    providers = {p.uuid: p for p in choice.values()}
    if not query.nested and len({p.root_uuid for p in providers.values()}) < len(providers):
        return False
    for group in query.groups:
        if not group.suffix:
            together = frozenset().union(
                *(p.traits for (suffix, _), p in choice.items() if suffix == "")
            )
            if not all(together & any_of for any_of in group.required):
                return False
    if query.isolate:
        alone = [p.uuid for (suffix, _), p in choice.items() if suffix]
        if len(set(alone)) < len(alone):
            return False
    for suffixes in query.same_subtree:
        if not _is_subtree(base, [choice[suffix, ""] for suffix in suffixes]):
            return False
    return all(
        amount <= providers[uuid].inventories[resource_class].max_unit
        and base.used(uuid).get(resource_class, 0) + amount
        <= providers[uuid].inventories[resource_class].capacity
        for (uuid, resource_class), amount in _amounts(query, choice).items()
    )


def _is_subtree(base: state.CloudState, providers: Iterable[record.ProviderRecord]) -> bool:
    providers = list(providers)
    return any(all(top.uuid in _lineage(base, p) for p in providers) for top in providers)


def _lineage(base: state.CloudState, provider: record.ProviderRecord) -> list[str]:
    parent = provider.parent_uuid
    return [provider.uuid] + (_lineage(base, base.providers[parent]) if parent else [])


def _group(query: candidate.CandidateQuery, suffix: str) -> candidate.RequestGroup:
    return next(group for group in query.groups if group.suffix == suffix)


def _amounts(query: candidate.CandidateQuery, choice: Choice) -> Counter[tuple[str, str]]:
    amounts: Counter[tuple[str, str]] = Counter()
    for (suffix, resource_class), provider in choice.items():
        resources = _group(query, suffix).resources
        for name in [resource_class] if resource_class else resources:
            amounts[provider.uuid, name] += resources[name]
    return amounts


def _candidate(
    query: candidate.CandidateQuery, root: record.ProviderRecord, choice: Choice
) -> candidate.Candidate:
    allocations: dict[str, dict[str, int]] = {}
    for (uuid, resource_class), amount in _amounts(query, choice).items():
        allocations.setdefault(uuid, {})[resource_class] = amount
    mappings: dict[str, tuple[str, ...]] = {}
    for (suffix, _), provider in choice.items():
        mappings[suffix] = (*mappings.get(suffix, ()), provider.uuid)
    return candidate.Candidate(root.uuid, allocations, mappings)
