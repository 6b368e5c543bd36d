"""A consumer's allocations as facts: ``{"<provider uuid>:VCPU": 2, "project_id": ...}``.

Whole: what is not named is not there. Pure; ``kind`` reads and writes with it, planners of
allocations make their changes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.model import allocation
from osc_placement.plan import change
from osc_placement.plan.kinds import base

PROJECT, USER, TYPE = "project_id", "user_id", "consumer_type"
_OWNER = frozenset({PROJECT, USER, TYPE})

#: So many consumers are written by one request: a second's work for a server, and a
#: refusal is traced to its culprit in six more.
_CONSUMERS = 64

TYPE_STAYS = "a consumer's type cannot be unset"


def facts(consumer: allocation.Consumer) -> dict[str, change.Value]:
    """All of a consumer; nothing at all for one without allocations, which does not exist."""
    amounts: dict[str, change.Value] = {
        f"{provider_uuid}:{resource_class}": amount
        for provider_uuid, resources in sorted(consumer.allocations.items())
        for resource_class, amount in sorted(resources.items())
    }
    if not amounts:
        return {}
    owner = {
        PROJECT: consumer.project_id,
        USER: consumer.user_id,
        TYPE: consumer.consumer_type,
    }
    return {**amounts, **{key: value for key, value in owner.items() if value is not None}}


def read(
    uuid: str, whole: change.Facts, generation: int | None, owner: change.Facts | None = None
) -> allocation.Consumer:
    """The consumer that facts speak of; ``owner`` tells whose it is where they do not."""
    allocations: dict[str, dict[str, int]] = {}
    for key, value in whole.items():
        if key not in _OWNER and isinstance(value, int):
            provider_uuid, _, resource_class = key.rpartition(":")
            allocations.setdefault(provider_uuid, {})[resource_class] = value
    told = {key: _text(whole.get(key) or (owner or {}).get(key)) for key in _OWNER}
    return allocation.Consumer(
        uuid,
        allocations,
        project_id=told[PROJECT],
        user_id=told[USER],
        generation=generation,
        consumer_type=told[TYPE],
    )


def planned(
    name: str,
    before: allocation.Consumer,
    after: allocation.Consumer,
    **fields: Any,
) -> change.Change:
    """The change from one state of a consumer to another; ``name`` is what people know it by.

    It was decided on ``before.generation``, None for a consumer that does not exist yet.
    ``fields`` are Change's others. A change of type is not reversible, and says so.
    """
    was, becomes = facts(before), facts(after)
    keys = dict.fromkeys([*was, *becomes])
    if was and becomes and was.get(TYPE) != becomes.get(TYPE):
        fields = {"irreversible": TYPE_STAYS, **fields}
    return change.Change(
        change.ALLOCATIONS,
        change.Subject(name, before.uuid),
        {key: was.get(key) for key in keys},
        {key: becomes.get(key) for key in keys},
        generation=before.generation,
        **fields,
    )


def sets_type(item: change.Change) -> bool:
    """Whether a write must name a consumer type: a new one's, or another than it has.

    From 1.38 on a write must, and ``unknown`` cannot be named; a write at 1.37 keeps what is
    stored, which is ``unknown`` for a new consumer.
    """
    wanted = item.after.get(TYPE)
    return wanted not in {None, allocation.UNKNOWN_TYPE, item.before.get(TYPE)}


def _text(value: change.Value) -> str | None:
    return None if value is None else str(value)


def observed(found: allocation.Consumer) -> change.Observed:
    """What planning has read of a consumer, in the form in which a write needs it."""
    return change.Observed(found.generation, facts(found))


def _assume_consumer(item: change.Change) -> change.Observed | None:
    """A consumer that was not there; the server refuses to make one anew that is."""
    return change.Observed(None, {}) if not _present(item.before) else None


def _read_consumer(client: api.Client, item: change.Change) -> change.Observed:
    client.require_feature("consumer generation", "changing allocations safely")
    return observed(client.show_allocations(item.subject.uuid))


def _write_consumer(
    client: api.Client, item: change.Change, seen: change.Observed
) -> change.Observed:
    _for_consumers(client, item).replace_allocations(_renewed(item, seen))
    return change.Observed(None, _present(item.after))


def _write_consumers(client: api.Client, intents: Sequence[base.Intent]) -> None:
    renewed = [_renewed(item, seen) for item, seen in intents]
    _for_consumers(client, intents[0][0]).write_allocations(renewed)


def _for_consumers(client: api.Client, item: change.Change) -> api.Client:
    if sets_type(item):
        client.require_feature("consumer types", "setting a consumer type")
        return client
    return client.at(min(client.microversion, microversion.TYPE_STAYS))


def _renewed(item: change.Change, seen: change.Observed) -> allocation.Consumer:
    """The consumer as it shall be; one that shall have nothing keeps its owner to the end."""
    return read(item.subject.uuid, item.after, seen.generation, seen.facts)


def _present(facts: change.Facts) -> change.Facts:
    return {key: value for key, value in facts.items() if value is not None}


CHANGE_TYPE = base.ChangeType(
    _read_consumer,
    _write_consumer,
    together=base.BulkWrite(sets_type, _write_consumers, _CONSUMERS),
    assumed=_assume_consumer,
)
