# SPDX-License-Identifier: Apache-2.0
"""The rows of a reshape: each provider before and after, and the consumers that change on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

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


def collect_rows(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    placed: Iterable[assignment.Placed],
    results: Iterable[result.ChangeResult],
) -> dict[str, list[ReshapeRow]]:
    """``{provider: its row, and those of the consumers whose allocation there changes}``.

    All providers before or after the reshape, with the results of its changes.
    """
    by_provider: dict[str, list[result.ChangeResult]] = {}
    for item in results:
        for uuid in _providers(item) or [item.subject.uuid]:
            by_provider.setdefault(uuid, []).append(item)
    reasons: dict[tuple[str, str], str] = {}
    for amount in placed:
        key, guess = (amount.request.consumer, amount.option.root_uuid), amount.guess
        reason = f"guessed ({guess})" if guess else "assigned" if amount.request.assigned else ""
        reasons[key] = reasons.get(key) or reason
    names = {**before.names(), **after.names()}
    rows = {}
    for uuid in {**before.inside, **after.inside}:
        own = by_provider.get(uuid, [])
        usages = _usage(before.nodes.get(uuid)), _usage(after.nodes.get(uuid))
        status, code = _worst(own)
        rows[uuid] = [ReshapeRow(uuid, *usages, status, _reason(uuid, own, names), code)]
    for consumer, changed in before.changed_allocations(after).items():
        for uuid in changed:
            was = before.consumers[consumer].allocations.get(uuid)
            now = after.consumers[consumer].allocations.get(uuid)
            status, code = _worst(filter(_providers, by_provider.get(uuid, [])))
            reason = reasons.get((consumer, uuid), "") if now else ""
            rows[uuid].append(ReshapeRow(consumer, was, now, status, reason, code))
    return rows


def tree(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> provider.ProviderTree:
    """All providers before or after the reshape, in their tree after it."""
    nodes = {**before.inside, **after.inside}
    ordered = sorted(nodes.values(), key=lambda node: node.provider.name)
    return provider.ProviderTree(node.provider for node in ordered)


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
