"""Trying a plan on an embedded Placement that holds the picture, generations and all.

The same engine carries out the same plan, by Placement's own rules; what it leaves is read
back and held against what was wanted.
"""

from __future__ import annotations

import dataclasses
import threading
import uuid as uuid_module
from collections.abc import Sequence
from typing import Any

from osc_placement import errors, microversion
from osc_placement.engine import standard
from osc_placement.model import allocation, name as names
from osc_placement.plan import attempt, change, executor, journal, result
from osc_placement.workflows import context
from osc_placement.workflows.reshape import invariants, observe, sandbox, snapshot

#: Who holds what is used by consumers that are not in the picture.
_OTHERS = "others"


class Refused(errors.PlacementError):
    """The rehearsal went wrong; the cloud was not asked to change anything."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsal:
    """``requests`` are all writes that were sent, in their order; ``left`` is the picture then."""

    requests: tuple[sandbox.Request, ...]
    left: snapshot.TreeSnapshot


def rehearse(
    seen: snapshot.TreeSnapshot,
    wanted: snapshot.TreeSnapshot,
    changes: Sequence[change.Change],
    classes: invariants.Classes,
    version: microversion.Microversion,
) -> Rehearsal:
    """Carry out ``changes`` on what was seen, and see whether that makes what is wanted.

    Errors: Refused with everything that went wrong; CannotRehearse.
    """
    seen, wanted = _known_here(seen), _known_here(wanted)
    with sandbox.embedded(state(seen), version) as stage:
        around = attempt.RunContext(stage.client, journal.MemoryJournal(), threading.Event())
        run = executor.execute(_only_known(changes), around, executor.Limits(workers=1))
        failed = [item for item in run.outcomes if not item.succeeded]
        if failed:
            raise Refused(_failed(failed))
        reading = context.ReadContext(workers=1)
        left = _known_here(observe.observe_picture(stage.client, wanted.roots, reading))
        requests = tuple(stage.recorder.requests)
    # What nobody's consumer uses is not read back: it cannot have changed.
    untouched = {uuid: node for uuid, node in wanted.nodes.items() if uuid not in left.nodes}
    left = left.replace(nodes={**left.nodes, **untouched}, consumers=_mine(left))
    problems = [
        *invariants.broken(seen, left, classes),
        *invariants.difference(left, wanted),
    ]
    if problems:
        raise Refused(
            "\n".join(["the rehearsal left something else than what was planned:", *problems])
        )
    return Rehearsal(requests, left)


def state(seen: snapshot.TreeSnapshot) -> dict[str, Any]:
    """The picture as a state document of the embedded server."""
    custom = {name for _, node in seen.nodes.items() for name in node.traits}
    classes = {name for node in seen.nodes.values() for name in node.inventories}
    return {
        "custom_resource_classes": sorted(filter(names.is_custom, classes)),
        "custom_traits": sorted(filter(names.is_custom, custom | seen.traits)),
        "providers": {uuid: _provider(node) for uuid, node in seen.nodes.items()},
        "consumers": {
            **{uuid: _consumer(item) for uuid, item in seen.consumers.items()},
            **_others(seen),
        },
    }


def _provider(node: snapshot.Node) -> dict[str, Any]:
    item = node.provider
    return {
        "name": item.name,
        "parent": item.parent_uuid,
        "root": item.root_uuid or item.uuid,
        "generation": item.generation,
        "inventories": {name: held.as_dict() for name, held in node.inventories.items()},
        "traits": sorted(node.traits),
        "aggregates": sorted(node.aggregates),
    }


def _consumer(item: allocation.Consumer) -> dict[str, Any]:
    return {
        "allocations": {uuid: dict(has) for uuid, has in item.allocations.items()},
        "generation": item.generation or 0,
        "project": item.project_id or _OTHERS,
        "user": item.user_id or _OTHERS,
        "type": item.consumer_type or allocation.UNKNOWN_TYPE,
    }


def _others(seen: snapshot.TreeSnapshot) -> dict[str, dict[str, Any]]:
    """One consumer per provider for all that others use of it."""
    shares: dict[str, dict[str, int]] = {}
    for (uuid, resource_class), amount in seen.others().items():
        shares.setdefault(uuid, {})[resource_class] = amount
    return {
        _stand_in(uuid): _consumer(
            allocation.Consumer(_stand_in(uuid), {uuid: resources}, generation=0)
        )
        for uuid, resources in shares.items()
    }


def _stand_in(provider: str) -> str:
    return str(uuid_module.uuid5(uuid_module.NAMESPACE_URL, f"osc-placement:others:{provider}"))


def _mine(left: snapshot.TreeSnapshot) -> dict[str, allocation.Consumer]:
    """The consumers without those that stand for others."""
    stand_ins = {_stand_in(uuid) for uuid in left.nodes}
    return {uuid: item for uuid, item in left.consumers.items() if uuid not in stand_ins}


def _known_here(seen: snapshot.TreeSnapshot) -> snapshot.TreeSnapshot:
    """Without standard traits that are newer than this program; no rule depends on them.

    Below 1.38 nobody is told a consumer's type: it is as good as none.
    """
    return seen.replace(
        nodes={
            uuid: node.replace(traits=frozenset(filter(_is_known, node.traits)))
            for uuid, node in seen.nodes.items()
        },
        consumers={
            uuid: dataclasses.replace(
                item, consumer_type=item.consumer_type or allocation.UNKNOWN_TYPE
            )
            for uuid, item in seen.consumers.items()
        },
    )


def _only_known(changes: Sequence[change.Change]) -> list[change.Change]:
    """The changes without those traits."""
    found = []
    for item in changes:
        if item.kind == change.TRAITS:
            after = {name: has for name, has in item.after.items() if _is_known(name)}
            before = {name: item.before[name] for name in after}
            item = item.replace(before=before, after=after)
        if item.after:
            found.append(item)
    return found


def _is_known(trait: str) -> bool:
    return names.is_custom(trait) or trait in standard.traits()


def _failed(outcomes: Sequence[result.ChangeResult]) -> str:
    told = [
        f"{item.kind} {item.subject.name}: {item.status}, {item.reason}"
        for item in outcomes
        if item.status is not result.Status.PLANNED
    ]
    return "\n".join(["the rehearsal of the plan failed, so nothing was changed:", *told])
