"""What is asked of an allocation candidates query.

The client writes a query string from these values, the reference server reads one into
them, and the engine's search answers them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class RequestGroup:
    """One request group: resources that a single provider (or, unsuffixed, a tree) must give.

    ``required`` and ``member_of`` are conjunctions of alternatives: of each inner set at
    least one must be there. ``suffix`` is empty for the unsuffixed group.
    """

    suffix: str = ""
    resources: Mapping[str, int] = dataclasses.field(default_factory=dict)
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CandidateQuery:
    """A whole query: its groups, and what binds them together.

    ``same_subtree`` holds sets of suffixes; ``isolate`` is group_policy=isolate;
    ``limit`` is None for all. ``nested`` tells whether trees below the root take part
    (microversion 1.29): without it a candidate is one provider, and what sharing
    providers of its aggregates add.
    """

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    same_subtree: tuple[frozenset[str], ...] = ()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    limit: int | None = None
    nested: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One answer: what would be allocated where, in the tree of ``root_uuid``.

    ``mappings`` is ``{suffix: (provider uuid, …)}``: which providers satisfy which group.
    """

    root_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]]
