# SPDX-License-Identifier: Apache-2.0
"""The constraints of an allocation candidates query, one by one.

A query is the conjunction of its constraints. ``constraints_of`` lists them, ``without`` and
``with_amount`` give the query with some of them removed or reduced.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator

from osc_placement.model.candidate import CandidateQuery, RequestGroup


class Kind(enum.StrEnum):
    """What a constraint limits."""

    RESOURCES = "resources"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"
    MEMBER_OF = "member_of"
    NOT_MEMBER_OF = "not_member_of"
    IN_TREE = "in_tree"
    ROOT_REQUIRED = "root_required"
    ROOT_FORBIDDEN = "root_forbidden"
    ISOLATE = "group_policy"
    SAME_SUBTREE = "same_subtree"


#: The query parameter of each kind whose name differs, and the form of its value.
_FORMS = {
    Kind.FORBIDDEN: ("required", "!{}"),
    Kind.NOT_MEMBER_OF: ("member_of", "!{}"),
    Kind.ROOT_FORBIDDEN: ("root_required", "!{}"),
}


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Constraint:
    """One constraint; ``str`` gives it as a query parameter.

    ``names`` are the resource class, the trait or the alternative traits, the aggregate or the
    alternative aggregates, the provider, or the suffixes. ``amount`` is in units of the class,
    for RESOURCES only.
    """

    kind: Kind
    suffix: str = ""
    names: tuple[str, ...] = ()
    amount: int | None = None

    def __str__(self) -> str:
        parameter, form = _FORMS.get(self.kind, (str(self.kind), "{}"))
        return f"{parameter}{self.suffix}={form.format(self._value())}"

    def _value(self) -> str:
        if self.kind is Kind.RESOURCES:
            return f"{self.names[0]}:{self.amount}"
        if self.kind is Kind.ISOLATE:
            return "isolate"
        if self.kind is Kind.SAME_SUBTREE or len(self.names) == 1:
            return ",".join(self.names)
        return f"in:{','.join(self.names)}"


def constraints_of(query: CandidateQuery) -> list[Constraint]:
    """All constraints: of resources, of the other conditions of groups, and between groups."""
    constraints = [
        Constraint(Kind.RESOURCES, group.suffix, (name,), amount)
        for group in query.groups
        for name, amount in group.resources.items()
    ]
    for group in query.groups:
        constraints += _conditions(group)
    constraints += [
        Constraint(Kind.ROOT_REQUIRED, names=(name,)) for name in sorted(query.root_required)
    ]
    constraints += [
        Constraint(Kind.ROOT_FORBIDDEN, names=(name,)) for name in sorted(query.root_forbidden)
    ]
    if query.isolate and sum(1 for group in query.groups if group.suffix) > 1:
        constraints.append(Constraint(Kind.ISOLATE))
    constraints += [
        Constraint(Kind.SAME_SUBTREE, names=tuple(sorted(suffixes)))
        for suffixes in query.same_subtree
        if len(suffixes) > 1
    ]
    return list(dict.fromkeys(constraints))


def _conditions(group: RequestGroup) -> Iterator[Constraint]:
    suffix = group.suffix
    for any_of in group.required:
        yield Constraint(Kind.REQUIRED, suffix, tuple(sorted(any_of)))
    for name in sorted(group.forbidden):
        yield Constraint(Kind.FORBIDDEN, suffix, (name,))
    for any_of in group.member_of:
        yield Constraint(Kind.MEMBER_OF, suffix, tuple(sorted(any_of)))
    for name in sorted(group.forbidden_aggregates):
        yield Constraint(Kind.NOT_MEMBER_OF, suffix, (name,))
    if group.in_tree is not None:
        yield Constraint(Kind.IN_TREE, suffix, (group.in_tree,))


def without(query: CandidateQuery, removed: Collection[Constraint]) -> CandidateQuery:
    """The query without some constraints.

    A group that loses its last resources, or without resources its last condition, is removed.
    """
    groups = []
    for group in query.groups:
        kept = _group_without(group, removed)
        # Without resources, a condition selects the provider.
        selects = not group.resources and (kept.required or kept.member_of)
        if kept == group or kept.resources or selects:
            groups.append(kept)
    suffixes = frozenset(group.suffix for group in groups)
    subtrees = [
        part
        for names in query.same_subtree
        for part in _subtree_without(query, names & suffixes, names, removed)
    ]
    return dataclasses.replace(
        query,
        groups=tuple(groups),
        isolate=query.isolate and Constraint(Kind.ISOLATE) not in removed,
        same_subtree=tuple(subtrees),
        root_required=_left(query.root_required, Kind.ROOT_REQUIRED, "", removed),
        root_forbidden=_left(query.root_forbidden, Kind.ROOT_FORBIDDEN, "", removed),
    )


def _subtree_without(
    query: CandidateQuery,
    left: frozenset[str],
    names: frozenset[str],
    removed: Collection[Constraint],
) -> Iterator[frozenset[str]]:
    """The groups of a same_subtree that are left; each alone if the constraint is removed.

    Placement refuses a group without resources that is in no same_subtree.
    """
    if Constraint(Kind.SAME_SUBTREE, names=tuple(sorted(names))) not in removed:
        if left:
            yield left
        return
    for group in query.groups:
        if group.suffix in left and not group.resources:
            yield frozenset({group.suffix})


def _group_without(group: RequestGroup, removed: Collection[Constraint]) -> RequestGroup:
    suffix = group.suffix
    return dataclasses.replace(
        group,
        resources={
            name: amount
            for name, amount in group.resources.items()
            if Constraint(Kind.RESOURCES, suffix, (name,), amount) not in removed
        },
        required=_sets_left(group.required, Kind.REQUIRED, suffix, removed),
        forbidden=_left(group.forbidden, Kind.FORBIDDEN, suffix, removed),
        member_of=_sets_left(group.member_of, Kind.MEMBER_OF, suffix, removed),
        forbidden_aggregates=_left(group.forbidden_aggregates, Kind.NOT_MEMBER_OF, suffix, removed),
        in_tree=None
        if group.in_tree and Constraint(Kind.IN_TREE, suffix, (group.in_tree,)) in removed
        else group.in_tree,
    )


def _left(
    names: Iterable[str], kind: Kind, suffix: str, removed: Collection[Constraint]
) -> frozenset[str]:
    return frozenset(name for name in names if Constraint(kind, suffix, (name,)) not in removed)


def _sets_left(
    sets: Iterable[frozenset[str]], kind: Kind, suffix: str, removed: Collection[Constraint]
) -> tuple[frozenset[str], ...]:
    return tuple(
        any_of for any_of in sets if Constraint(kind, suffix, tuple(sorted(any_of))) not in removed
    )


def with_amount(query: CandidateQuery, constraint: Constraint, amount: int) -> CandidateQuery:
    """The query with another amount for one RESOURCES constraint; 0 removes it."""
    if amount == 0:
        return without(query, {constraint})
    groups = tuple(
        dataclasses.replace(group, resources={**group.resources, constraint.names[0]: amount})
        if group.suffix == constraint.suffix
        else group
        for group in query.groups
    )
    return dataclasses.replace(query, groups=groups)
