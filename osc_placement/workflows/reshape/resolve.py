"""What a document of moves means in a picture: which amounts go where, and who may follow.

Pure. Every name becomes a provider; providers that are described and not there are thought
up. ``amounts`` says what becomes of inventories, ``compile`` makes a plan of it all.
"""

from __future__ import annotations

import dataclasses
import uuid as uuid_module
from collections.abc import Iterable, Mapping

from osc_placement import errors
from osc_placement.model import name as names, provider
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.document import values

_HERE = "'openstack resource provider list' shows those that there are"


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryMove:
    """An amount of one class that goes from one provider to another, by their UUIDs.

    ``becomes`` is the class from then on. ``amount`` counts in totals of inventories.
    """

    source: str
    resource_class: str
    amount: int
    target: str
    becomes: str
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """``nodes`` are those of the named trees as they shall be, but for inventories.

    ``fields`` is ``{(provider uuid, class): fields}`` as far as the operator says.
    ``deleted`` are UUIDs of providers that go when they are empty.
    """

    document: values.Document
    nodes: Mapping[str, snapshot.Node]
    shifts: tuple[InventoryMove, ...]
    fields: Mapping[tuple[str, str], values.Fields] = dataclasses.field(default_factory=dict)
    deleted: frozenset[str] = frozenset()


def texts(document: values.Document) -> list[str]:
    """Everything in a document that may be the name or UUID of a provider that is there."""
    found: list[str] = []
    for item in document.moves:
        found += [item.source, *_texts(item.target)]
    for target in document.providers:
        found += _texts(target)
    for named in (*document.rename, *document.delete):
        found += [named.text, named.name]
    return [text for text in dict.fromkeys(found) if text]


def _texts(target: values.Target) -> tuple[str, ...]:
    return target.uuid, target.name, target.parent or ""


def resolve(
    document: values.Document, seen: snapshot.TreeSnapshot, faults: errors.InputErrors
) -> Wanted:
    """Find everything that the document speaks of; what is wrong goes to ``faults``."""
    directory = ProviderIndex(document, seen, faults)
    for target in document.providers:
        directory.introduce(target, None)
    for item in document.moves:
        directory.introduce(item.target, item.source)
    directory.place()
    shifts = [shift for item in document.moves for shift in _shifts(item, directory)]
    for named in document.rename:
        directory.rename(named)
    directory.check_names()
    directory.check_order()
    deleted = {directory.find(item.text, item.line) for item in document.delete}
    merged = tuple(_merged(_with_amounts(shifts, document, directory, faults)))
    for shift in _circular(merged):
        name = directory.name_of(shift.source)
        directory.fault(shift.line, f"{shift.resource_class} of {name} would come back to it")
    return Wanted(
        document,
        directory.nodes,
        merged,
        directory.fields,
        frozenset(uuid for uuid in deleted if uuid is not None),
    )


class ProviderIndex:
    """Providers by what the operator calls them, those that are to be made included."""

    def __init__(
        self, document: values.Document, seen: snapshot.TreeSnapshot, faults: errors.InputErrors
    ) -> None:
        self.nodes = dict(seen.inside())
        self._seen = dict(self.nodes)
        self.fields: dict[tuple[str, str], dict[str, int | float]] = {}
        self._document, self._faults = document, faults
        self._named = {node.provider.name: uuid for uuid, node in self.nodes.items()}
        self._parents: dict[str, tuple[str | None, int]] = {}
        self._renamed: set[str] = set()
        self._renames = {item.text: item.name for item in document.rename}

    def find(self, text: str, line: int) -> str | None:
        """The UUID of a provider; a fault when there is none."""
        uuid = self._known(text)
        if uuid is None:
            self.fault(line, f"there is no provider {text!r}: {_HERE}")
        return uuid

    def fault(self, line: int, what: str) -> None:
        """One more thing that is wrong with the document."""
        self._faults.add(self._document.at(line) + what)

    def name_of(self, uuid: str) -> str:
        """What people call a provider."""
        return self.nodes[uuid].provider.name

    def target_of(self, item: values.Move) -> str | None:
        """Where a move goes, None when that was a fault."""
        return self._known(item.target.text)

    def introduce(self, target: values.Target, source: str | None) -> None:
        """Know a target: as it is there, or as it is described; what ``source`` has goes there."""
        uuid = self._known(target.text)
        if uuid is None and not target.described:
            self.fault(
                target.line,
                f"there is no provider {target.name!r}: {_HERE}; to have it made,"
                f" describe it: {{name: {target.name}}}",
            )
            return
        if uuid is None:
            uuid = self._thought_up(target, source)
        else:
            self._check_name(uuid, target)
            self._check_tree(uuid, target, source)
        if uuid is None:
            return
        node = self.nodes[uuid]
        aggregates = {names.canonical_uuid(text) for text in target.aggregates}
        kept = frozenset() if "traits" in target.only else node.traits
        stays = frozenset() if "aggregates" in target.only else node.aggregates
        self.nodes[uuid] = node.replace(
            traits=kept | set(target.traits), aggregates=stays | aggregates
        )
        for resource_class, fields in target.inventories.items():
            self._say(uuid, resource_class, fields, target.line)

    def _say(self, uuid: str, resource_class: str, fields: values.Fields, line: int) -> None:
        known = self.fields.setdefault((uuid, resource_class), {})
        for field, value in fields.items():
            if known.setdefault(field, value) != value:
                what = f"{resource_class} of {self.name_of(uuid)}"
                self.fault(line, f"{field} of {what} is said to be {known[field]} and {value}")

    def _known(self, text: str) -> str | None:
        if text in self._named:
            return self._named[text]
        uuid = names.canonical_uuid(text) if names.is_uuid(text) else ""
        return uuid if uuid in self.nodes else None

    def _check_name(self, uuid: str, target: values.Target) -> None:
        """A UUID and a name that are both given must be of one provider."""
        called = self.name_of(uuid)
        renamed = self._renames.get(called) or self._renames.get(uuid)
        if target.uuid and target.name and target.name not in (called, renamed):
            self.fault(target.line, f"provider {uuid} is called {called!r}, not {target.name!r}")

    def _check_tree(self, uuid: str, target: values.Target, source: str | None) -> None:
        """Who describes a child without its parent means one in the tree that it gets from."""
        origin = self._known(source or "")
        told = not target.described or target.parent != values.UNSAID
        if told or uuid not in self._seen or origin not in self._seen:
            return
        root = self._seen[uuid].provider.root_uuid
        if root not in (None, uuid) and root != self._seen[origin].provider.root_uuid:
            self.fault(
                target.line,
                f"{self.name_of(uuid)!r} is there already, in another tree: give another name, or"
                " its parent where that is meant",
            )

    def _thought_up(self, target: values.Target, source: str | None) -> str | None:
        if not target.name:
            self.fault(target.line, f"there is no provider {target.uuid}: to have it made, name it")
            return None
        uuid = target.uuid or new_uuid(target.name)
        if uuid in self.nodes:
            self.fault(
                target.line,
                f"{self.name_of(uuid)!r} has the UUID that {target.name!r} would get: give one",
            )
            return None
        self.nodes[uuid] = snapshot.Node(provider.Provider(uuid, target.name, 0, None, None))
        if target.name not in self._named:
            self._named[target.name] = uuid
        if self._is_taken(target.name, uuid):
            self.fault(target.line, f"there is another provider {target.name!r} already")
        parent = source if target.parent == values.UNSAID else target.parent
        self._parents[uuid] = parent, target.line
        return uuid

    def _is_taken(self, name: str, uuid: str) -> bool:
        owner = self._named.get(name)
        return owner not in (None, uuid) and not {name, owner} & self._renames.keys()

    def place(self) -> None:
        """Put every target where its parent is, when all of them are known."""
        told: dict[str, tuple[str | None, int]] = {}
        for target in (
            *self._document.providers,
            *(item.target for item in self._document.moves),
        ):
            uuid = self._known(target.text)
            if uuid is not None and target.parent != values.UNSAID:
                said = told.setdefault(uuid, (target.parent, target.line))[0]
                if self._known(said or "") != self._known(target.parent or ""):
                    what = f"{said or 'nothing'} and below {target.parent or 'nothing'}"
                    self.fault(target.line, f"{self.name_of(uuid)} would stand below {what}")
        self._parents |= told
        for uuid, (text, line) in self._parents.items():
            parent = None if text is None else self.find(text, line)
            if text is None or parent is not None:
                self._put_below(uuid, parent, line)

    def _put_below(self, uuid: str, parent: str | None, line: int) -> None:
        above, seen = parent, {uuid}
        while above is not None and above not in seen:
            seen.add(above)
            above = self._parent_of(above)
        if above is not None:
            self.fault(line, f"{self.name_of(uuid)} would stand below itself")
            return
        node = self.nodes[uuid]
        placed = dataclasses.replace(node.provider, parent_uuid=parent)
        self.nodes[uuid] = node.replace(provider=placed)

    def _parent_of(self, uuid: str) -> str | None:
        pending = self._parents.get(uuid)
        if pending is not None and pending[0] is not None:
            return self._known(pending[0])
        return self.nodes[uuid].provider.parent_uuid if uuid in self.nodes else None

    def rename(self, named: values.Named) -> None:
        """Give a provider another name."""
        uuid = self.find(named.text, named.line)
        if uuid is None:
            return
        node = self.nodes[uuid]
        if uuid in self._renamed:
            self.fault(named.line, f"{node.provider.name} is renamed twice")
        self._renamed.add(uuid)
        renamed = dataclasses.replace(node.provider, name=named.name)
        self.nodes[uuid] = node.replace(provider=renamed)

    def check_names(self) -> None:
        """No two providers may have one name at any time."""
        owners: dict[str, str] = {}
        for uuid, node in self.nodes.items():
            called = node.provider.name
            if owners.setdefault(called, uuid) != uuid:
                self.fault(0, f"two providers would be called {called!r}")

    def check_order(self) -> None:
        """Names are changed all at the same time: none may wait until another is free."""
        owners = {node.provider.name: uuid for uuid, node in self._seen.items()}
        for uuid, node in self.nodes.items():
            called = node.provider.name
            owner = owners.get(called, uuid)
            if owner == uuid or self.name_of(owner) == called:
                continue
            # Who is only renamed is so before anything is made.
            if uuid in self._seen or self._is_moved(owner):
                who = self._seen[uuid].provider.name if uuid in self._seen else "a new one"
                self.fault(
                    0, f"{who} cannot be called {called!r} in one go: rename the other one before"
                )

    def _is_moved(self, uuid: str) -> bool:
        before, after = self._seen[uuid].provider, self.nodes[uuid].provider
        return before.parent_uuid != after.parent_uuid


def new_uuid(name: str) -> str:
    """The UUID of a provider that is to be made: the same in every plan of it."""
    return str(uuid_module.uuid5(uuid_module.NAMESPACE_URL, f"osc-placement:{name}"))


def _shifts(
    item: values.Move, directory: ProviderIndex
) -> Iterable[tuple[InventoryMove, int | str]]:
    """The shifts of a move, with their amounts as they were written."""
    source = directory.find(item.source, item.line)
    target = directory.target_of(item)
    if source is None or target is None:
        return
    offered = directory.nodes[source].inventories
    for resource_class, amount in item.resources.items():
        becomes = item.classes.get(resource_class, resource_class)
        if (source, resource_class) == (target, becomes):
            directory.fault(item.line, f"{resource_class} would go from {item.source} to itself")
        elif resource_class not in offered:
            has = ", ".join(sorted(offered)) or "nothing"
            directory.fault(item.line, f"{item.source} has no {resource_class}: it has {has}")
        else:
            yield InventoryMove(source, resource_class, 0, target, becomes, item.line), amount


def _with_amounts(
    shifts: Iterable[tuple[InventoryMove, int | str]],
    document: values.Document,
    directory: ProviderIndex,
    faults: errors.InputErrors,
) -> Iterable[InventoryMove]:
    """Each with its amount; ``all`` is what the others leave."""
    of: dict[tuple[str, str], list[tuple[InventoryMove, int | str]]] = {}
    for shift, amount in shifts:
        of.setdefault((shift.source, shift.resource_class), []).append((shift, amount))
    for (source, resource_class), told in of.items():
        total = directory.nodes[source].inventories[resource_class].total
        left = total - sum(amount for _, amount in told if isinstance(amount, int))
        greedy = [shift for shift, amount in told if not isinstance(amount, int)]
        if left < 0 or len(greedy) > 1 or (greedy and not left):
            what = f"{directory.name_of(source)} has {total} {resource_class}"
            faults.add(f"{document.at(told[-1][0].line)}{_too_much(what, left, greedy)}")
            continue
        for shift, amount in told:
            yield dataclasses.replace(shift, amount=amount if isinstance(amount, int) else left)


def _too_much(what: str, left: int, greedy: list[InventoryMove]) -> str:
    if left < 0:
        return f"{what}, and {-left} more are to be moved"
    if len(greedy) > 1:
        return f"{what}, and more than one move wants all of it"
    return f"{what}, and nothing is left for a move that wants all of it"


def _merged(shifts: Iterable[InventoryMove]) -> Iterable[InventoryMove]:
    """What goes the same way goes as one."""
    found: dict[tuple[str, str, str, str], InventoryMove] = {}
    for shift in shifts:
        key = shift.source, shift.resource_class, shift.target, shift.becomes
        known = found.get(key)
        amount = shift.amount + (known.amount if known is not None else 0)
        found[key] = dataclasses.replace(known or shift, amount=amount)
    return found.values()


def _circular(shifts: Iterable[InventoryMove]) -> Iterable[InventoryMove]:
    """Those that lead back, over others, to where they come from."""
    ways: dict[tuple[str, str], set[tuple[str, str]]] = {}
    known = list(shifts)
    for shift in known:
        source = shift.source, shift.resource_class
        ways.setdefault(source, set()).add((shift.target, shift.becomes))
    for shift in known:
        reached = pending = {(shift.target, shift.becomes)}
        while pending:
            pending = set().union(*(ways.get(place, ()) for place in pending)) - reached
            reached = reached | pending
        if (shift.source, shift.resource_class) in reached:
            yield shift
