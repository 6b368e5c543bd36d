"""What some queries for allocation candidates read of a database file.

Reading the whole file takes seconds for 10,000 hosts. Many rows have equal texts, which are parsed
once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import orjson

from osc_placement.engine import record, standard
from osc_placement.model import inventory
from osc_placement.server.store import document

#: The consumer of everything that is used.
USAGE = "usage"

#: Different texts of one column that are kept.
_TEXTS = 65_536


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """All providers with their aggregates, but only these resource classes and traits.

    One consumer has the sums of all allocations. Providers keep the trait of sharing providers.
    """

    resource_classes: frozenset[str]
    traits: frozenset[str]


class PartReader:
    """The records of a part, from rows of the file."""

    def __init__(self, part: Part) -> None:
        self._classes = part.resource_classes
        self._traits = part.traits | {standard.SHARING_TRAIT}
        self._inventories_of = functools.lru_cache(_TEXTS)(self._read_inventories)
        self._traits_of = functools.lru_cache(_TEXTS)(self._read_traits)
        self._aggregates_of = functools.lru_cache(_TEXTS)(self._read_aggregates)

    def provider(self, row: tuple[Any, ...]) -> record.ProviderRecord:
        """The part of a provider. Raises TypeError or ValueError for a damaged row."""
        uuid, name, generation, root_uuid, parent_uuid, inventories, traits, aggregates, at = row
        return record.ProviderRecord(
            uuid,
            name,
            root_uuid,
            parent_uuid,
            generation,
            self._inventories_of(inventories),
            self._traits_of(traits),
            self._aggregates_of(aggregates),
            at,
        )

    def usage(
        self, rows: Iterable[tuple[str, str]], problems: list[str]
    ) -> dict[str, record.ConsumerRecord]:
        """One consumer with the sums, from ``(uuid, allocations)`` of all consumers."""
        used: dict[str, dict[str, int]] = {}
        for uuid, text in rows:
            try:
                for provider_uuid, resources in orjson.loads(text).items():
                    for name, amount in resources.items():
                        if name in self._classes:
                            sums = used.setdefault(provider_uuid, {})
                            sums[name] = sums.get(name, 0) + amount
            except (TypeError, ValueError, AttributeError) as error:
                problems.append(f"table consumer, row {uuid!r}: {document.reason(error)}")
        return {USAGE: record.ConsumerRecord(USAGE, 0, "", "", used)} if used else {}

    def _read_inventories(self, text: str) -> inventory.Inventories:
        return {
            name: document.inventory_of(name, fields)
            for name, fields in orjson.loads(text).items()
            if name in self._classes
        }

    def _read_traits(self, text: str) -> frozenset[str]:
        return self._traits.intersection(orjson.loads(text))

    def _read_aggregates(self, text: str) -> tuple[str, ...]:
        return tuple(orjson.loads(text))
