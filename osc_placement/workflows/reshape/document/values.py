"""What an operator wants to be moved, as values. ``document`` reads them from a file.

Providers are called by their names or UUIDs here, as the operator wrote them; ``line``
says where, for faults that only show beside the cloud.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

#: ``{field: value}`` of an inventory, as far as the operator says.
Fields = Mapping[str, int | float]

#: Stands in ``resources`` for all that there is.
ALL = "all"

#: A parent that nobody spoke of: the provider that resources come from.
UNSAID = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where resources go: a provider that is there, or one that is described.

    ``described`` tells whether it may be made. ``parent`` None makes a root of it.
    ``traits`` and ``aggregates`` are added to what it has, or are all that it keeps where
    ``only`` names them; ``inventories`` are fields by class for what it gets.
    """

    name: str
    uuid: str = ""
    parent: str | None = UNSAID
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    inventories: Mapping[str, Fields] = dataclasses.field(default_factory=dict)
    described: bool = False
    only: frozenset[str] = frozenset()
    line: int = 0

    @property
    def text(self) -> str:
        """What it is found by."""
        return self.uuid or self.name


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """Amounts of some classes, from one provider to another.

    ``resources`` is ``{resource class: amount, or ALL}``; ``classes`` is ``{resource class:
    what it is from then on}`` for those that change.
    """

    source: str
    resources: Mapping[str, int | str]
    target: Target
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """Where a consumer really is: ``{resource class, or "" for all: target}``.

    A target is called by its provider, or by the class that its resources get. ``parts`` is
    ``{resource class: {target: amount}}``, where a consumer is on several.
    """

    consumer: str
    targets: Mapping[str, str]
    line: int = 0
    parts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A provider that the operator called by name, and a new name where it gets one."""

    text: str
    name: str = ""
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """All of it. ``source`` is the file's name. Renames come first, deletions last.

    ``providers`` are described beside the moves.
    """

    moves: tuple[Move, ...] = ()
    providers: tuple[Target, ...] = ()
    assign: tuple[Evidence, ...] = ()
    rename: tuple[Named, ...] = ()
    delete: tuple[Named, ...] = ()
    source: str = ""

    def replace(self, **fields: Any) -> Document:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)

    def at(self, line: int) -> str:
        """Where a line stands, as the beginning of a fault."""
        return f"{self.source}:{line}: " if line else f"{self.source}: "
