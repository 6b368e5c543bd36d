"""The file of ``--assign``: which providers the devices of servers are on.

``{"<server uuid>": ["<provider name or uuid>", ...]}`` in JSON; a single provider needs no list.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from osc_placement import errors
from osc_placement.model import name


def read(path: pathlib.Path) -> dict[str, frozenset[str]]:
    """``{server uuid: names or UUIDs of providers}``. Errors: InvalidInput with all errors."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.InvalidInput([f"{path} cannot be read: {error}"]) from error
    if not isinstance(document, dict):
        raise errors.InvalidInput([f"{path} is not an object of the form {{server: [provider]}}"])
    found_errors = errors.InputErrors()
    assigned = {}
    for server, value in document.items():
        providers = value if isinstance(value, list) else [value]
        if not name.is_uuid(server):
            found_errors.add(f"{path}: {server!r} is not the UUID of a server")
        elif not _are_names(providers):
            found_errors.add(f"{path}: the value of {server} is not a provider or a list of them")
        else:
            assigned[name.canonical_uuid(server)] = frozenset(providers)
    found_errors.check()
    return assigned


def _are_names(providers: list[Any]) -> bool:
    return bool(providers) and all(isinstance(each, str) and each for each in providers)
