"""A wanted tree: read from a file, and the moves that lead to it. Pure.

What stands in the tree and is not told stays as it is; a provider of the tree that is not
there at all goes, and what it has goes where the wanted tree has more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import name as names
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.document import (
    parse as document_parse,
    schema,
    values,
    yaml_lines,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """A provider as it is wanted; ``totals`` None leaves its inventories as they are."""

    target: values.Target
    totals: Mapping[str, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The wanted providers, each parent before its children; the first one is the root."""

    branches: tuple[Branch, ...]
    assign: tuple[values.Evidence, ...] = ()
    source: str = ""

    @property
    def texts(self) -> list[str]:
        """What the providers may be found by."""
        return [branch.target.text for branch in self.branches]


def parse(text: str, source: str) -> Tree:
    """Read a wanted tree. Errors: InvalidInput with every fault, each with its line."""
    faults = errors.InputErrors()
    found = document_parse.read(text, source, schema.TREE, faults)
    branches = tuple(_branches(found.data["tree"], None, ("tree",), found))
    for branch in branches:
        where = f"{source}:{branch.target.line}: "
        faults.reasons += document_parse.strange_memberships(branch.target, where)
    called = [branch.target.name for branch in branches]
    for name in sorted({name for name in called if called.count(name) > 1}):
        faults.add(f"{source}: {name!r} stands in the tree more than once")
    assign = document_parse.evidence(found, source, faults)
    faults.check()
    return Tree(branches, assign, source)


def moves(wanted: Tree, seen: snapshot.TreeSnapshot, faults: errors.InputErrors) -> values.Document:
    """The document that makes the tree in ``seen`` the wanted one."""
    root = _found(wanted.branches[0].target, seen)
    if root is None or seen.nodes[root].provider.parent_uuid is not None:
        what = "there is no root provider" if root is None else "this is no root provider:"
        faults.add(f"{wanted.source}: {what} {wanted.branches[0].target.text!r}")
        return values.Document(source=wanted.source)
    kept = {_found(branch.target, seen) for branch in wanted.branches}
    gone = [uuid for uuid, _ in seen.inside() if seen.root_of(uuid) == root and uuid not in kept]
    return values.Document(
        moves=tuple(_moves(wanted, seen, gone, faults)),
        providers=tuple(branch.target for branch in wanted.branches),
        assign=wanted.assign,
        rename=tuple(_renames(wanted, seen)),
        delete=tuple(values.Named(uuid) for uuid in gone),
        source=wanted.source,
    )


def _branches(
    told: Mapping[str, Any], parent: str | None, path: yaml_lines.Path, found: yaml_lines.Marked
) -> Iterator[Branch]:
    uuid = names.canonical_uuid(told["uuid"]) if "uuid" in told else ""
    wanted = {
        name: {"total": given} if isinstance(given, int) else dict(given)
        for name, given in told.get("inventories", {}).items()
    }
    totals = {name: fields.pop("total", -1) for name, fields in wanted.items()}
    target = values.Target(
        name=told["name"],
        uuid=uuid,
        parent=parent,
        traits=tuple(told.get("traits", ())),
        aggregates=tuple(told.get("aggregates", ())),
        inventories={name: fields for name, fields in wanted.items() if fields},
        described=True,
        only=frozenset({"traits", "aggregates"} & told.keys()),
        line=found.line(*path),
    )
    yield Branch(target, totals if "inventories" in told else None)
    for position, child in enumerate(told.get("children", ())):
        yield from _branches(child, target.text, (*path, "children", position), found)


def _found(target: values.Target, seen: snapshot.TreeSnapshot) -> str | None:
    if target.uuid:
        return target.uuid if target.uuid in seen.nodes else None
    named = [uuid for uuid, node in seen.inside() if node.provider.name == target.name]
    return named[0] if named else None


def _renames(wanted: Tree, seen: snapshot.TreeSnapshot) -> Iterator[values.Named]:
    for branch in wanted.branches:
        uuid = _found(branch.target, seen)
        if uuid is not None and seen.name_of(uuid) != branch.target.name:
            yield values.Named(uuid, branch.target.name, branch.target.line)


def _moves(
    wanted: Tree, seen: snapshot.TreeSnapshot, gone: list[str], faults: errors.InputErrors
) -> Iterator[values.Move]:
    """What some have too much goes to those that lack it, in the order of the tree."""
    more: dict[str, dict[str, int]] = {}
    for branch in wanted.branches:
        for name, amount in _missing(branch, seen).items():
            more.setdefault(name, {})[branch.target.text] = amount
    for uuid in gone:
        for name, held in seen.nodes[uuid].inventories.items():
            more.setdefault(name, {})[uuid] = -held.total
    targets = {branch.target.text: branch.target for branch in wanted.branches}
    for name, changes in sorted(more.items()):
        if sum(changes.values()):
            faults.add(_unbalanced(wanted, name, sum(changes.values())))
            continue
        for source, text, amount in _paired(changes):
            target = targets[text]
            yield values.Move(
                source, {name: amount}, values.Target(target.name, target.uuid), line=target.line
            )


def _missing(branch: Branch, seen: snapshot.TreeSnapshot) -> dict[str, int]:
    """``{class: amount}`` that a provider shall have more than it has; less than 0 is too much."""
    if branch.totals is None:
        return {}
    uuid = _found(branch.target, seen)
    present = seen.nodes[uuid].inventories if uuid is not None else {}
    has = {name: held.total for name, held in present.items()}
    shall = {
        name: has.get(name, 0) if total < 0 else total for name, total in branch.totals.items()
    }
    return {
        name: difference
        for name in sorted(has.keys() | shall.keys())
        if (difference := shall.get(name, 0) - has.get(name, 0))
    }


def _paired(changes: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """``(from, to, amount)``: the first that has too much gives to the first that lacks."""
    left = {text: amount for text, amount in changes.items() if amount > 0}
    for source, amount in changes.items():
        surplus = -amount
        for target in list(left):
            given = min(max(surplus, 0), left[target])
            if given:
                yield source, target, given
                surplus -= given
                left[target] -= given


def _unbalanced(wanted: Tree, name: str, difference: int) -> str:
    word = "more" if difference > 0 else "less"
    return (
        f"{wanted.source}: the wanted tree has {abs(difference)} {name} {word} than there is:"
        " a reshape moves resources, it makes none"
    )
