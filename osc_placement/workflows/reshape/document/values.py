"""The parts of a document of moves, as values.

They name providers by name or UUID as the operator wrote them. ``line`` is the line in the file,
for errors that are found later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: ``{field: value}`` of an inventory; only the fields that the operator gave.
Fields = Mapping[str, int | float]

#: In ``resources``: the whole total.
ALL = "all"

#: A parent that is not given: the provider that the resources come from.
DEFAULT_PARENT = ""

#: A template has these for the name of each tree's root.
ROOT_WORDS = ("${root}", "$root")


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The provider that resources move to: an existing one, or a described one.

    A ``described`` provider is created if it does not exist. ``parent`` None means a root.
    ``traits`` and ``aggregates`` are added, or replace those of the provider where ``only`` lists
    them. ``inventories`` has fields per class; ``total`` is the total after the moves, and 0
    removes the inventory.
    """

    name: str
    uuid: str = ""
    parent: str | None = DEFAULT_PARENT
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    inventories: Mapping[str, Fields] = dataclasses.field(default_factory=dict)
    described: bool = False
    only: frozenset[str] = frozenset()
    line: int = 0

    @property
    def text(self) -> str:
        """The UUID or name that identifies it."""
        return self.uuid or self.name

    @property
    def names(self) -> tuple[str, ...]:
        """All names and UUIDs in it."""
        return self.uuid, self.name, self.parent or ""


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """Amounts of some classes that move from one provider to another.

    ``resources`` is ``{resource class: amount, or ALL}``; ``classes`` is ``{resource class: new
    class}`` for classes that change.
    """

    source: str
    resources: Mapping[str, int | str]
    target: Target
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """The known targets of a consumer: ``{resource class, or "" for all: target}``.

    A target is given as a provider, or as the new class of the resources. ``parts`` is
    ``{resource class: {target: amount}}`` for a consumer with several targets.
    """

    consumer: str
    targets: Mapping[str, str]
    line: int = 0
    parts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A provider to rename or delete; ``name`` is the new name."""

    text: str
    name: str = ""
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A whole document; ``source`` is the file's name. Renames come first, deletions last.

    ``providers`` are described without a move.
    """

    moves: tuple[Move, ...] = ()
    providers: tuple[Target, ...] = ()
    assign: tuple[Evidence, ...] = ()
    rename: tuple[Named, ...] = ()
    delete: tuple[Named, ...] = ()
    source: str = ""

    @property
    def targets(self) -> tuple[Target, ...]:
        """All providers that resources move to or that are described."""
        return (*self.providers, *(move.target for move in self.moves))

    @property
    def names(self) -> list[str]:
        """The names and UUIDs that may belong to existing providers, without ``$root``."""
        found = [move.source for move in self.moves]
        found += [text for target in self.targets for text in target.names]
        for named in (*self.rename, *self.delete):
            found += [named.text, named.name]
        return [
            text
            for text in dict.fromkeys(found)
            if text and not any(word in text for word in ROOT_WORDS)
        ]

    @property
    def classes(self) -> set[str]:
        """The classes that the trees may not have: new ones of resources, and given totals."""
        given = {
            name
            for target in self.targets
            for name, fields in target.inventories.items()
            if fields.get("total")
        }
        return given | {name for move in self.moves for name in move.classes.values()}

    def at(self, line: int) -> str:
        """The location of a line, as the beginning of an error message."""
        return f"{self.source}:{line}: " if line else f"{self.source}: "
