# SPDX-License-Identifier: Apache-2.0
"""The target tree of ``reshape --to-tree`` and templates: the moves that lead to them. Pure.

What a target tree does not give stays. A provider of the present tree that is not in the target
tree is deleted, and its resources move to providers that have more of them in the target tree. A
template is one document for many trees, with ``$root`` for the name of each tree's root.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import allocation, inventory, provider, yaml_lines
from osc_placement.workflows.reshape import documents, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The providers of a target tree, parents before children; the first one is the root.

    ``change_totals``: the classes whose sum may differ from that of the present tree.
    """

    targets: tuple[documents.MoveTarget, ...]
    assign: tuple[documents.ConsumerEvidence, ...] = ()
    source: str = ""
    change_totals: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names or UUIDs of the providers."""
        return [target.text for target in self.targets]

    @property
    def classes(self) -> set[str]:
        """The classes that the present tree may not have."""
        return set(self.change_totals)


def parse(text: str, source: str) -> Tree:
    """Read a target tree. Errors: InvalidInput with all errors, each with its line."""
    text_data = documents.load(text, source, documents.TREE)
    assign, reasons = documents.evidence(text_data, source)
    targets = tuple(_targets(text_data.data["tree"], None, ("tree",), text_data))
    for target in targets:
        reasons += documents.invalid_memberships(target, f"{source}:{target.line}: ")
    called = [target.name for target in targets]
    for name in sorted({name for name in called if called.count(name) > 1}):
        reasons.append(f"{source}: the tree has more than one {name!r}")
    errors.InputErrors(reasons).check()
    return Tree(targets, assign, source, frozenset(text_data.data.get("change_totals", ())))


def moves(tree: Tree, before: snapshot.TreeSnapshot) -> documents.Document:
    """The document that changes the present tree to the target tree.

    Errors: InvalidInput if the root does not exist, or if the totals differ.
    """
    first = tree.targets[0]
    root = _find(first, before)
    if root is None or before.nodes[root].provider.parent_uuid is not None:
        what = "the root provider is missing" if root is None else "not a root provider:"
        raise errors.InvalidInput([f"{tree.source}: {what} {first.text!r}"])
    kept = {_find(target, before) for target in tree.targets}
    deleted = [uuid for uuid in before.inside if before.root_of(uuid) == root and uuid not in kept]
    targets = [_with_removals(target, before) for target in tree.targets]
    targets += [_without_inventories(before.nodes[uuid]) for uuid in deleted]
    deficits = _deficits(targets, before)
    _check_sums(tree, before, deficits)
    listed = tuple(_moves(tree, deficits))
    return documents.Document(
        moves=listed,
        providers=tuple(targets),
        # The same file a second time moves nothing, and its evidence is already true.
        assign=tuple(item for item in tree.assign if listed or not _is_met(item, before)),
        rename=tuple(_renames(tree, before)),
        delete=tuple(documents.Named(uuid) for uuid in deleted),
        source=tree.source,
    )


def _targets(
    data: Mapping[str, Any], parent: str | None, path: yaml_lines.Path, text_data: yaml_lines.Data
) -> Iterator[documents.MoveTarget]:
    inventories = {
        name: {"total": fields} if isinstance(fields, int) else fields
        for name, fields in data.get("inventories", {}).items()
    }
    target = dataclasses.replace(
        documents.target({**data, "inventories": inventories}, text_data.line(*path)),
        parent=parent,
        only=frozenset({"traits", "aggregates", "inventories"} & data.keys()),
    )
    yield target
    for position, child in enumerate(data.get("children", ())):
        yield from _targets(child, target.text, (*path, "children", position), text_data)


def _find(target: documents.MoveTarget, before: snapshot.TreeSnapshot) -> str | None:
    if target.uuid:
        return target.uuid if target.uuid in before.nodes else None
    uuids = (uuid for uuid, node in before.inside.items() if node.provider.name == target.name)
    return next(uuids, None)


def _present(target: documents.MoveTarget, before: snapshot.TreeSnapshot) -> inventory.Inventories:
    uuid = _find(target, before)
    return before.nodes[uuid].inventories if uuid is not None else {}


def _is_met(item: documents.ConsumerEvidence, before: snapshot.TreeSnapshot) -> bool:
    """Whether a consumer uses its targets already, or is deleted."""
    if item.consumer not in before.consumers:
        return True
    present: dict[str, allocation.Resources] = {}
    for uuid, resources in before.consumers[item.consumer].allocations.items():
        present[uuid] = present[before.name_of(uuid)] = resources
    parts = (
        present.get(text, {}).get(name) == amount
        for name, amounts in item.parts.items()
        for text, amount in amounts.items()
    )
    targets = (
        name in present.get(text, present.get(text.lower(), {}))
        if name
        else bool({text, text.lower()} & present.keys())
        for name, text in item.targets.items()
    )
    return all(parts) and all(targets)


def _renames(tree: Tree, before: snapshot.TreeSnapshot) -> Iterator[documents.Named]:
    for target in tree.targets:
        uuid = _find(target, before)
        if uuid is not None and before.name_of(uuid) != target.name:
            yield documents.Named(uuid, target.name, target.line)


def _with_removals(
    target: documents.MoveTarget, before: snapshot.TreeSnapshot
) -> documents.MoveTarget:
    """The target with a total of 0 for each class that its inventories leave out."""
    if "inventories" not in target.only:
        return target
    removed = {name: {"total": 0} for name in sorted(_present(target, before))}
    return dataclasses.replace(target, inventories={**removed, **target.inventories})


def _without_inventories(node: snapshot.Node) -> documents.MoveTarget:
    removed = {name: {"total": 0} for name in sorted(node.inventories)}
    item = node.provider
    return documents.MoveTarget(item.name, item.uuid, inventories=removed, described=True)


#: ``{class: {provider: the amount that it lacks}}``; negative for a surplus.
_Deficits = dict[str, dict[str, int]]


def _deficits(targets: Iterable[documents.MoveTarget], before: snapshot.TreeSnapshot) -> _Deficits:
    """The differences between the present and the target tree, in the order of the targets."""
    deficits: _Deficits = {}
    for target in targets:
        present = _present(target, before)
        for name, fields in target.inventories.items():
            was = present[name].total if name in present else 0
            if lacking := int(fields.get("total", was)) - was:
                deficits.setdefault(name, {})[target.text] = lacking
    return dict(sorted(deficits.items()))


def _check_sums(tree: Tree, before: snapshot.TreeSnapshot, deficits: _Deficits) -> None:
    errors.InputErrors(
        f"{tree.source}: the target tree has {abs(sum(of.values()))} {name}"
        f" {'more' if sum(of.values()) > 0 else 'less'} than the present tree: a reshape moves"
        f" resources and keeps their sum, without change_totals: [{name}]"
        f"{_hint(tree, before, name) if sum(of.values()) > 0 else ''}"
        for name, of in deficits.items()
        if sum(of.values()) and name not in tree.change_totals
    ).check()


def _hint(tree: Tree, before: snapshot.TreeSnapshot, resource_class: str) -> str:
    """The first provider that keeps its amount because the file gives it no inventories."""
    for target in tree.targets:
        item = _present(target, before).get(resource_class)
        if "inventories" not in target.only and item is not None:
            return (
                f"; {target.name} keeps its {item.total} {resource_class}, because the file"
                " does not give its inventories: list those that stay (inventories: {} for none)"
            )
    return ""


def _moves(tree: Tree, deficits: _Deficits) -> Iterator[documents.ResourceMove]:
    """Moves from providers with a surplus to providers with a deficit, in the tree's order."""
    targets = {target.text: target for target in tree.targets}
    for name, of in deficits.items():
        for source, text, amount in _pair(of):
            target = targets[text]
            yield documents.ResourceMove(
                source,
                {name: amount},
                documents.MoveTarget(target.name, target.uuid),
                line=target.line,
            )


def _pair(deficits: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """``(from, to, amount)``: the first surplus goes to the first deficit."""
    left = {text: amount for text, amount in deficits.items() if amount > 0}
    for source, amount in deficits.items():
        surplus = -amount
        for target in list(left):
            moved = min(max(surplus, 0), left[target])
            if moved:
                yield source, target, moved
                surplus -= moved
                left[target] -= moved


def is_template(document: documents.Document) -> bool:
    """Whether a document contains ``$root``."""
    return fill(document, "") != document


def fill(document: documents.Document, root: str) -> documents.Document:
    """The document for the tree of one root, named ``root``."""
    filled: documents.Document = _fill(document, root)
    return dataclasses.replace(filled, source=document.source)


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
    document: documents.Document | Tree,
    roots: Collection[provider.Provider],
    before: snapshot.TreeSnapshot,
) -> Iterator[Part]:
    """The part of each root, by name; one part without roots.

    Errors: InvalidInput for a target tree that cannot be reached, and for evidence on a consumer
    without an allocation in any of the trees.
    """
    if isinstance(document, Tree):
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
        return type(part)(**{name: _fill(value, root) for name, value in fields.items()})
    return part
