# SPDX-License-Identifier: Apache-2.0
"""The public API for tests of other projects that use Placement.

* ``LoopbackPlacement`` and ``InProcessPlacement``: a Placement on a port, or without a socket;
* ``Cloud()``: its content; ``sample_cloud("12-hosts")``: that of a sample cloud;
* ``random_cloud(random.Random(seed))``: a random one; ``shrink``: the part of it that still fails;
* ``traffic``: the requests it received, faults, and changes between a read and a write;
* ``RecordedServices``: nova and neutron with the recorded responses of a sample cloud;
* ``pytest_plugin``: pytest fixtures, which pytest loads where this package is installed.

A release note announces every change of these names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from osc_placement.samples.sample import (
    UnknownSample,
    sample_cloud,
    sample_cloud_names,
    sample_nova,
)

if TYPE_CHECKING:
    from osc_placement.server.store.errors import DocumentInvalid, StoreError
    from osc_placement.testing.cloud import Cloud, uuid_of
    from osc_placement.testing.random_clouds import random_cloud, shrink
    from osc_placement.testing.service import (
        InProcessPlacement,
        LoopbackPlacement,
        RecordedServices,
    )

__all__ = [
    "Cloud",
    "DocumentInvalid",
    "InProcessPlacement",
    "LoopbackPlacement",
    "RecordedServices",
    "StoreError",
    "UnknownSample",
    "random_cloud",
    "sample_cloud",
    "sample_cloud_names",
    "sample_nova",
    "shrink",
    "uuid_of",
]

#: Names that import the server. pytest imports this module in every run.
_MODULES = {
    "Cloud": "testing.cloud",
    "uuid_of": "testing.cloud",
    "random_cloud": "testing.random_clouds",
    "shrink": "testing.random_clouds",
    "DocumentInvalid": "server.store.errors",
    "StoreError": "server.store.errors",
    "InProcessPlacement": "testing.service",
    "LoopbackPlacement": "testing.service",
    "RecordedServices": "testing.service",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"osc_placement.{_MODULES[name]}"), name)
