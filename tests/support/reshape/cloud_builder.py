# SPDX-License-Identifier: Apache-2.0
"""Small clouds from one line per provider: as a state document and as a snapshot."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from osc_placement import testing
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.reshape import observe, snapshot
from tests.support import embedded
from tests.support.embedded import uuid_of

#: ``{name: (parent's name, {class: total or fields})}``
Providers = Mapping[str, tuple[str | None, Mapping[str, Any]]]
#: ``{name: {provider's name: {class: amount}}}``
Consumers = Mapping[str, Mapping[str, Mapping[str, int]]]


def state(
    providers: Providers, consumers: Consumers, traits: Mapping[str, list[str]] | None = None
) -> dict[str, Any]:
    """The state document for the reference server; all generations differ."""
    kit = testing.Cloud()
    for name, (parent, offers) in providers.items():
        kit.host(name, parent=parent, traits=(traits or {}).get(name, ()), **offers)
    for number, (name, allocations) in enumerate(consumers.items(), 1):
        kit.server(name, allocations, type="INSTANCE" if number % 2 else "unknown")
    document = kit.document()
    for number, fields in enumerate(document["providers"].values(), 3):
        fields["generation"] = number
    for number, fields in enumerate(document["consumers"].values(), 1):
        fields["generation"] = number
    return document


def snapshot_of(document: Mapping[str, Any], *roots: str) -> snapshot.TreeSnapshot:
    """The snapshot of the trees of these roots."""
    client = embedded.Client(load=document)
    return observe.read_trees(client, [*map(uuid_of, roots)], ReadContext(workers=1))


def without_generations(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the state for comparison."""
    found: dict[str, Any] = copy.deepcopy(dict(document))
    for part in ("providers", "consumers"):
        for item in found[part].values():
            del item["generation"]
    found["custom_traits"] = sorted(found["custom_traits"])
    return found
