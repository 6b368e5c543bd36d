"""Whether the references between the records of a state are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from osc_placement.engine import record, state

Providers = Mapping[str, record.ProviderRecord]


def find_problems(changes: record.Changes) -> list[str]:
    """All invalid references, each with its record."""
    known = state.State()
    known.traits.update(dict.fromkeys(changes.traits, 0.0))
    known.resource_classes.update(dict.fromkeys(changes.resource_classes, 0.0))
    providers = {uuid: found for uuid, found in changes.providers.items() if found is not None}
    consumers = [found for found in changes.consumers.values() if found is not None]
    return [
        *(
            problem
            for provider in providers.values()
            for problem in _unknown_names(provider, known)
        ),
        *_duplicate_names(providers),
        *_broken_trees(providers),
        *(
            problem
            for consumer in consumers
            for problem in _missing_inventories(consumer, providers)
        ),
    ]


def _unknown_names(provider: record.ProviderRecord, known: state.State) -> Iterator[str]:
    where = f"provider {provider.uuid}"
    for name in provider.traits:
        if not known.knows_trait(name):
            yield f"{where}: trait {name} does not exist"
    for name in provider.inventories:
        if not known.knows_resource_class(name):
            yield f"{where}: resource class {name} does not exist"


def _duplicate_names(providers: Providers) -> Iterator[str]:
    seen: dict[str, str] = {}
    for provider in providers.values():
        other = seen.setdefault(provider.name, provider.uuid)
        if other != provider.uuid:
            yield f"provider {provider.uuid}: provider {other} also has the name {provider.name!r}"


def _broken_trees(providers: Providers) -> Iterator[str]:
    """Parents and roots that are missing, contradict each other, or form a cycle."""
    children: dict[str, list[str]] = {}
    connected = []
    for provider in providers.values():
        problem = _tree_problem(provider, providers)
        if problem:
            yield f"provider {provider.uuid}: {problem}"
        if provider.parent_uuid in providers:
            children.setdefault(str(provider.parent_uuid), []).append(provider.uuid)
        else:
            connected.append(provider.uuid)
    for uuid in connected:
        connected.extend(children.get(uuid, ()))
    for uuid in providers.keys() - set(connected):
        yield f"provider {uuid}: its parents form a cycle"


def _tree_problem(provider: record.ProviderRecord, providers: Providers) -> str | None:
    if provider.root_uuid not in providers:
        return f"root {provider.root_uuid} does not exist"
    if provider.parent_uuid is None:
        own = provider.root_uuid == provider.uuid
        return None if own else "it has no parent, but its root is another provider"
    if provider.parent_uuid not in providers:
        return f"parent {provider.parent_uuid} does not exist"
    if providers[provider.parent_uuid].root_uuid != provider.root_uuid:
        return "its root differs from its parent's root"
    return None


def _missing_inventories(consumer: record.ConsumerRecord, providers: Providers) -> Iterator[str]:
    for uuid, resources in consumer.allocations.items():
        inventories = providers[uuid].inventories if uuid in providers else {}
        for name in resources:
            if name not in inventories:
                yield f"consumer {consumer.uuid}: provider {uuid} has no inventory of {name}"
