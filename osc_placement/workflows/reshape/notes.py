"""The notes of a reshape plan: what the operator must know besides its changes. Pure."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from osc_placement.workflows.reshape import (
    consumers as reshape_consumers,
    decide,
    refusals,
    resolve,
    snapshot,
)


def notes(decision: decide.Decision) -> tuple[str, ...]:
    """All notes of a plan."""
    before, after = decision.before, decision.after
    return (
        *refusals.nova_notes(before, decision.resolved),
        *_totals(decision.resolved),
        *_over_capacity(before, after),
        *_guesses(after, decision.placed),
    )


def _totals(resolved: resolve.Resolved) -> Iterator[str]:
    """One line per class whose sum a document changes."""
    growth = collections.Counter[str]()
    for (_, name), amount in resolved.growth.items():
        growth[name] += amount
    for name, amount in sorted(growth.items()):
        yield f"the document changes the totals: {name} {amount:+} in sum"


def _over_capacity(before: snapshot.TreeSnapshot, after: snapshot.TreeSnapshot) -> Iterator[str]:
    """Providers that stay over capacity and whose allocations are written again."""
    written = {
        (uuid, name)
        for key, consumer in after.consumers.items()
        if consumer.allocations != before.consumers[key].allocations
        for uuid, held in consumer.allocations.items()
        for name in held
    }
    for provider_name, name in sorted(
        (before.name_of(uuid), name)
        for uuid, node in after.nodes.items()
        for name, _, _ in node.over_capacity
        if (uuid, name) in written
    ):
        yield (
            f"{provider_name} is over capacity with {name}: a Placement older than 2025.2 refuses"
            " to write any allocation there again, and so the whole reshape"
        )


def _guesses(
    after: snapshot.TreeSnapshot, placed: Iterable[reshape_consumers.Placed]
) -> Iterator[str]:
    """One line per target with the consumers that a strategy placed there."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in placed:
        if each.guess:
            key = after.name_of(each.option.target), each.guess
            found.setdefault(key, []).append(each.demand.consumer)
    for (name, guess), consumers in sorted(found.items()):
        yield f"guessed ({guess}): to {name}: {', '.join(dict.fromkeys(consumers))}"
