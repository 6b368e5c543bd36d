# SPDX-License-Identifier: Apache-2.0
"""Columns and rows of several commands.

A column of upstream's commands keeps its name and JSON type. New structured values are
FormattableColumns: text in a table, data in JSON.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cliff import columns

from osc_placement import microversion
from osc_placement.client import api_errors
from osc_placement.model import inventory

if TYPE_CHECKING:
    from osc_placement.model import allocation, provider
    from osc_placement.plan import result


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
        (uuid, generations.get(uuid), PythonText(dict(resources)), *owner)
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


_TEXT_FORMATS = {"csv", "table", "value"}


class Script(columns.FormattableColumn[Any]):
    """Lines for a shell: ``-f value`` prints them as they are."""

    def human_readable(self) -> str:
        return "\n".join(self._value)


class PythonText(columns.FormattableColumn[Any]):
    """A structure of upstream's commands: Python's text of it, but data in JSON and YAML."""

    def human_readable(self) -> str:
        return str(self._value)


def printable(text: str) -> str:
    """Text with escapes instead of control characters, which could change the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def printable_lines(text: str) -> str:
    """Text of several lines with escapes instead of other control characters."""
    return "\n".join(map(printable, text.split("\n")))


def format_rows(formatter: str, rows: Collection[Sequence[Any]]) -> Collection[Sequence[Any]]:
    """The rows for a formatter of cliff; JSON and YAML get the values."""
    return [format_row(formatter, row) for row in rows]


def format_row(formatter: str, row: Sequence[Any]) -> Sequence[Any]:
    """One row."""
    if formatter not in _TEXT_FORMATS:
        # YAML cannot represent a subclass of str.
        return tuple(str(cell) if isinstance(cell, str) else cell for cell in row)
    return tuple(_format(formatter, cell) for cell in row)


def _format(formatter: str, cell: Any) -> Any:
    if isinstance(cell, PythonText):
        return cell.human_readable()
    if formatter == "table":
        if not isinstance(cell, columns.FormattableColumn):
            return printable(cell) if isinstance(cell, str) else cell
        return printable_lines(str(cell.human_readable()))
    if isinstance(cell, Script) and formatter == "value":
        return printable_lines(cell.human_readable())
    if isinstance(cell, columns.FormattableColumn):
        cell = cell.machine_readable()
    if isinstance(cell, dict | list | tuple | bool):
        return json.dumps(cell)
    return printable(cell) if isinstance(cell, str) and formatter == "value" else cell


COLUMNS = ("name", "uuid", "before", "after", "status", "reason", "code")


class Facts(columns.FormattableColumn[Any]):
    """``{key: value}``; a table shows ``VCPU:total=4`` or ``no CUSTOM_A``, one fact per line."""

    def __init__(self, facts: Mapping[str, Any], lines: Iterable[str]) -> None:
        super().__init__(dict(facts))
        self._lines = lines

    def human_readable(self) -> str:
        return "\n".join(self._lines)


class Reasons(columns.FormattableColumn[str]):
    """Reasons, separated by semicolons; a table shows one reason per line, and their code."""

    def __init__(self, reasons: str, code: str = "") -> None:
        super().__init__(reasons)
        self._code = code

    def human_readable(self) -> str:
        lines = self._value.split("; ")
        return "\n".join([*lines, f"[{self._code}]"] if self._code else lines)


class ResultRows(Collection[Row]):
    """The values of COLUMNS for each result. ``names`` is ``{provider uuid: name}``.

    A row exists only while it is printed: those of 100,000 results need 100 MiB.
    """

    def __init__(self, results: Sequence[result.ChangeResult], names: Mapping[str, str]) -> None:
        self._results, self._names = results, names

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Row]:
        return (_row(item, self._names) for item in self._results)

    def __contains__(self, row: object) -> bool:
        return any(row == item for item in self)


def _row(item: result.ChangeResult, names: Mapping[str, str]) -> Row:
    """The column of the UUID is None for kinds whose subjects have only a name, such as traits."""
    from osc_placement.plan.kinds import registry

    return (
        item.subject.name,
        item.subject.uuid if registry.CHANGE_TYPES[item.kind].has_uuid else None,
        *_facts(item, names),
        str(item.status),
        Reasons(item.reason, item.code),
        str(item.code),
    )


def _facts(item: result.ChangeResult, names: Mapping[str, str]) -> tuple[Facts, Facts]:
    """The cells of both states; tables show names instead of UUIDs."""
    from osc_placement.plan.kinds import base, registry

    kind = registry.CHANGE_TYPES[item.kind]
    facts = registry.facts(item.kind, item.before, item.after)
    named = registry.facts(item.kind, item.before, item.after, names)
    return (
        Facts({fact.key: fact.before for fact in facts}, kind.describe(base.before_side(named))),
        Facts({fact.key: fact.after for fact in facts}, kind.describe(base.after_side(named))),
    )
