# SPDX-License-Identifier: Apache-2.0
"""The rows of a reshape: each provider before and after, and the consumers that change on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.model import provider
from osc_placement.plan import change, result
from osc_placement.plan.kinds import registry
from osc_placement.workflows.reshape import assignment, snapshot

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
class ReshapeRow:
    """One provider, or one consumer on a provider."""

    uuid: str
    before: Cell
    after: Cell
    status: str
    reason: str = ""
    code: str = ""


class ReshapeRows:
    """The rows of a reshape with the results of its changes."""

    def __init__(
        self,
        before: snapshot.TreeSnapshot,
        after: snapshot.TreeSnapshot,
        placed: Sequence[assignment.Placed],
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
            key = one.request.consumer, one.option.root_uuid
            reason = "assigned" if one.request.assigned else ""
            reason = f"guessed ({one.guess})" if one.guess else reason
            self._guesses[key] = self._guesses.get(key, "") or reason
        self._consumers: dict[str, list[str]] = {}
        for uuid, providers in before.changed_allocations(after).items():
            for provider_uuid in providers:
                self._consumers.setdefault(provider_uuid, []).append(uuid)

    def tree(self) -> provider.ProviderTree:
        """All providers before or after the reshape, in their tree after it."""
        nodes = {**self._before.inside, **self._after.inside}
        ordered = sorted(nodes.values(), key=lambda node: node.provider.name)
        return provider.ProviderTree(node.provider for node in ordered)

    def provider(self, uuid: str) -> ReshapeRow:
        """The row of a provider."""
        was, now = self._before.nodes.get(uuid), self._after.nodes.get(uuid)
        results = self._results.get(uuid, [])
        reason = _reason(uuid, results, self._names)
        status, code = _worst(results)
        return ReshapeRow(uuid, _usage(was), _usage(now), status, reason, code)

    def consumers(self, uuid: str) -> Iterator[ReshapeRow]:
        """The rows of the consumers whose allocation on a provider changes."""
        status, code = _worst(item for item in self._results.get(uuid, []) if _providers(item))
        for consumer in self._consumers.get(uuid, ()):
            was = self._before.consumers[consumer].allocations.get(uuid)
            now = self._after.consumers[consumer].allocations.get(uuid)
            guess = self._guesses.get((consumer, uuid), "") if now else ""
            yield ReshapeRow(consumer, was, now, status, guess, code)


def _providers(item: result.ChangeResult) -> list[str]:
    """The providers of a change of several providers; empty for any other change."""
    return [] if item.after is None else [*registry.CHANGE_TYPES[item.kind].providers(item.after)]


def _usage(node: snapshot.Node | None) -> Cell:
    if node is None:
        return None
    return {
        name: {"used": node.used.get(name, 0), "capacity": item.capacity}
        for name, item in sorted(node.inventories.items())
    }


def _worst(results: Iterable[result.ChangeResult]) -> tuple[str, str]:
    """The status of a row, and the code of the change that it is from."""
    worst = min(results, key=lambda item: _WORST.index(item.status), default=None)
    return (str(worst.status), worst.code) if worst is not None else ("unchanged", "")


def _reason(uuid: str, results: Sequence[result.ChangeResult], names: change.Names) -> str:
    """The other changes of a provider, and why changes were not applied."""
    reasons = []
    for item in results:
        reasons += registry.describe_change(item.kind, item.before, item.after, names)
        is_good = item.status in (result.Status.PLANNED, result.Status.APPLIED)
        if not is_good or (_providers(item) and item.subject.uuid == uuid):
            reasons.append(item.reason)
    return "; ".join(dict.fromkeys(filter(None, reasons)))
