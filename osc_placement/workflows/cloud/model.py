"""What is known of a cloud for one query, as a state of the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from osc_placement.engine import record, state
from osc_placement.model import candidate


@dataclasses.dataclass(frozen=True, slots=True)
class CloudModel:
    """A state of the engine that answers ``query``, and every query with fewer constraints, as
    the cloud does.

    ``is_complete``: the state has every record of the cloud. Otherwise it has all providers, but
    only the traits and aggregates of the query; and an inventory only tells which of the query's
    amounts fit, except those of the trees in ``read`` (root UUIDs), which are the real ones. A set
    of alternative traits or aggregates is then one name, ``in:A,B``, in ``query`` and in the state
    (a second one for sharing providers in the aggregates).
    """

    state: state.State
    query: candidate.CandidateQuery
    is_complete: bool = True
    read: frozenset[str] = frozenset()

    def has_amounts(self, root_uuid: str) -> bool:
        """Whether the inventories of a tree are the real ones."""
        return self.is_complete or root_uuid in self.read

    def roots(self) -> list[record.ProviderRecord]:
        """The root of every tree, in order of creation."""
        return [each for each in self.state.providers.values() if each.root_uuid == each.uuid]

    def names(self, uuids: Iterable[str]) -> list[str]:
        """The names of providers."""
        return [self.state.providers[uuid].name for uuid in uuids]
