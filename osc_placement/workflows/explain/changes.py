"""The smallest changes of the query, or of a host, that give candidates. Pure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates import plan as plans
from osc_placement.model import candidate, constraint
from osc_placement.model.constraint import Kind
from osc_placement.model.inventory import Inventory
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.explain import amounts
from osc_placement.workflows.explain.relaxations import Relaxations, Removed, minimal
from osc_placement.workflows.explain.values import Action, Change

#: Changes of the query that are worked out.
MOST_CHANGES = 10

#: Combinations of missing amounts that are tried on one provider.
_MOST_COMBINATIONS = 200


def of_query(
    base: state.State,
    query: candidate.CandidateQuery,
    relaxations: Relaxations,
    roots: Iterable[str],
) -> list[Change]:
    """The smallest changes of the query: the fewest constraints first, then the most hosts."""
    sets = minimal(each for root in roots for each in relaxations.smallest(root))
    changes = [_change(base, query, relaxations, removed) for removed in sets[:MOST_CHANGES]]
    return sorted(changes, key=lambda each: (len(each.removed) + len(each.amounts), -each.hosts))


def _change(
    base: state.State,
    query: candidate.CandidateQuery,
    relaxations: Relaxations,
    removed: Removed,
) -> Change:
    lowered = sorted(each for each in removed if each.kind is Kind.RESOURCES)
    others = tuple(sorted(removed - set(lowered)))
    if not lowered:
        hosts = len(relaxations.search(removed).serving(kind=relaxations.kind))
        return Change(Action.RELAX, hosts, removed=others)
    query = constraint.without(query, others)
    lowering = amounts.Lowering(base, query, lowered, relaxations.kind)
    found = lowering.best()
    if found is None:
        hosts = len(relaxations.search(removed).serving(kind=relaxations.kind))
        return Change(Action.RELAX, hosts, others, dict.fromkeys(lowered, 0))
    return Change(Action.RELAX, lowering.count(found), others, found)


def of_host(base: state.State, query: candidate.CandidateQuery, root_uuid: str) -> list[Change]:
    """What to free, or else by how much to raise capacity, on one provider of a host.

    Empty if more than capacity is missing, or on more than one provider.
    """
    search = HostSearch(base, query)
    uuids = [*base.tree[root_uuid], *search.forest.sharing_with(root_uuid)]
    found: list[Change] = []
    for uuid in uuids:
        for missing in itertools.islice(_combinations(base, search.plan, uuid), _MOST_COMBINATIONS):
            if _helps(base, query, root_uuid, uuid, missing):
                found += _makes_room(base, uuid, missing)
                break
    return found


def _combinations(base: state.State, plan: plans.Plan, uuid: str) -> Iterator[dict[str, int]]:
    """``{resource class: missing amount}``, the smallest combinations first."""
    options: list[list[tuple[str, int]]] = []
    for name, (_, requested) in plan.demands.items():
        held = base.providers[uuid].inventories.get(name)
        if held is None:
            continue
        free = held.capacity - base.used(uuid).get(name, 0)
        missing = sorted(each - free for each in _sums(requested) if each > free)
        if missing:
            options.append([(name, 0), *((name, each) for each in missing)])
    choices = sorted(
        itertools.islice(itertools.product(*options), 1, _MOST_COMBINATIONS * 5),
        key=lambda choice: (sum(bool(each) for _, each in choice), sum(each for _, each in choice)),
    )
    for choice in choices:
        yield {name: amount for name, amount in choice if amount}


def _sums(requested: Sequence[int]) -> set[int]:
    """What the groups may take from one provider together."""
    sums = {0}
    for amount in requested[:8]:
        sums |= {each + amount for each in sums}
    return sums - {0}


def _helps(
    base: state.State,
    query: candidate.CandidateQuery,
    root_uuid: str,
    uuid: str,
    missing: Mapping[str, int],
) -> bool:
    held = base.providers[uuid].inventories
    raised = {
        name: Inventory(
            held[name].capacity + amount,
            min_unit=held[name].min_unit,
            max_unit=held[name].max_unit,
            step_size=held[name].step_size,
        )
        for name, amount in missing.items()
    }
    changed = base.copy()
    provider = base.providers[uuid]
    inventories = {**held, **raised}
    changed.apply(record.Changes({uuid: dataclasses.replace(provider, inventories=inventories)}))
    return root_uuid in HostSearch(changed, query).serving([root_uuid])


def _makes_room(base: state.State, uuid: str, missing: Mapping[str, int]) -> Iterator[Change]:
    """Free what is used, if that is enough; otherwise raise the capacity."""
    used = base.used(uuid)
    for name, amount in missing.items():
        action = Action.FREE if used.get(name, 0) >= amount else Action.RAISE
        provider = base.providers[uuid].name
        yield Change(action, 1, provider=provider, resource_class=name, amount=amount)
