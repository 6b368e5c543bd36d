"""Columns and rows of several commands.

A column of upstream's commands keeps its name and JSON type. New structured values are
FormattableColumns: text in a table, data in JSON.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cliff import columns

from osc_placement import microversion
from osc_placement.client import api_errors
from osc_placement.model import inventory
from osc_placement.v1.output import cells

if TYPE_CHECKING:
    from osc_placement.model import allocation, provider

Row = tuple[Any, ...]

PROVIDER = ("uuid", "name", "generation")
TREE = ("root_provider_uuid", "parent_provider_uuid")


class Lines(columns.FormattableColumn[Any]):
    """A list; a table shows one item per line."""

    def human_readable(self) -> str:
        return "\n".join(str(item) for item in self._value)


class Described(columns.FormattableColumn[Any]):
    """``{field: value}``; a table shows a text for people, one line per part (``; ``)."""

    def __init__(self, fields: Mapping[str, Any], text: str) -> None:
        super().__init__(dict(fields))
        self._text = text

    def human_readable(self) -> str:
        return "\n".join(self._text.split("; "))


class Amounts(columns.FormattableColumn[Any]):
    """``{name: value}``; a table shows ``NAME=VALUE``, one per line."""

    def human_readable(self) -> str:
        return "\n".join(f"{name}={value}" for name, value in self._value.items())


class Usages(columns.FormattableColumn[Any]):
    """``{resource class: amount}``, or a used amount and a capacity instead of an amount.

    A table shows ``VGPU=1`` or ``VGPU=used/capacity``.
    """

    def human_readable(self) -> str:
        if self._value is None:
            return "-"
        return "\n".join(f"{name}={_usage(value)}" for name, value in self._value.items())


def _usage(value: Mapping[str, int] | int) -> str:
    return f"{value['used']}/{value['capacity']}" if isinstance(value, Mapping) else str(value)


class InventoryTotals(columns.FormattableColumn[Any]):
    """``{resource class: inventory}``; a table shows the totals."""

    def human_readable(self) -> str:
        return "\n".join(f"{name}={fields['total']}" for name, fields in self._value.items())


class Mappings(columns.FormattableColumn[Any]):
    """``{suffix: [provider uuid]}``; a table shows ``suffix=uuid``, and '-' for no suffix."""

    def human_readable(self) -> str:
        return "\n".join(
            f"{suffix or '-'}={','.join(uuids)}" for suffix, uuids in self._value.items()
        )


def provider_columns(version: microversion.Microversion) -> tuple[str, ...]:
    """The columns of a provider: from 1.14 with its root and parent."""
    nested = microversion.supports(version, "nested providers")
    return PROVIDER + TREE if nested else PROVIDER


def provider_row(item: provider.Provider, version: microversion.Microversion) -> Row:
    """The values of ``provider_columns``."""
    row = (item.uuid, item.name, item.generation)
    if microversion.supports(version, "nested providers"):
        return (*row, item.root_uuid, item.parent_uuid)
    return row


INVENTORY = inventory.FIELDS


def inventory_rows(inventories: inventory.Inventories) -> list[Row]:
    """``(resource class, …)`` with the fields of INVENTORY."""
    return [(name, *inventory_row(item)) for name, item in inventories.items()]


def inventory_row(item: inventory.Inventory) -> Row:
    """The values of INVENTORY."""
    return tuple(item.as_dict()[field] for field in INVENTORY)


def usage_rows(usages: Mapping[str, int]) -> list[Row]:
    """``(resource class, amount)``."""
    return list(usages.items())


ALLOCATION = ("resource_provider", "generation", "resources")


def allocation_columns(version: microversion.Microversion) -> tuple[str, ...]:
    """The columns of a consumer's allocations: from 1.12 with owner, from 1.38 with type."""
    names: tuple[str, ...] = ALLOCATION
    if microversion.supports(version, "allocation dict form"):
        names += ("project_id", "user_id")
    if microversion.supports(version, "consumer types"):
        names += ("consumer_type",)
    return names


def allocation_rows(
    consumer: allocation.Consumer,
    generations: Mapping[str, int],
    version: microversion.Microversion,
) -> list[Row]:
    """One row per provider; ``generations`` is ``{provider uuid: generation}``."""
    owner: Row = ()
    if microversion.supports(version, "allocation dict form"):
        owner += (consumer.project_id, consumer.user_id)
    if microversion.supports(version, "consumer types"):
        owner += (consumer.consumer_type,)
    return [
        (uuid, generations.get(uuid), cells.PythonText(dict(resources)), *owner)
        for uuid, resources in consumer.allocations.items()
    ]


def names(items: Iterable[str]) -> list[Row]:
    """One column."""
    return [(item,) for item in items]


def updated(items: Iterable[str], when: Callable[[str], str | None]) -> list[Row]:
    """``(name, time of the last change)``; names deleted during the command are omitted."""
    data: list[Row] = []
    for item in items:
        with contextlib.suppress(api_errors.NotFound):
            data.append((item, when(item)))
    return data
