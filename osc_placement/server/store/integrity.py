"""Whether the records of a loaded document can be a Placement's state: the references hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from osc_placement.engine import record, state

Providers = Mapping[str, record.ProviderRecord]


def find_problems(changes: record.Changes) -> list[str]:
    """Everything that is wrong between the records, each with where it stands."""
    known = state.State()
    known.traits.update(dict.fromkeys(changes.traits, 0.0))
    known.resource_classes.update(dict.fromkeys(changes.resource_classes, 0.0))
    providers = {uuid: found for uuid, found in changes.providers.items() if found is not None}
    consumers = [found for found in changes.consumers.values() if found is not None]
    return [
        *(fault for provider in providers.values() for fault in _unknown_names(provider, known)),
        *_doubled_names(providers),
        *_broken_trees(providers),
        *(fault for consumer in consumers for fault in _unfounded(consumer, providers)),
    ]


def _unknown_names(provider: record.ProviderRecord, known: state.State) -> Iterator[str]:
    where = f"provider {provider.uuid}"
    for name in provider.traits:
        if not known.knows_trait(name):
            yield f"{where}: no trait {name}"
    for name in provider.inventories:
        if not known.knows_resource_class(name):
            yield f"{where}: no resource class {name}"


def _doubled_names(providers: Providers) -> Iterator[str]:
    seen: dict[str, str] = {}
    for provider in providers.values():
        other = seen.setdefault(provider.name, provider.uuid)
        if other != provider.uuid:
            yield f"provider {provider.uuid}: {other} has the name {provider.name!r}, too"


def _broken_trees(providers: Providers) -> Iterator[str]:
    """Parents and roots that are missing, that contradict each other, or go in a circle."""
    children: dict[str, list[str]] = {}
    reached = []
    for provider in providers.values():
        fault = _misplaced(provider, providers)
        if fault:
            yield f"provider {provider.uuid}: {fault}"
        if provider.parent_uuid in providers:
            children.setdefault(str(provider.parent_uuid), []).append(provider.uuid)
        else:
            reached.append(provider.uuid)
    for uuid in reached:
        reached.extend(children.get(uuid, ()))
    for uuid in providers.keys() - set(reached):
        yield f"provider {uuid}: its parents go in a circle"


def _misplaced(provider: record.ProviderRecord, providers: Providers) -> str | None:
    if provider.root_uuid not in providers:
        return f"root {provider.root_uuid} is not in the document"
    if provider.parent_uuid is None:
        own = provider.root_uuid == provider.uuid
        return None if own else "it has no parent, and another root than itself"
    if provider.parent_uuid not in providers:
        return f"parent {provider.parent_uuid} is not in the document"
    if providers[provider.parent_uuid].root_uuid != provider.root_uuid:
        return "its root is not its parent's"
    return None


def _unfounded(consumer: record.ConsumerRecord, providers: Providers) -> Iterator[str]:
    for uuid, resources in consumer.allocations.items():
        offered = providers[uuid].inventories if uuid in providers else {}
        for name in resources:
            if name not in offered:
                yield f"consumer {consumer.uuid}: {uuid} offers no {name}"
