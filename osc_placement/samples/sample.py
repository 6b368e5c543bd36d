# SPDX-License-Identifier: Apache-2.0
"""The sample clouds of this package, by name. Standard library only."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

_PLACEMENT = "placement-"
_NOVA = "nova-"


class UnknownSample(LookupError):
    """No sample has that name; the message lists the names."""


def sample_cloud_names() -> list[str]:
    """The names of the sample clouds, sorted: ``["12-hosts", "200-hosts"]``."""
    return _names(_PLACEMENT)


def sample_cloud(name: str) -> dict[str, Any]:
    """The placement state of a sample cloud; a new document for each call.

    Shape: ``{"providers": {uuid: {name, parent, root, generation, inventories,
    traits, aggregates}}, "consumers": {uuid: {project, user, type, generation,
    allocations: {provider uuid: {resource class: amount}}}},
    "custom_resource_classes": [...], "custom_traits": [...]}``, the format of
    ``osc-placement-server --load``.

    Raises UnknownSample for a name that is not in ``sample_cloud_names()``.
    """
    return _read(_PLACEMENT, name)


def sample_nova(name: str) -> dict[str, Any]:
    """Recorded responses of nova and neutron for a sample cloud: ``{"GET /path": body}``.

    Only ``12-hosts`` has them. Raises UnknownSample for any other name.
    """
    return _read(_NOVA, name)


def _names(kind: str) -> list[str]:
    files = (resources.files(__package__) / "data").iterdir()
    names = (
        file.name.removeprefix(kind).removesuffix(".json")
        for file in files
        if file.name.startswith(kind)
    )
    return sorted(names, key=lambda name: (len(name), name))


def _read(kind: str, name: str) -> dict[str, Any]:
    names = _names(kind)
    if name not in names:
        raise UnknownSample(f"unknown sample cloud {name!r}; choose from {', '.join(names)}")
    text = (resources.files(__package__) / "data" / f"{kind}{name}.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document
