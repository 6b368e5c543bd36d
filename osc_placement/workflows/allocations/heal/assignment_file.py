"""The file in which an operator says which servers use which providers.

``{"<server uuid>": ["<provider name or uuid>", ...]}``, JSON; one provider may stand alone.
Called by the commands.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from osc_placement import errors
from osc_placement.model import name


def read(path: pathlib.Path) -> dict[str, frozenset[str]]:
    """``{server uuid: names or UUIDs of providers}``. Errors: InvalidInput with every fault."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.InvalidInput([f"{path} cannot be read: {error}"]) from error
    if not isinstance(document, dict):
        raise errors.InvalidInput([f"{path} is no object of the form {{server: [provider]}}"])
    faults = errors.InputErrors()
    found = {}
    for server, words in document.items():
        if not name.is_uuid(server):
            faults.add(f"{path}: {server!r} is no UUID of a server")
        elif not _are_words(words):
            faults.add(f"{path}: what {server} uses is no provider and no list of providers")
        else:
            found[name.canonical_uuid(server)] = frozenset(_listed(words))
    faults.check()
    return found


def _are_words(given: Any) -> bool:
    return bool(given) and all(isinstance(word, str) and word for word in _listed(given))


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]
