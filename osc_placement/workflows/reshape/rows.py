"""The rows of a reshape: each provider and each consumer on it, before and after. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.model import provider
from osc_placement.plan import change, result
from osc_placement.plan.kinds import registry
from osc_placement.workflows.reshape import consumers as reshape_consumers, snapshot

#: ``{resource class: {"used": amount, "capacity": amount}}`` of a provider, or ``{resource
#: class: amount}`` of a consumer on it; None if there is none.
Cell = Mapping[str, object] | None

#: The status of a row with several changes is the first of these.
_WORST = (
    result.Status.FAILED,
    result.Status.STALE,
    result.Status.REFUSED,
    result.Status.SKIPPED,
    result.Status.PLANNED,
    result.Status.APPLIED,
    result.Status.UNCHANGED,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One provider, or one consumer on a provider."""

    uuid: str
    before: Cell
    after: Cell
    status: str
    reason: str = ""
    code: str = ""


class Rows:
    """The rows of a reshape with the results of its changes."""

    def __init__(
        self,
        before: snapshot.TreeSnapshot,
        after: snapshot.TreeSnapshot,
        placed: Sequence[reshape_consumers.Placed],
        results: Iterable[result.ChangeResult],
    ) -> None:
        self._before, self._after = before, after
        self._names = {**before.names(), **after.names()}
        self._results: dict[str, list[result.ChangeResult]] = {}
        for item in results:
            for uuid in _providers(item) or [item.subject.uuid]:
                self._results.setdefault(uuid, []).append(item)
        self._guesses: dict[tuple[str, str], str] = {}
        for one in placed:
            key = one.demand.consumer, one.option.target
            reason = "assigned" if one.demand.assigned else ""
            reason = f"guessed ({one.guess})" if one.guess else reason
            self._guesses[key] = self._guesses.get(key, "") or reason
        self._consumers = self._changed()

    def tree(self) -> provider.ProviderTree:
        """All providers before or after the reshape, in their tree after it."""
        nodes = {**self._before.inside, **self._after.inside}
        ordered = sorted(nodes.values(), key=lambda node: node.provider.name)
        return provider.ProviderTree(node.provider for node in ordered)

    def provider(self, uuid: str) -> Row:
        """The row of a provider."""
        was, now = self._before.nodes.get(uuid), self._after.nodes.get(uuid)
        results = self._results.get(uuid, [])
        reason = _reason(uuid, results, self._names)
        status = _status(results)
        return Row(uuid, _usage(was), _usage(now), status, reason, _code(results, status))

    def consumers(self, uuid: str) -> Iterator[Row]:
        """The rows of the consumers whose allocation on a provider changes."""
        results = [item for item in self._results.get(uuid, []) if _providers(item)]
        for consumer in self._consumers.get(uuid, ()):
            was = self._before.consumers[consumer].allocations.get(uuid)
            now = self._after.consumers[consumer].allocations.get(uuid)
            guess = self._guesses.get((consumer, uuid), "") if now else ""
            status = _status(results)
            yield Row(consumer, was, now, status, guess, _code(results, status))

    def _changed(self) -> dict[str, list[str]]:
        """``{provider uuid: consumers whose allocation on it changes}``"""
        found: dict[str, list[str]] = {}
        for uuid, consumer in sorted(self._after.consumers.items()):
            was = self._before.consumers[uuid].allocations
            for key in sorted({*was, *consumer.allocations}):
                if dict(was.get(key, {})) != dict(consumer.allocations.get(key, {})):
                    found.setdefault(key, []).append(uuid)
        return found


def _providers(item: result.ChangeResult) -> list[str]:
    """The providers of a change of several providers; empty for any other change."""
    return [] if item.after is None else [*registry.CHANGE_TYPES[item.kind].providers(item.after)]


def _usage(node: snapshot.Node | None) -> Cell:
    if node is None:
        return None
    return {
        name: {"used": node.used.get(name, 0), "capacity": held.capacity}
        for name, held in sorted(node.inventories.items())
    }


def _status(results: Sequence[result.ChangeResult]) -> str:
    statuses = {item.status for item in results}
    return next((str(status) for status in _WORST if status in statuses), "unchanged")


def _code(results: Sequence[result.ChangeResult], status: str) -> str:
    """The code of the change that the status of a row is from."""
    return next((item.code for item in results if item.status == status), "")


def _reason(uuid: str, results: Sequence[result.ChangeResult], names: change.Names) -> str:
    """The other changes of a provider, and why changes were not applied."""
    reasons = []
    for item in results:
        reasons += registry.describe_change(item.kind, item.before, item.after, names)
        is_good = item.status in (result.Status.PLANNED, result.Status.APPLIED)
        if not is_good or (_providers(item) and item.subject.uuid == uuid):
            reasons.append(item.reason)
    return "; ".join(dict.fromkeys(filter(None, reasons)))
