# SPDX-License-Identifier: Apache-2.0
"""The files of ``placement reshape`` as values: documents of moves, and target trees.

They name providers by name or UUID as the operator wrote them. ``line`` is the line in the file,
for errors that are found later.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import jsonschema

from osc_placement import errors
from osc_placement.model import name, yaml_lines

#: ``{field: value}`` of an inventory; only the fields that the operator gave.
Fields = Mapping[str, int | float]

#: In ``resources``: the whole total.
ALL = "all"

#: A parent that is not given: the provider that the resources come from.
DEFAULT_PARENT = ""

#: A template has these for the name of each tree's root.
ROOT_WORDS = ("${root}", "$root")


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderDescription:
    """A provider in a file: an existing one, or a described one.

    A ``described`` provider is created if it does not exist. ``parent`` None means a root.
    ``traits`` and ``aggregates`` are added, or replace those of the provider where ``only`` lists
    them; of a target tree it also lists ``inventories``. ``inventories`` has fields per class;
    ``total`` is the total after the moves, and 0 removes the inventory.
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


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceMove:
    """Amounts of some classes that move from one provider to another.

    ``resources`` is ``{resource class: amount, or ALL}``; ``classes`` is ``{resource class: new
    class}`` for classes that change.
    """

    source: str
    resources: Mapping[str, int | str]
    to: ProviderDescription
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerEvidence:
    """The known options of a consumer: ``{resource class, or "" for all: option}``.

    An option is given as a provider, or as the new class of the resources. ``parts`` is
    ``{resource class: {option: amount}}`` for a consumer that is split.
    """

    consumer: str
    options: Mapping[str, str]
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
    """A document of moves; ``source`` is the file's name. Renames come first, deletions last.

    ``providers`` are described without a move.
    """

    moves: tuple[ResourceMove, ...] = ()
    providers: tuple[ProviderDescription, ...] = ()
    assign: tuple[ConsumerEvidence, ...] = ()
    rename: tuple[Named, ...] = ()
    delete: tuple[Named, ...] = ()
    source: str = ""

    @property
    def descriptions(self) -> tuple[ProviderDescription, ...]:
        """All providers that resources move to or that are described."""
        return (*self.providers, *(move.to for move in self.moves))

    @property
    def names(self) -> list[str]:
        """The names and UUIDs that may belong to existing providers, without ``$root``."""
        texts = [move.source for move in self.moves]
        for item in self.descriptions:
            texts += (item.uuid, item.name, item.parent or "")
        for named in (*self.rename, *self.delete):
            texts += (named.text, named.name)
        return [
            text
            for text in dict.fromkeys(texts)
            if text and not any(word in text for word in ROOT_WORDS)
        ]

    @property
    def classes(self) -> set[str]:
        """The classes that the trees may not have: new ones of resources, and given totals."""
        with_total = {
            resource_class
            for item in self.descriptions
            for resource_class, fields in item.inventories.items()
            if fields.get("total")
        }
        return with_total.union(*(move.classes.values() for move in self.moves))

    def at(self, line: int) -> str:
        """The location of a line, as the beginning of an error message."""
        return f"{self.source}:{line}: " if line else f"{self.source}: "


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The providers of a target tree, parents before children; the first one is the root.

    ``change_totals``: the classes whose sum may differ from that of the present tree.
    """

    descriptions: tuple[ProviderDescription, ...]
    assign: tuple[ConsumerEvidence, ...] = ()
    source: str = ""
    change_totals: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names or UUIDs of the providers."""
        return [item.text for item in self.descriptions]

    @property
    def classes(self) -> set[str]:
        """The classes that the present tree may not have."""
        return set(self.change_totals)


def parse(text: str, source: str) -> Document:
    """Read a document of moves; ``source`` is its name in messages.

    Errors: InvalidInput with all errors, each with its line.
    """
    read = _load(text, source, "moves")
    data: Mapping[str, Any] = read.data
    assign, reasons = _evidence(read, source)
    document = Document(
        tuple(
            ResourceMove(
                _text(move["from"]),
                move["resources"],
                _description(move["to"], read.line("moves", at, "to")),
                move.get("as", {}),
                read.line("moves", at),
            )
            for at, move in enumerate(data["moves"])
        ),
        tuple(
            _description(item, read.line("providers", at))
            for at, item in enumerate(data.get("providers", ()))
        ),
        assign,
        tuple(
            Named(_text(old), new, read.line("rename", old))
            for old, new in data.get("rename", {}).items()
        ),
        tuple(
            Named(_text(item), line=read.line("delete", at))
            for at, item in enumerate(data.get("delete", ()))
        ),
        source,
    )
    reasons += [
        f"{document.at(move.line)}as: {resource_class} is not among the resources"
        for move in document.moves
        for resource_class in sorted(move.classes.keys() - move.resources.keys())
    ]
    errors.InputErrors([*reasons, *_invalid(document.descriptions, source)]).check()
    return document


def parse_tree(text: str, source: str) -> Tree:
    """Read a target tree. Errors: InvalidInput with all errors, each with its line."""
    read = _load(text, source, "tree")
    assign, reasons = _evidence(read, source)
    items = tuple(_descriptions(read.data["tree"], None, ("tree",), read))
    names = [item.name for item in items]
    reasons += [
        f"{source}: the tree has more than one {twice!r}"
        for twice in sorted({twice for twice in names if names.count(twice) > 1})
    ]
    errors.InputErrors([*reasons, *_invalid(items, source)]).check()
    return Tree(items, assign, source, frozenset(read.data.get("change_totals", ())))


@functools.cache
def schema(kind: str) -> Mapping[str, Any]:
    """The JSON schema of a document of ``moves``, or of a ``tree``."""
    text = (resources.files(__package__) / f"{kind}.schema.json").read_text("utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def _load(text: str, source: str, kind: str) -> yaml_lines.Data:
    """Read a text and hold it against a schema."""
    read = yaml_lines.load(text, source)
    entries = {
        (read.line(*error.absolute_path), f"{error.json_path.removeprefix('$.')}: {error.message}")
        for error in jsonschema.Draft202012Validator(schema(kind)).iter_errors(read.data)
    }
    errors.InputErrors(f"{source}:{line}: {what}" for line, what in sorted(entries)).check()
    return read


def _text(text: str) -> str:
    """A name, or a UUID in its usual form."""
    return name.canonical_uuid(text) if name.is_uuid(text) else text


def _evidence(read: yaml_lines.Data, source: str) -> tuple[tuple[ConsumerEvidence, ...], list[str]]:
    """The optional part ``assign``; and an error per consumer that is listed twice."""
    reasons = []
    by_consumer: dict[str, ConsumerEvidence] = {}
    for text, entry in read.data.get("assign", {}).items():
        consumer, line = name.canonical_uuid(text), read.line("assign", text)
        if consumer in by_consumer:
            reasons.append(f"{source}:{line}: consumer {consumer} is listed twice")
        by_class = {"": entry} if isinstance(entry, str) else entry
        options = {key: _text(value) for key, value in by_class.items() if isinstance(value, str)}
        parts = {key: value for key, value in by_class.items() if not isinstance(value, str)}
        by_consumer[consumer] = ConsumerEvidence(consumer, options, line, parts)
    return tuple(by_consumer.values()), reasons


def _description(data: str | Mapping[str, Any], line: int) -> ProviderDescription:
    """A provider as a document names or describes it."""
    if isinstance(data, str):
        return ProviderDescription(_text(data), line=line)
    parent = data.get("parent", DEFAULT_PARENT)
    return ProviderDescription(
        data.get("name", ""),
        _text(data.get("uuid", "")),
        parent and _text(parent),
        tuple(data.get("traits", ())),
        tuple(data.get("aggregates", ())),
        data.get("inventories", {}),
        described=True,
        line=line,
    )


def _descriptions(
    data: Mapping[str, Any], parent: str | None, path: yaml_lines.Path, read: yaml_lines.Data
) -> Iterator[ProviderDescription]:
    """The providers of a target tree."""
    inventories = {
        key: {"total": fields} if isinstance(fields, int) else fields
        for key, fields in data.get("inventories", {}).items()
    }
    item = dataclasses.replace(
        _description({**data, "inventories": inventories}, read.line(*path)),
        parent=parent,
        only=frozenset({"traits", "aggregates", "inventories"} & data.keys()),
    )
    yield item
    for at, child in enumerate(data.get("children", ())):
        yield from _descriptions(child, item.text, (*path, "children", at), read)


def _invalid(items: tuple[ProviderDescription, ...], source: str) -> Iterator[str]:
    """What the schema does not find."""
    for item in items:
        where = f"{source}:{item.line}: "
        if not item.text:
            yield f"{where}a provider has neither a name nor a uuid"
        for trait in item.traits:
            if not name.is_symbol(trait):
                yield f"{where}{trait!r} is not a trait name"
        for text in item.aggregates:
            if not name.is_uuid(text):
                yield f"{where}aggregate {text!r} is not a UUID"
