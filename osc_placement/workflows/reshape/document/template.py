"""Templates: one document for many trees, with ``$root`` for the name of each tree's root. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.document import values


class Part(NamedTuple):
    """The document for one tree; None if the tree has no inventory that the document moves.

    ``root`` is None for a document that is not a template.
    """

    root: provider.Provider | None
    document: values.Document | None
    tree: snapshot.TreeSnapshot


def is_template(document: values.Document) -> bool:
    """Whether a document contains ``$root``."""
    return fill(document, "") != document


def fill(document: values.Document, root: str) -> values.Document:
    """The document for the tree of one root, named ``root``."""
    filled: values.Document = _fill(document, root)
    return dataclasses.replace(filled, source=document.source)


def for_trees(
    document: values.Document, roots: Iterable[provider.Provider], before: snapshot.TreeSnapshot
) -> Iterator[Part]:
    """The part of each root, by name.

    Errors: InvalidInput for evidence on a consumer without an allocation in any of the trees.
    """
    errors.InputErrors(
        f"{document.at(item.line)}consumer {item.consumer} has no allocation in the selected trees"
        for item in document.assign
        if item.consumer not in before.consumers
    ).check()
    trees = before.split()
    for root in sorted(roots, key=lambda each: (each.name, each.uuid)):
        tree = trees[root.root_uuid or root.uuid]
        yield Part(root, _for_tree(document, root.name, tree), tree)


def _for_tree(
    document: values.Document, root: str, tree: snapshot.TreeSnapshot
) -> values.Document | None:
    filled = fill(document, root)
    offered = {
        (text, resource_class)
        for uuid, node in tree.inside.items()
        for text in (node.provider.name, uuid)
        for resource_class in node.inventories
    }
    moved = {
        (move.source, resource_class) for move in filled.moves for resource_class in move.resources
    }
    own = tuple(each for each in filled.assign if each.consumer in tree.consumers)
    return dataclasses.replace(filled, assign=own) if offered & moved else None


def _fill(part: Any, root: str) -> Any:
    if isinstance(part, str):
        for word in values.ROOT_WORDS:
            part = part.replace(word, root)
        return part
    if isinstance(part, tuple):
        return tuple(_fill(each, root) for each in part)
    if isinstance(part, dict):
        return {_fill(key, root): _fill(value, root) for key, value in part.items()}
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return type(part)(**{name: _fill(value, root) for name, value in fields.items()})
    return part
