# SPDX-License-Identifier: Apache-2.0
"""An embedded Placement in memory with the state of a snapshot, for rehearsals.

It is the reference server: it accepts and refuses what Placement does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import uuid as uuid_module
from collections.abc import Callable, Collection, Iterator
from typing import Any

from osc_placement import errors, microversion, server
from osc_placement.client import api
from osc_placement.model import allocation
from osc_placement.model.name import is_custom
from osc_placement.server.store.errors import StoreError
from osc_placement.workflows import on_a_copy
from osc_placement.workflows.reshape import snapshot

_NAME = "the rehearsal"

#: The owner of the usage by consumers that are not in the snapshot.
_OTHERS = "others"


class CannotRehearse(errors.PlacementError):
    """The snapshot is not a valid state of the embedded Placement."""


@dataclasses.dataclass(frozen=True, slots=True)
class RehearsedRequest:
    """One write; ``body`` is the parsed JSON, None for an empty body."""

    method: str
    path: str
    body: Any


class Recorder:
    """A WSGI application that records the writes to a Placement."""

    def __init__(self, app: server.App) -> None:
        self.requests: list[RehearsedRequest] = []
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        method = environ["REQUEST_METHOD"]
        if method != "GET":
            content = environ["wsgi.input"].read()
            environ["wsgi.input"] = io.BytesIO(content)
            body = json.loads(content) if content else None
            self.requests.append(RehearsedRequest(method, environ["PATH_INFO"], body))
        return self._app(environ, start_response)

    def close(self) -> None:
        """Close the Placement."""
        self._app.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """A client of the embedded Placement, and the recorder of its writes."""

    client: api.Client
    recorder: Recorder


@contextlib.contextmanager
def embedded(
    trees: snapshot.TreeSnapshot, classes: Collection[str], version: microversion.Microversion
) -> Iterator[Stage]:
    """A Placement with the state of a snapshot, including generations, and these classes.

    Errors: CannotRehearse if the snapshot is not a valid state.
    """
    try:
        recorder = Recorder(server.create_app(load=_document(trees, classes)))
    except StoreError as error:
        raise CannotRehearse(f"the plan cannot be rehearsed: {error}") from error
    with on_a_copy.opened(lambda: recorder, _NAME, version) as client:
        yield Stage(client, recorder)


def _document(trees: snapshot.TreeSnapshot, classes: Collection[str]) -> dict[str, Any]:
    """The snapshot as a state document of the embedded server; ``classes`` are all that exist."""
    traits = {name for node in trees.nodes.values() for name in node.traits}
    return {
        "custom_resource_classes": sorted(filter(is_custom, classes)),
        "custom_traits": sorted(filter(is_custom, traits | trees.traits)),
        "providers": {uuid: _provider(node) for uuid, node in trees.nodes.items()},
        "consumers": {
            **{uuid: _consumer(item) for uuid, item in trees.consumers.items()},
            **_other_consumers(trees),
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
        "allocations": {uuid: dict(held) for uuid, held in item.allocations.items()},
        "generation": item.generation or 0,
        "project": item.project_id or _OTHERS,
        "user": item.user_id or _OTHERS,
        "type": item.consumer_type or allocation.UNKNOWN_TYPE,
    }


def _other_consumers(trees: snapshot.TreeSnapshot) -> dict[str, dict[str, Any]]:
    """One consumer per provider for the usage of all consumers that are not in the snapshot."""
    usage: dict[str, dict[str, int]] = {}
    for (uuid, resource_class), amount in trees.other_usage().items():
        usage.setdefault(uuid, {})[resource_class] = amount
    consumers = {}
    for uuid, resources in usage.items():
        key = str(uuid_module.uuid5(uuid_module.NAMESPACE_URL, f"osc-placement:others:{uuid}"))
        consumers[key] = _consumer(allocation.Consumer(key, {uuid: resources}, generation=0))
    return consumers
