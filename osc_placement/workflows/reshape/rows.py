"""A reshape as people read it: each provider and each consumer on it, before and after. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.model import provider
from osc_placement.plan import change, result
from osc_placement.plan.kinds import reshape
from osc_placement.workflows.reshape import consumers as reshape_consumers, snapshot

#: ``{resource class: {"used": amount, "capacity": amount}}`` of a provider, or ``{resource
#: class: amount}`` of a consumer on it; None where there is none.
Cell = Mapping[str, object] | None

#: The worse comes first: what a provider's row tells when several changes are about it.
_WORST = (
    result.Status.FAILED,
    result.Status.STALE,
    result.Status.LEFT_ALONE,
    result.Status.PLANNED,
    result.Status.APPLIED,
    result.Status.UNCHANGED,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One provider, or one consumer on the provider before it."""

    uuid: str
    before: Cell
    after: Cell
    status: str
    reason: str = ""


class Shown:
    """What became of a reshape, line by line."""

    def __init__(
        self,
        seen: snapshot.TreeSnapshot,
        wanted: snapshot.TreeSnapshot,
        placed: Sequence[reshape_consumers.Placed],
        outcomes: Iterable[result.ChangeResult],
    ) -> None:
        self._seen, self._wanted = seen, wanted
        self._names = {**seen.names(), **wanted.names()}
        self._about: dict[str, list[result.ChangeResult]] = {}
        for item in outcomes:
            for uuid in _subjects(item):
                self._about.setdefault(uuid, []).append(item)
        self._guesses: dict[tuple[str, str], str] = {}
        for one in placed:
            key = one.demand.consumer, one.option.target
            told = f"guessed ({one.guess})" if one.guess else ""
            told = told or ("assigned" if one.demand.assigned else "")
            self._guesses[key] = self._guesses.get(key, "") or told
        self._consumers = self._changed()

    def tree(self) -> provider.ProviderTree:
        """Every provider that is there before or after, as it stands after."""
        nodes = {**dict(self._seen.inside()), **dict(self._wanted.inside())}
        ordered = sorted(nodes.values(), key=lambda node: node.provider.name)
        return provider.ProviderTree(node.provider for node in ordered)

    def provider(self, uuid: str) -> Line:
        """The line of a provider."""
        was, now = self._seen.nodes.get(uuid), self._wanted.nodes.get(uuid)
        about = self._about.get(uuid, [])
        return Line(
            uuid, _offered(was), _offered(now), _status(about), _reason(uuid, about, self._names)
        )

    def consumers(self, uuid: str) -> Iterator[Line]:
        """The lines of the consumers that gain or lose something on a provider."""
        about = [item for item in self._about.get(uuid, []) if item.kind == change.RESHAPE]
        for consumer in self._consumers.get(uuid, ()):
            was = self._seen.consumers[consumer].allocations.get(uuid)
            now = self._wanted.consumers[consumer].allocations.get(uuid)
            guess = self._guesses.get((consumer, uuid), "") if now else ""
            yield Line(consumer, was, now, _status(about), guess)

    def _changed(self) -> dict[str, list[str]]:
        """``{provider uuid: consumers that change on it}``"""
        found: dict[str, list[str]] = {}
        for uuid, consumer in sorted(self._wanted.consumers.items()):
            was = self._seen.consumers[uuid].allocations
            for key in sorted({*was, *consumer.allocations}):
                if dict(was.get(key, {})) != dict(consumer.allocations.get(key, {})):
                    found.setdefault(key, []).append(uuid)
        return found


def _subjects(item: result.ChangeResult) -> list[str]:
    """The providers that an outcome is about: all where a reshape changes something."""
    if item.kind != change.RESHAPE:
        return [item.subject.uuid]
    changed = [*reshape.providers(item.after), *reshape.places(item.after)]
    return list(dict.fromkeys(changed)) or [item.subject.uuid]


def _offered(node: snapshot.Node | None) -> Cell:
    if node is None:
        return None
    return {
        name: {"used": node.used.get(name, 0), "capacity": held.capacity}
        for name, held in sorted(node.inventories.items())
    }


def _status(about: Sequence[result.ChangeResult]) -> str:
    statuses = {item.status for item in about}
    return next((str(status) for status in _WORST if status in statuses), "unchanged")


def _reason(uuid: str, about: Sequence[result.ChangeResult], names: change.Names) -> str:
    """What happens to a provider beside its inventories, and why something did not."""
    told = []
    for item in about:
        if item.kind == change.PROVIDER:
            told.append(_existence(item, names))
        elif item.kind in (change.TRAITS, change.AGGREGATES):
            told += [f"{'+' if has else '-'}{name}" for name, has in item.after.items()]
        well = item.status in (result.Status.PLANNED, result.Status.APPLIED)
        if not well or (item.kind == change.RESHAPE and item.subject.uuid == uuid):
            told.append(item.reason)
    return "; ".join(dict.fromkeys(filter(None, told)))


def _existence(item: result.ChangeResult, names: change.Names) -> str:
    if item.after.get("name", "") is None:
        return "goes"
    if "name" in item.before and item.before["name"] is None:
        return "new"
    return change.describe(item.kind, item.after, names=names)
