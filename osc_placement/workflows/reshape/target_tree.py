# SPDX-License-Identifier: Apache-2.0
"""The moves that lead to a target tree, and the documents that a template has for each tree. Pure.

What a target tree does not give stays. A provider of the present tree that is not in the target
tree is deleted, and its resources move to providers that have more of them in the target tree. A
template is one document for many trees, with ``$root`` for the name of each tree's root.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.workflows.reshape import documents, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A document for some trees; ``root`` is None for a document that is not a template."""

    document: documents.Document
    trees: snapshot.TreeSnapshot
    root: provider.Provider | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the tree of a root has no inventory that the document moves."""
        offered = {
            (text, resource_class)
            for uuid, node in self.trees.inside.items()
            for text in (node.provider.name, uuid)
            for resource_class in node.inventories
        }
        moves = self.document.moves
        return self.root is not None and not any(
            (move.source, name) in offered for move in moves for name in move.resources
        )


def parts(
    document: documents.Document | documents.Tree,
    roots: Collection[provider.Provider],
    before: snapshot.TreeSnapshot,
) -> Iterator[Part]:
    """The part of each root, by name; one part without roots.

    Errors: InvalidInput for a target tree that cannot be reached, and for evidence on a consumer
    without an allocation in any of the trees.
    """
    if isinstance(document, documents.Tree):
        yield Part(moves(document, before), before)
        return
    if not roots:
        yield Part(document, before)
        return
    errors.InputErrors(
        f"{document.at(item.line)}consumer {item.consumer} has no allocation in the selected trees"
        for item in document.assign
        if item.consumer not in before.consumers
    ).check()
    trees = before.split()
    for root in sorted(roots, key=lambda item: (item.name, item.uuid)):
        tree = trees[root.root_uuid or root.uuid]
        filled = fill(document, root.name)
        own = tuple(item for item in filled.assign if item.consumer in tree.consumers)
        yield Part(dataclasses.replace(filled, assign=own), tree, root)


def is_template(document: documents.Document) -> bool:
    """Whether a document contains ``$root``."""
    return fill(document, "") != document


def fill(document: documents.Document, root: str) -> documents.Document:
    """The document for the tree of one root, named ``root``."""
    filled: documents.Document = _fill(document, root)
    return dataclasses.replace(filled, source=document.source)


def _fill(part: Any, root: str) -> Any:
    if isinstance(part, str):
        for word in documents.ROOT_WORDS:
            part = part.replace(word, root)
        return part
    if isinstance(part, tuple):
        return tuple(_fill(item, root) for item in part)
    if isinstance(part, dict):
        return {_fill(key, root): _fill(value, root) for key, value in part.items()}
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return type(part)(**{key: _fill(value, root) for key, value in fields.items()})
    return part


def moves(tree: documents.Tree, before: snapshot.TreeSnapshot) -> documents.Document:
    """The document that changes the present tree to the target tree.

    Errors: InvalidInput if the root does not exist, or if the totals differ.
    """
    first = tree.descriptions[0]
    root = _find(first, before)
    if root is None or before.nodes[root].provider.parent_uuid is not None:
        what = "the root provider is missing" if root is None else "not a root provider:"
        raise errors.InvalidInput([f"{tree.source}: {what} {first.text!r}"])
    present = {item.text: _find(item, before) for item in tree.descriptions}
    kept = set(present.values())
    deleted = [uuid for uuid in before.inside if before.root_of(uuid) == root and uuid not in kept]
    items = [_with_removals(item, before) for item in tree.descriptions]
    items += [_without_inventories(before.nodes[uuid]) for uuid in deleted]
    deficits = _deficits(items, before)
    _check_sums(tree, deficits)
    listed = tuple(_moves(tree, deficits))
    return documents.Document(
        moves=listed,
        providers=tuple(items),
        # The same file a second time moves nothing, and its evidence has no use.
        assign=tree.assign if listed else (),
        rename=tuple(
            documents.Named(uuid, item.name, item.line)
            for item in tree.descriptions
            if (uuid := present[item.text]) and before.name_of(uuid) != item.name
        ),
        delete=tuple(documents.Named(uuid) for uuid in deleted),
        source=tree.source,
    )


def _find(item: documents.ProviderDescription, before: snapshot.TreeSnapshot) -> str | None:
    if item.uuid:
        return item.uuid if item.uuid in before.nodes else None
    uuids = (uuid for uuid, node in before.inside.items() if node.provider.name == item.name)
    return next(uuids, None)


def _present(
    item: documents.ProviderDescription, before: snapshot.TreeSnapshot
) -> inventory.Inventories:
    uuid = _find(item, before)
    return before.nodes[uuid].inventories if uuid is not None else {}


def _with_removals(
    item: documents.ProviderDescription, before: snapshot.TreeSnapshot
) -> documents.ProviderDescription:
    """The provider with a total of 0 for each class that its inventories leave out."""
    if "inventories" not in item.only:
        return item
    removed = {name: {"total": 0} for name in sorted(_present(item, before))}
    return dataclasses.replace(item, inventories={**removed, **item.inventories})


def _without_inventories(node: snapshot.Node) -> documents.ProviderDescription:
    removed = {name: {"total": 0} for name in sorted(node.inventories)}
    item = node.provider
    return documents.ProviderDescription(item.name, item.uuid, inventories=removed, described=True)


#: ``{class: {provider: the amount that it lacks}}``; negative for a surplus.
_Deficits = dict[str, dict[str, int]]


def _deficits(
    items: Iterable[documents.ProviderDescription], before: snapshot.TreeSnapshot
) -> _Deficits:
    """The differences between the present and the target tree, in the order of the file."""
    deficits: _Deficits = {}
    for item in items:
        present = _present(item, before)
        for name, fields in item.inventories.items():
            was = present[name].total if name in present else 0
            if lacking := int(fields.get("total", was)) - was:
                deficits.setdefault(name, {})[item.text] = lacking
    return dict(sorted(deficits.items()))


def _check_sums(tree: documents.Tree, deficits: _Deficits) -> None:
    errors.InputErrors(
        f"{tree.source}: the target tree has {abs(sum(of.values()))} {name}"
        f" {'more' if sum(of.values()) > 0 else 'less'} than the present tree: a reshape moves"
        f" resources and keeps their sum, without change_totals: [{name}]. A provider without"
        " inventories in the file keeps what it has (inventories: {} for none)"
        for name, of in deficits.items()
        if sum(of.values()) and name not in tree.change_totals
    ).check()


def _moves(tree: documents.Tree, deficits: _Deficits) -> Iterator[documents.ResourceMove]:
    """Moves from providers with a surplus to providers with a deficit, in the tree's order."""
    items = {item.text: item for item in tree.descriptions}
    for name, of in deficits.items():
        for source, text, amount in _pair(of):
            to = documents.ProviderDescription(items[text].name, items[text].uuid)
            yield documents.ResourceMove(source, {name: amount}, to, line=items[text].line)


def _pair(deficits: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """``(from, to, amount)``: the first surplus goes to the first deficit."""
    left = {text: amount for text, amount in deficits.items() if amount > 0}
    for source, amount in deficits.items():
        surplus = -amount
        for text in list(left):
            moved = min(max(surplus, 0), left[text])
            if moved:
                yield source, text, moved
                surplus -= moved
                left[text] -= moved
