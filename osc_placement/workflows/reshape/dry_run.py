"""The dry run: applies a plan to an embedded Placement that holds the snapshot.

The plan engine applies the plan under Placement's own rules; the result is read and compared with
the expected snapshot.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Sequence

from osc_placement import errors, microversion
from osc_placement.engine import standard
from osc_placement.model import allocation, name as names
from osc_placement.plan import attempt, change, executor, journal, result
from osc_placement.plan.kinds import base, memberships
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.reshape import invariants, observe, sandbox, snapshot

LOG = logging.getLogger(__name__)


class Refused(errors.PlacementError):
    """The rehearsal failed; no change was sent to the cloud."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsal:
    """``requests`` are the writes in their order; ``result`` is the snapshot after them."""

    requests: tuple[sandbox.Request, ...]
    result: snapshot.TreeSnapshot


def rehearse(
    before: snapshot.TreeSnapshot,
    after: snapshot.TreeSnapshot,
    changes: Sequence[change.Change],
    allowed: invariants.Expected,
    version: microversion.Microversion,
) -> Rehearsal:
    """Apply ``changes`` to ``before`` and compare the result with ``after``.

    Errors: Refused with all failures and differences; CannotRehearse.
    """
    LOG.info("rehearsing %d changes", len(changes))
    before, after = _comparable(before), _comparable(after)
    changes = _only_known(changes)
    # The cloud has all these classes, as ``observe`` has checked.
    nodes = [*before.nodes.values(), *after.nodes.values()]
    classes = {name for node in nodes for name in node.inventories}
    with sandbox.embedded(before, classes, version) as stage:
        run_context = attempt.RunContext(
            base.Services(stage.client), journal.MemoryJournal(), threading.Event()
        )
        run = executor.execute(changes, run_context, executor.Limits(workers=1))
        failed = [item for item in run.results if not item.succeeded]
        if failed:
            raise Refused(_failures(failed))
        context = ReadContext(workers=1)
        found = _comparable(observe.read_trees(stage.client, after.roots, context))
        requests = tuple(stage.recorder.requests)
    # Providers that no consumer uses any more are not read; they cannot have changed.
    unread = {uuid: node for uuid, node in after.nodes.items() if uuid not in found.nodes}
    consumers = {uuid: item for uuid, item in found.consumers.items() if uuid in before.consumers}
    found = dataclasses.replace(found, nodes={**found.nodes, **unread}, consumers=consumers)
    problems = [
        *invariants.violations(before, found, allowed),
        *invariants.differences(found, after),
    ]
    if problems:
        header = "the result of the rehearsal differs from the plan, so nothing was changed:"
        raise Refused("\n".join([header, *problems]))
    return Rehearsal(requests, found)


def _comparable(trees: snapshot.TreeSnapshot) -> snapshot.TreeSnapshot:
    """The snapshot without standard traits that are newer than this program.

    No rule depends on them. Below 1.38 consumers have no type, which is read as unknown.
    """
    return dataclasses.replace(
        trees,
        nodes={
            uuid: dataclasses.replace(node, traits=frozenset(filter(_is_known, node.traits)))
            for uuid, node in trees.nodes.items()
        },
        consumers={
            uuid: dataclasses.replace(
                item, consumer_type=item.consumer_type or allocation.UNKNOWN_TYPE
            )
            for uuid, item in trees.consumers.items()
        },
    )


def _only_known(changes: Sequence[change.Change]) -> list[change.Change]:
    """The changes without standard traits that are newer than this program."""
    found = []
    for item in changes:
        if isinstance(item.after, memberships.Traits):
            known = {name: has for name, has in item.after.present.items() if _is_known(name)}
            if not known:
                continue
            before = memberships.Traits({name: not has for name, has in known.items()})
            item = dataclasses.replace(item, before=before, after=memberships.Traits(known))
        found.append(item)
    return found


def _is_known(trait: str) -> bool:
    return names.is_custom(trait) or trait in standard.traits()


def _failures(results: Sequence[result.ChangeResult]) -> str:
    lines = [
        f"{item.kind} {item.subject.name}: {item.status}, {item.reason}"
        for item in results
        if item.status is not result.Status.PLANNED
    ]
    return "\n".join(["the rehearsal of the plan failed, so nothing was changed:", *lines])
