# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the whole state of the server as one JSON document, and checks its references.

``{"custom_resource_classes": [name], "custom_traits": [name],
"providers": {uuid: {name, parent, root, generation, inventories, traits, aggregates}},
"consumers": {uuid: {allocations, generation, project, user, type}}}``
"""

from __future__ import annotations

import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from osc_placement.engine import record, standard, state
from osc_placement.model import allocation, inventory, name as names
from osc_placement.server.store import errors

#: Placement keeps generations in 32 bits.
_LAST_GENERATION = 2**31 - 1

#: The longest name of a provider that Placement accepts.
_LONGEST_PROVIDER_NAME = 200

V = TypeVar("V")
R = TypeVar("R")

#: The keys of a document whose values are lists, and those whose values are objects.
_LISTS = ("custom_resource_classes", "custom_traits")
_OBJECTS = ("providers", "consumers")


def load_document(document: Any, now: float | None = None) -> record.Changes:
    """The records of a document; raises DocumentInvalid with all problems.

    ``now`` becomes the update time of the records, which the document does not have.
    """
    updated_at = time.time() if now is None else now
    _check_shape(document)

    def provider(uuid: str, fields: Mapping[str, Any]) -> record.ProviderRecord:
        return provider_record(
            uuid,
            fields["name"],
            fields["generation"],
            fields["root"],
            fields["parent"],
            read_inventories(fields["inventories"]),
            read_traits(fields["traits"]),
            read_aggregates(fields["aggregates"]),
            updated_at,
        )

    def consumer(uuid: str, fields: Mapping[str, Any]) -> record.ConsumerRecord:
        return consumer_record(
            uuid,
            fields["generation"],
            fields["project"],
            fields["user"],
            fields["type"],
            fields["allocations"],
            updated_at,
        )

    problems: list[str] = []
    changes = record.Changes(
        providers=read_records(document["providers"].items(), provider, "provider {}", problems),
        consumers=read_records(document["consumers"].items(), consumer, "consumer {}", problems),
        traits=dict.fromkeys(document["custom_traits"], updated_at),
        resource_classes=dict.fromkeys(document["custom_resource_classes"], updated_at),
    )
    problems.extend(find_problems(changes))
    if problems:
        raise errors.DocumentInvalid(problems)
    return changes


def read_records(
    items: Iterable[tuple[str, V]],
    read: Callable[[str, V], R],
    what: str,
    problems: list[str],
) -> dict[str, R]:
    """``{key: read(key, value)}``; what ``read`` refuses is added to ``problems``.

    ``what`` names the record in a problem, such as ``provider {}`` for the key.
    """
    records = {}
    for key, value in items:
        try:
            records[key] = read(key, value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problems.append(f"{what.format(key)}: {reason}")
    return records


def dump_document(base: state.CloudState) -> dict[str, Any]:
    """The whole state, in order of creation."""
    return {
        "custom_resource_classes": list(base.resource_classes),
        "custom_traits": list(base.traits),
        "providers": {
            provider.uuid: {
                "name": provider.name,
                "parent": provider.parent_uuid,
                "root": provider.root_uuid,
                "generation": provider.generation,
                "inventories": {
                    name: item.as_dict() for name, item in provider.inventories.items()
                },
                "traits": sorted(provider.traits),
                "aggregates": list(provider.aggregates),
            }
            for provider in base.providers.values()
        },
        "consumers": {
            consumer.uuid: {
                "allocations": consumer.allocations,
                "generation": consumer.generation,
                "project": consumer.project_id,
                "user": consumer.user_id,
                "type": consumer.consumer_type or allocation.UNKNOWN_TYPE,
            }
            for consumer in base.consumers.values()
        },
    }


def _check_shape(document: Any) -> None:
    if not isinstance(document, Mapping):
        raise errors.DocumentInvalid(["it is not a JSON object"])
    problems = [
        f"{key!r} is missing or not {word}"
        for keys, kind, word in ((_LISTS, list, "a list"), (_OBJECTS, Mapping, "an object"))
        for key in keys
        if not isinstance(document.get(key), kind)
    ]
    problems += [
        f"{key!r}: {name!r} is not a name"
        for key in _LISTS
        if isinstance(document.get(key), list)
        for name in document[key]
        if not isinstance(name, str) or not names.is_custom(name)
    ]
    if problems:
        raise errors.DocumentInvalid(problems)


def provider_record(
    uuid: Any,
    name: Any,
    generation: Any,
    root_uuid: Any,
    parent_uuid: Any,
    inventories: inventory.Inventories,
    traits: frozenset[str],
    aggregates: tuple[str, ...],
    updated_at: float,
) -> record.ProviderRecord:
    """The record of a provider. Raises ValueError for a value that it cannot have."""
    return record.ProviderRecord(
        uuid=_uuid(uuid),
        # A PUT accepts an empty name.
        name=_text(name, "name", _LONGEST_PROVIDER_NAME, least=0),
        generation=_generation(generation),
        root_uuid=_uuid(root_uuid),
        parent_uuid=None if parent_uuid is None else _uuid(parent_uuid),
        inventories=inventories,
        traits=traits,
        aggregates=aggregates,
        updated_at=updated_at,
    )


def read_inventories(value: Any) -> inventory.Inventories:
    """The inventories of a provider, from ``{class: {field: value}}``."""
    return {name: _inventory(name, fields) for name, fields in value.items()}


def read_traits(value: Any) -> frozenset[str]:
    """The traits of a provider, from a list."""
    return frozenset(_text(name, "trait") for name in value)


def read_aggregates(value: Any) -> tuple[str, ...]:
    """The aggregates of a provider, from a list."""
    return tuple(map(_aggregate, value))


def _inventory(name: str, fields: Mapping[str, Any]) -> inventory.Inventory:
    if not isinstance(fields, Mapping) or "total" not in fields:
        raise ValueError(f"{name}: {fields!r} is not an inventory: an object with a total")
    for field in inventory.INTEGER_FIELDS & fields.keys():
        _amount(fields[field], f"{name}: {field}")
    ratio = fields.get("allocation_ratio", 1.0)
    if type(ratio) not in (int, float) or not inventory.is_finite(ratio):
        raise ValueError(f"{name}: allocation_ratio {ratio!r} is not a number")
    item = inventory.Inventory.from_dict(fields)
    if item.step_size < 1:
        raise ValueError(f"{name}: step_size is less than 1")
    return item


def consumer_record(
    uuid: Any,
    generation: Any,
    project_id: Any,
    user_id: Any,
    consumer_type: Any,
    allocations: Any,
    updated_at: float,
) -> record.ConsumerRecord:
    """The record of a consumer. Raises ValueError for a value that it cannot have."""
    _text(consumer_type, "type")
    for resources in allocations.values():
        for name, amount in resources.items():
            _amount(amount, name)
    return record.ConsumerRecord(
        uuid=_uuid(uuid),
        generation=_generation(generation),
        project_id=_text(project_id, "project"),
        user_id=_text(user_id, "user"),
        allocations=allocations,
        consumer_type=None if consumer_type == allocation.UNKNOWN_TYPE else consumer_type,
        updated_at=updated_at,
    )


def _amount(value: Any, field: str) -> int:
    """The value, if it is an integer of at least 0; ``field`` names it in the ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{field} {reprlib.repr(value)} is not a natural number")
    return value


def _generation(value: Any) -> int:
    generation = _amount(value, "generation")
    if generation > _LAST_GENERATION:
        raise ValueError(f"generation {generation} is greater than {_LAST_GENERATION}")
    return generation


def _text(value: Any, field: str, longest: int = names.MAX_NAME_LENGTH, least: int = 1) -> str:
    if not isinstance(value, str) or len(value) < least:
        raise ValueError(f"{field} {reprlib.repr(value)} is not a text")
    if len(value) > longest:
        raise ValueError(f"{field} {reprlib.repr(value)} is longer than {longest} characters")
    return value


def _aggregate(value: Any) -> str:
    """A UUID in any form: aggregates are kept as sent."""
    if not isinstance(value, str) or not names.is_uuid(value):
        raise ValueError(f"{reprlib.repr(value)} is not a UUID")
    return value


def _uuid(value: Any) -> str:
    """A UUID in the canonical form, by which requests look it up."""
    if isinstance(value, str) and names.is_canonical_uuid(value):
        return value
    raise ValueError(f"{value!r} must be written as {names.canonical_uuid(_aggregate(value))!r}")


Providers = Mapping[str, record.ProviderRecord]


def find_problems(changes: record.Changes) -> list[str]:
    """All invalid references, each with its record."""
    traits = standard.traits() | changes.traits.keys()
    classes = {*standard.RESOURCE_CLASSES, *changes.resource_classes}
    providers = {uuid: item for uuid, item in changes.providers.items() if item is not None}
    consumers = [item for item in changes.consumers.values() if item is not None]
    problems = []
    for uuid, provider in providers.items():
        for name in sorted(provider.traits - traits):
            problems.append(f"provider {uuid}: trait {name} does not exist")
        for name in sorted(provider.inventories.keys() - classes):
            problems.append(f"provider {uuid}: resource class {name} does not exist")
    problems += [*_duplicate_names(providers), *_broken_trees(providers)]
    for consumer in consumers:
        problems += _missing_inventories(consumer, providers)
    return problems


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
        is_root = provider.root_uuid == provider.uuid
        return None if is_root else "it has no parent, but its root is another provider"
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
