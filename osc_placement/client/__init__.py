# SPDX-License-Identifier: Apache-2.0
"""The Placement HTTP API as Python calls. The names of ``__all__`` are public and stable.

``connect`` opens a ``Client``, which has one method per request. ``read`` and ``on_conflict``
repeat requests, ``provider_uuids`` finds providers by name. Every error is a PlacementError.

Inside, ``transport`` sends requests, and ``wire`` converts between JSON of each microversion and
values.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

# osc-lib warns of itself. The programs that use this package may treat warnings as errors.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "The osc_lib.version module", DeprecationWarning)
    import osc_lib as _osc_lib  # noqa: F401

if TYPE_CHECKING:
    from osc_placement.client.api import UNCHANGED, Client
    from osc_placement.client.api_errors import (
        ApiError,
        Conflict,
        ConnectionFailed,
        GenerationConflict,
        NotFound,
        OutcomeUnknown,
        UnknownProvider,
        UnsupportedVersion,
    )
    from osc_placement.client.connection import connect
    from osc_placement.client.lookup import provider_uuids
    from osc_placement.client.retry import on_conflict, read
    from osc_placement.errors import InvalidInput, PlacementError
    from osc_placement.model.allocation import Consumer
    from osc_placement.model.inventory import Inventory
    from osc_placement.model.provider import Provider

__all__ = [
    "UNCHANGED",
    "ApiError",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Consumer",
    "GenerationConflict",
    "InvalidInput",
    "Inventory",
    "NotFound",
    "OutcomeUnknown",
    "PlacementError",
    "Provider",
    "UnknownProvider",
    "UnsupportedVersion",
    "connect",
    "on_conflict",
    "provider_uuids",
    "read",
]

#: Where the names are. They are imported late, because these modules import this package.
_MODULES = {
    **dict.fromkeys(("UNCHANGED", "Client"), "client.api"),
    "connect": "client.connection",
    "provider_uuids": "client.lookup",
    **dict.fromkeys(("on_conflict", "read"), "client.retry"),
    **dict.fromkeys(("InvalidInput", "PlacementError"), "errors"),
    "Consumer": "model.allocation",
    "Inventory": "model.inventory",
    "Provider": "model.provider",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"osc_placement.{_MODULES.get(name, 'client.api_errors')}")
    return getattr(module, name)
