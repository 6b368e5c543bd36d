"""The provider listings that a query needs: one per trait, aggregate and requested amount. Pure."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping

from osc_placement import errors
from osc_placement.model import candidate, inventory

#: The most listings for one constraint on resources.
PER_CONSTRAINT = 3

#: The prefix of a set of alternative aggregates for a sharing provider in it. With one name for all
#: members, the provider would share with the members of every aggregate of the set.
SHARING = "sharing:"


@dataclasses.dataclass(frozen=True, slots=True)
class Listings:
    """What to list, each with one GET /resource_providers.

    ``amounts`` is ``{resource class: amounts}``; ``traits`` and ``aggregates`` are names or
    ``in:A,B``, as in the query of the model.
    """

    amounts: Mapping[str, tuple[int, ...]]
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]


def merge_alternatives(query: candidate.CandidateQuery) -> candidate.CandidateQuery:
    """The query with one name, ``in:A,B``, for each set of alternatives.

    So one listing tells which providers meet the set, however large it is.
    """
    groups = tuple(
        dataclasses.replace(
            group,
            required=tuple(frozenset({any_of(names)}) for names in group.required),
            member_of=tuple(map(_merged_aggregates, group.member_of)),
        )
        for group in query.groups
    )
    return dataclasses.replace(query, groups=groups)


def split_alternatives(query: candidate.CandidateQuery) -> candidate.CandidateQuery:
    """The inverse of ``merge_alternatives``: the query as Placement accepts it."""
    groups = tuple(
        dataclasses.replace(
            group,
            required=tuple(map(_split, group.required)),
            member_of=tuple(map(_split, group.member_of)),
        )
        for group in query.groups
    )
    return dataclasses.replace(query, groups=groups)


def _split(names: frozenset[str]) -> frozenset[str]:
    return frozenset(
        part for name in names for part in name.removeprefix(SHARING).removeprefix("in:").split(",")
    )


def _merged_aggregates(names: frozenset[str]) -> frozenset[str]:
    merged = any_of(names)
    return names if len(names) == 1 else frozenset({merged, SHARING + merged})


def any_of(names: Iterable[str]) -> str:
    """``A``, or ``in:A,B`` for several names."""
    ordered = sorted(names)
    return ordered[0] if len(ordered) == 1 else f"in:{','.join(ordered)}"


def needed(queries: Iterable[candidate.CandidateQuery], *, with_least: bool = False) -> Listings:
    """The listings for queries of ``merge_alternatives``. Raises TooManySums.

    ``with_least``: also those for an amount of 1, for the same queries with lower amounts.
    """
    aggregates, names = set[str](), set[str]()
    amounts: dict[str, set[int]] = {}
    for query in queries:
        names |= traits(query)
        for group in query.groups:
            aggregates.update(group.forbidden_aggregates, *group.member_of)
        for name, requested in _requested(query).items():
            amounts.setdefault(name, {1} if with_least else set()).update(_sums(name, requested))
    return Listings(
        {name: tuple(sorted(each)) for name, each in amounts.items()},
        tuple(sorted(names)),
        tuple(sorted(name for name in aggregates if not name.startswith(SHARING))),
    )


def _requested(query: candidate.CandidateQuery) -> dict[str, list[int]]:
    """``{class: its amount in each group}``."""
    found: dict[str, list[int]] = {}
    for group in query.groups:
        for resource_class, amount in group.resources.items():
            found.setdefault(resource_class, []).append(amount)
    return found


def resource_classes(query: candidate.CandidateQuery) -> set[str]:
    """The requested resource classes."""
    return {name for group in query.groups for name in group.resources}


def traits(query: candidate.CandidateQuery) -> set[str]:
    """The required and forbidden traits."""
    found = set(query.root_required | query.root_forbidden)
    for group in query.groups:
        found.update(group.forbidden, *group.required)
    return found


class TooManySums(errors.PlacementError):
    """The groups of a query request a class in too many different sums."""


def _sums(resource_class: str, amounts: list[int]) -> tuple[int, ...]:
    """What one provider may have to supply: the sums of the amounts of any groups."""
    sums = {0}
    for amount in amounts:
        sums |= {each + amount for each in sums}
        if len(sums) > PER_CONSTRAINT * len(amounts) + 1:
            raise TooManySums(
                f"the {len(amounts)} groups with {resource_class} request more than"
                f" {PER_CONSTRAINT * len(amounts)} different sums of it: use groups with equal"
                " amounts, or a copy of the cloud in a database file (--os-placement-database)"
            )
    return tuple(sorted(sums - {0}))


def inventory_for(fitting: Iterable[int]) -> inventory.Inventory:
    """An inventory that has room for exactly these amounts, among those that were listed.

    A real inventory admits multiples of its step size between a minimum and a maximum; so the
    greatest common divisor of the fitting amounts separates them from the others.
    """
    amounts = tuple(fitting)
    return inventory.Inventory(
        max(amounts),
        min_unit=min(amounts),
        max_unit=max(amounts),
        step_size=math.gcd(*amounts),
    )


def pairs(listings: Listings) -> list[tuple[str, int]]:
    """``(resource class, amount)`` of every listing of resources."""
    return list(
        itertools.chain.from_iterable(
            ((name, amount) for amount in amounts) for name, amounts in listings.amounts.items()
        )
    )
