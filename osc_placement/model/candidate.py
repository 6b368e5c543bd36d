# SPDX-License-Identifier: Apache-2.0
"""Queries and results of GET /allocation_candidates.

The client formats a query string from these values, the reference server parses one into
them, and the engine's search evaluates them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple


@dataclasses.dataclass(frozen=True, slots=True)
class RequestGroup:
    """A request group: resources of one provider or, without a suffix, of one tree.

    ``required`` and ``member_of``: at least one element of each inner set must match.
    ``suffix`` is empty for the unsuffixed group.
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
    """A query: its groups, and the constraints between them.

    ``same_subtree`` holds sets of suffixes; ``isolate`` is group_policy=isolate;
    ``limit`` is None for all. ``nested`` (1.29) includes providers below the root: without
    it a candidate consists of one provider and sharing providers of its aggregates.
    """

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    same_subtree: tuple[frozenset[str], ...] = ()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    limit: int | None = None
    nested: bool = True


class Candidate(NamedTuple):
    """One allocation candidate in the tree of ``root_uuid``.

    ``allocations`` is ``{provider uuid: {resource class: amount}}``; ``mappings`` is
    ``{suffix: (provider uuid, ...)}``, the providers of each group.
    """

    root_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]]
