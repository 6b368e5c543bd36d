"""The whole state as one JSON document, in and out, generations included.

``{"custom_resource_classes": [name], "custom_traits": [name],
"providers": {uuid: {name, parent, root, generation, inventories, traits, aggregates}},
"consumers": {uuid: {allocations, generation, project, user, type}}}``
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from osc_placement.engine import record, state
from osc_placement.model import allocation, inventory
from osc_placement.server.store import errors

_LISTS = ("custom_resource_classes", "custom_traits")
_OBJECTS = ("providers", "consumers")


def load_document(document: Any, now: float | None = None) -> record.Changes:
    """The records of a document; raises DocumentInvalid with all that is wrong with it.

    ``now`` stamps the records, which the document does not date.
    """
    stamp = time.time() if now is None else now
    _check_shape(document)
    faults: list[str] = []
    providers: dict[str, record.ProviderRecord | None] = {}
    consumers: dict[str, record.ConsumerRecord | None] = {}
    for uuid, fields in document["providers"].items():
        try:
            providers[uuid] = _provider(uuid, fields, stamp)
        except (KeyError, TypeError, AttributeError) as error:
            faults.append(f"provider {uuid}: {_reason(error)}")
    for uuid, fields in document["consumers"].items():
        try:
            consumers[uuid] = _consumer(uuid, fields, stamp)
        except (KeyError, TypeError, AttributeError) as error:
            faults.append(f"consumer {uuid}: {_reason(error)}")
    changes = record.Changes(
        providers=providers,
        consumers=consumers,
        traits=dict.fromkeys(document["custom_traits"], stamp),
        resource_classes=dict.fromkeys(document["custom_resource_classes"], stamp),
    )
    faults.extend(_dangling(changes))
    if faults:
        raise errors.DocumentInvalid(faults)
    return changes


def dump_document(base: state.State) -> dict[str, Any]:
    """The whole state, in the order of creation."""
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
        raise errors.DocumentInvalid(["it is no JSON object"])
    faults = [
        f"{key!r} is missing or not {word}"
        for keys, kind, word in ((_LISTS, list, "a list"), (_OBJECTS, Mapping, "an object"))
        for key in keys
        if not isinstance(document.get(key), kind)
    ]
    if faults:
        raise errors.DocumentInvalid(faults)


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _provider(uuid: str, fields: Mapping[str, Any], stamp: float) -> record.ProviderRecord:
    return record.ProviderRecord(
        uuid=uuid,
        name=fields["name"],
        generation=fields["generation"],
        root_uuid=fields["root"],
        parent_uuid=fields["parent"],
        inventories={
            name: inventory.Inventory.from_dict(item)
            for name, item in fields["inventories"].items()
        },
        traits=frozenset(fields["traits"]),
        aggregates=tuple(fields["aggregates"]),
        updated_at=stamp,
    )


def _consumer(uuid: str, fields: Mapping[str, Any], stamp: float) -> record.ConsumerRecord:
    consumer_type = fields["type"]
    return record.ConsumerRecord(
        uuid=uuid,
        generation=fields["generation"],
        project_id=fields["project"],
        user_id=fields["user"],
        allocations={
            provider_uuid: dict(resources)
            for provider_uuid, resources in fields["allocations"].items()
        },
        consumer_type=None if consumer_type == allocation.UNKNOWN_TYPE else consumer_type,
        updated_at=stamp,
    )


def _dangling(changes: record.Changes) -> list[str]:
    """References of the records to what the document does not hold."""
    known = state.State()
    known.traits.update(dict.fromkeys(changes.traits, 0.0))
    known.resource_classes.update(dict.fromkeys(changes.resource_classes, 0.0))
    faults = []
    for provider in filter(None, changes.providers.values()):
        where = f"provider {provider.uuid}"
        for kind, other in (("parent", provider.parent_uuid), ("root", provider.root_uuid)):
            if other is not None and other not in changes.providers:
                faults.append(f"{where}: {kind} {other} is not in the document")
        faults += [
            f"{where}: no trait {name}" for name in provider.traits if not known.knows_trait(name)
        ]
        faults += [
            f"{where}: no resource class {name}"
            for name in provider.inventories
            if not known.knows_resource_class(name)
        ]
    for consumer in filter(None, changes.consumers.values()):
        for provider_uuid, resources in consumer.allocations.items():
            holder = changes.providers.get(provider_uuid)
            offered = holder.inventories if holder is not None else {}
            faults += [
                f"consumer {consumer.uuid}: {provider_uuid} offers no {name}"
                for name in resources
                if name not in offered
            ]
    return faults
