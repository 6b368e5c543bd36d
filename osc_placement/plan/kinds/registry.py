"""The one table from kinds of change to requests: how each is read and written.

Called by ``settle``. A new kind of change is a new row here and new keys in ``change``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.client import api, api_errors, responses
from osc_placement.model import allocation
from osc_placement.plan import change
from osc_placement.plan.kinds import allocations, exchange, reshape as reshaped
from osc_placement.workflows.batch import inventory, membership


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """What one read told: every fact, and in ``whole`` what a write must repeat."""

    generation: int | None
    facts: change.Facts
    whole: Any = None


Reader = Callable[[api.Client, change.Change], Observed]
Writer = Callable[[api.Client, change.Change, Observed], Observed]
Guard = Callable[[api.Client, change.Change, Observed, Collection[str]], list[str]]
Intent = tuple[change.Change, Observed]


@dataclasses.dataclass(frozen=True, slots=True)
class BulkWrite:
    """How several changes go out in one request, all or none of them.

    ``group``: changes with an equal key may share a request, at most ``size`` of them.
    ``write`` sends it.
    """

    group: Callable[[change.Change], Hashable]
    write: Callable[[api.Client, Sequence[Intent]], None]
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeType:
    """``read`` and ``write`` send one request each and tell how it is; ``refusals`` at most one.

    Only a reshape is read by more (two for each provider and one for each consumer), and a
    provider that goes is looked at by three.
    ``refusals`` are asked when the thing is no longer at the generation it was planned on.
    ``together`` is there for kinds of which one request can write many. ``assumed`` tells
    what need not be read, since a write is refused where it is not so. ``in_parts``: it takes
    several requests, so that a cut connection or a kill may leave it between two states.
    """

    read: Reader
    write: Writer
    refusals: Guard | None = None
    together: BulkWrite | None = None
    assumed: Callable[[change.Change], Observed | None] | None = None
    in_parts: bool = False


def seen_inventories(observed: inventory.Observed) -> Observed:
    """What planning has read already, in the form in which a write needs it."""
    return _inventories(observed)


def seen_traits(observed: membership.Observed) -> Observed:
    """The same for traits; ``has`` must tell of all that the provider has."""
    names = tuple(name for name, has in observed.has.items() if has)
    return Observed(observed.generation, dict.fromkeys(names, True), names)


def _inventories(found: inventory.Observed | responses.ProviderInventories) -> Observed:
    facts = inventory.observed_facts(found.inventories)
    return Observed(found.generation, facts, found.inventories)


def _read_inventories(client: api.Client, item: change.Change) -> Observed:
    return _inventories(client.list_inventories(item.subject.uuid))


def _write_inventories(client: api.Client, item: change.Change, observed: Observed) -> Observed:
    renewed = inventory.amended(observed.whole, item.after)
    generation = observed.generation or 0
    return _inventories(client.replace_inventories(item.subject.uuid, generation, renewed))


def _refuse_inventories(
    client: api.Client, item: change.Change, observed: Observed, allow: Collection[str]
) -> list[str]:
    renewed = inventory.amended(observed.whole, item.after)
    usages = {}
    if inventory.loses_capacity(observed.whole, renewed):
        usages = client.list_usages(item.subject.uuid)
    return inventory.refusals(observed.whole, renewed, usages, allow)


def _traits(found: responses.ProviderTraits) -> Observed:
    return Observed(found.generation, dict.fromkeys(found.traits, True), found.traits)


def _read_traits(client: api.Client, item: change.Change) -> Observed:
    return _traits(client.list_provider_traits(item.subject.uuid))


def _write_traits(client: api.Client, item: change.Change, observed: Observed) -> Observed:
    names = _merged(observed.whole, item.after)
    generation = observed.generation or 0
    return _traits(client.replace_provider_traits(item.subject.uuid, generation, names))


def _aggregates(found: responses.ProviderAggregates) -> Observed:
    return Observed(found.generation, dict.fromkeys(found.aggregates, True), found.aggregates)


def _read_aggregates(client: api.Client, item: change.Change) -> Observed:
    client.require_feature("aggregate generation", "changing aggregates safely")
    return _aggregates(client.list_aggregates(item.subject.uuid))


def _write_aggregates(client: api.Client, item: change.Change, observed: Observed) -> Observed:
    uuids = _merged(observed.whole, item.after)
    return _aggregates(client.replace_aggregates(item.subject.uuid, observed.generation, uuids))


def _read_trait(client: api.Client, item: change.Change) -> Observed:
    name = item.subject.uuid
    return Observed(None, {name: client.trait_exists(name)})


def _write_trait(client: api.Client, item: change.Change, _: Observed) -> Observed:
    if item.after[item.subject.uuid]:
        client.create_trait(item.subject.uuid)
    else:
        client.delete_trait(item.subject.uuid)
    return Observed(None, item.after)


#: So many consumers are written by one request: a second's work for a server, and a
#: refusal is traced to its culprit in six more.
_CONSUMERS = 64


def seen_consumer(found: allocation.Consumer) -> Observed:
    """What planning has read of a consumer, in the form in which a write needs it."""
    return Observed(found.generation, allocations.facts(found))


def _assume_consumer(item: change.Change) -> Observed | None:
    """A consumer that was not there; the server refuses to make one anew that is."""
    return Observed(None, {}) if not _present(item.before) else None


def _read_consumer(client: api.Client, item: change.Change) -> Observed:
    client.require_feature("consumer generation", "changing allocations safely")
    return seen_consumer(client.show_allocations(item.subject.uuid))


def _write_consumer(client: api.Client, item: change.Change, observed: Observed) -> Observed:
    _for_consumers(client, item).replace_allocations(_renewed(item, observed))
    return Observed(None, _present(item.after))


def _write_consumers(client: api.Client, intents: Sequence[Intent]) -> None:
    renewed = [_renewed(item, observed) for item, observed in intents]
    _for_consumers(client, intents[0][0]).write_allocations(renewed)


def _for_consumers(client: api.Client, item: change.Change) -> api.Client:
    if allocations.sets_type(item):
        client.require_feature("consumer types", "setting a consumer type")
        return client
    return client.at(min(client.microversion, microversion.TYPE_STAYS))


def _renewed(item: change.Change, observed: Observed) -> allocation.Consumer:
    """The consumer as it shall be; one that shall have nothing keeps its owner to the end."""
    return allocations.read(item.subject.uuid, item.after, observed.generation, observed.facts)


def _present(facts: change.Facts) -> change.Facts:
    return {key: value for key, value in facts.items() if value is not None}


def _read_provider(client: api.Client, item: change.Change) -> Observed:
    client.require_feature("nested providers", "changing providers")
    try:
        found = client.show_provider(item.subject.uuid)
    except api_errors.NotFound:
        return Observed(None, {})
    return Observed(found.generation, {"name": found.name, "parent": found.parent_uuid})


def _refuse_provider(
    client: api.Client, item: change.Change, _: Observed, __: Collection[str]
) -> list[str]:
    """What somebody has put on a provider goes with it: only an empty one does."""
    if item.after.get("name", "") is not None:
        return []
    uuid = item.subject.uuid
    has = {
        "inventories": client.list_inventories(uuid).inventories,
        "traits": client.list_provider_traits(uuid).traits,
        "aggregates": client.list_aggregates(uuid).aggregates,
    }
    return [
        f"it is not empty: it has {what} {', '.join(names)}" for what, names in has.items() if names
    ]


def _write_provider(client: api.Client, item: change.Change, observed: Observed) -> Observed:
    """Made, deleted, renamed or put elsewhere: no generation guards any of it."""
    uuid = item.subject.uuid
    wanted = {**observed.facts, **item.after}
    name, parent = (None if value is None else str(value) for value in _identity(wanted))
    if name is None:
        client.delete_provider(uuid)
    elif not observed.facts:
        _create_provider(client, item, name, parent)
    elif parent == observed.facts["parent"]:
        client.update_provider(uuid, name)
    else:
        client.require_feature("re-parenting", "giving a provider another parent")
        client.update_provider(uuid, name, parent)
    return Observed(None, wanted)


def _create_provider(
    client: api.Client, item: change.Change, name: str, parent: str | None
) -> None:
    """Whoever runs the same plan may have made it first: then it is as it shall be."""
    try:
        client.create_provider(name, item.subject.uuid, parent)
    except api_errors.Conflict:
        if _read_provider(client, item).facts != {"name": name, "parent": parent}:
            raise


def _identity(facts: change.Facts) -> tuple[change.Value, change.Value]:
    return facts.get("name"), facts.get("parent")


def _read_reshape(client: api.Client, item: change.Change) -> Observed:
    seen = exchange.read(client, item.after)
    return Observed(None, reshaped.observed(item.after, seen), seen)


def _write_reshape(client: api.Client, item: change.Change, observed: Observed) -> Observed:
    exchange.write(client, item.after, observed.whole)
    return Observed(None, item.after)


def _merged(present: Collection[str], after: change.Facts) -> list[str]:
    """What is there, in its order, less what goes, and then what comes."""
    kept = [name for name in present if after.get(name, True)]
    return kept + [name for name, wanted in after.items() if wanted and name not in present]


CHANGE_TYPES: Mapping[str, ChangeType] = {
    change.INVENTORIES: ChangeType(_read_inventories, _write_inventories, _refuse_inventories),
    change.TRAITS: ChangeType(_read_traits, _write_traits),
    change.AGGREGATES: ChangeType(_read_aggregates, _write_aggregates),
    change.TRAIT: ChangeType(_read_trait, _write_trait),
    change.PROVIDER: ChangeType(_read_provider, _write_provider, _refuse_provider),
    change.RESHAPE: ChangeType(_read_reshape, _write_reshape),
    change.ALLOCATIONS: ChangeType(
        _read_consumer,
        _write_consumer,
        together=BulkWrite(allocations.sets_type, _write_consumers, _CONSUMERS),
        assumed=_assume_consumer,
    ),
}
