# SPDX-License-Identifier: Apache-2.0
"""The whole state as one JSON document, generations included.

``{"custom_resource_classes": [name], "custom_traits": [name],
"providers": {uuid: {name, parent, root, generation, inventories, traits, aggregates}},
"consumers": {uuid: {allocations, generation, project, user, type}}}``
"""

from __future__ import annotations

import math
import reprlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement.engine import record, state
from osc_placement.model import allocation, inventory, name as names
from osc_placement.server.store import errors

#: Placement keeps generations in 32 bits.
_LAST_GENERATION = 2**31 - 1

#: The longest name of a provider that Placement accepts.
_LONGEST_PROVIDER_NAME = 200

_LISTS = ("custom_resource_classes", "custom_traits")
_OBJECTS = ("providers", "consumers")


def load_document(document: Any, now: float | None = None) -> record.Changes:
    """The records of a document; raises DocumentInvalid with all problems.

    ``now`` becomes the update time of the records, which the document does not have.
    """
    stamp = time.time() if now is None else now
    _check_shape(document)
    problems: list[str] = []
    providers: dict[str, record.ProviderRecord | None] = {}
    consumers: dict[str, record.ConsumerRecord | None] = {}
    for uuid, fields in document["providers"].items():
        try:
            providers[uuid] = provider_record(uuid, fields, stamp)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(f"provider {uuid}: {reason(error)}")
    for uuid, fields in document["consumers"].items():
        try:
            consumers[uuid] = consumer_record(uuid, fields, stamp)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(f"consumer {uuid}: {reason(error)}")
    changes = record.Changes(
        providers=providers,
        consumers=consumers,
        traits=dict.fromkeys(document["custom_traits"], stamp),
        resource_classes=dict.fromkeys(document["custom_resource_classes"], stamp),
    )
    problems.extend(find_problems(changes))
    if problems:
        raise errors.DocumentInvalid(problems)
    return changes


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
        for name in _items(document.get(key))
        if not isinstance(name, str) or not names.is_custom(name)
    ]
    if problems:
        raise errors.DocumentInvalid(problems)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def reason(error: Exception) -> str:
    """The text of an error of ``provider_record`` or ``consumer_record``."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def provider_record(uuid: str, fields: Mapping[str, Any], stamp: float) -> record.ProviderRecord:
    parent = fields["parent"]
    return record.ProviderRecord(
        uuid=_uuid(uuid),
        name=_text(fields["name"], "name", _LONGEST_PROVIDER_NAME),
        generation=_generation(fields["generation"]),
        root_uuid=_uuid(fields["root"]),
        parent_uuid=None if parent is None else _uuid(parent),
        inventories={
            name: inventory_of(name, item) for name, item in fields["inventories"].items()
        },
        traits=frozenset(_text(name, "trait") for name in fields["traits"]),
        aggregates=tuple(_aggregate(aggregate) for aggregate in fields["aggregates"]),
        updated_at=stamp,
    )


def inventory_of(name: str, fields: Mapping[str, Any]) -> inventory.Inventory:
    for field in inventory.INTEGER_FIELDS & fields.keys():
        _amount(fields[field], f"{name}: {field}")
    ratio = fields.get("allocation_ratio", 1.0)
    if type(ratio) not in (int, float) or not math.isfinite(ratio):
        raise ValueError(f"{name}: allocation_ratio {ratio!r} is not a number")
    read = inventory.Inventory.from_dict(fields)
    if read.step_size < 1:
        raise ValueError(f"{name}: step_size is less than 1")
    return read


def consumer_record(uuid: str, fields: Mapping[str, Any], stamp: float) -> record.ConsumerRecord:
    consumer_type = _text(fields["type"], "type")
    return record.ConsumerRecord(
        uuid=_uuid(uuid),
        generation=_generation(fields["generation"]),
        project_id=_text(fields["project"], "project"),
        user_id=_text(fields["user"], "user"),
        allocations={
            provider_uuid: {name: _amount(amount, name) for name, amount in resources.items()}
            for provider_uuid, resources in fields["allocations"].items()
        },
        consumer_type=None if consumer_type == allocation.UNKNOWN_TYPE else consumer_type,
        updated_at=stamp,
    )


def _amount(value: Any, field: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{field} {reprlib.repr(value)} is not a natural number")
    return value


def _generation(value: Any) -> int:
    if _amount(value, "generation") > _LAST_GENERATION:
        raise ValueError(f"generation {value} is greater than {_LAST_GENERATION}")
    return int(value)


def _text(value: Any, field: str, longest: int = names.MAX_NAME_LENGTH) -> str:
    if not isinstance(value, str) or not value:
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
    names = state.CloudState()
    names.traits.update(dict.fromkeys(changes.traits, 0.0))
    names.resource_classes.update(dict.fromkeys(changes.resource_classes, 0.0))
    providers = {uuid: item for uuid, item in changes.providers.items() if item is not None}
    consumers = [item for item in changes.consumers.values() if item is not None]
    return [
        *(
            problem
            for provider in providers.values()
            for problem in _unknown_names(provider, names)
        ),
        *_duplicate_names(providers),
        *_broken_trees(providers),
        *(
            problem
            for consumer in consumers
            for problem in _missing_inventories(consumer, providers)
        ),
    ]


def _unknown_names(provider: record.ProviderRecord, names: state.CloudState) -> Iterator[str]:
    where = f"provider {provider.uuid}"
    for name in provider.traits:
        if not names.knows_trait(name):
            yield f"{where}: trait {name} does not exist"
    for name in provider.inventories:
        if not names.knows_resource_class(name):
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
