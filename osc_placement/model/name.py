# SPDX-License-Identifier: Apache-2.0
"""The syntax of UUIDs, resource classes, traits and consumer types, and patterns of names."""

from __future__ import annotations

import fnmatch
import re
import uuid
from collections.abc import Iterable, Sequence

CUSTOM_PREFIX = "CUSTOM_"
MAX_NAME_LENGTH = 255

_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
_SYMBOL = re.compile(r"[A-Z0-9_]+")
#: The form of most UUIDs; a match is faster than uuid.UUID.
_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_uuid(text: str) -> bool:
    """Whether ``text`` is a UUID in a form that Placement accepts: any case, any dashes."""
    if isinstance(text, str) and is_canonical_uuid(text):
        return True
    try:
        return str(uuid.UUID(text)).replace("-", "") == _bare(text)
    except (AttributeError, TypeError, ValueError):
        return False


def is_canonical_uuid(text: str) -> bool:
    """Whether ``text`` is a UUID in lower case with dashes."""
    return _CANONICAL.fullmatch(text) is not None


def canonical_uuid(text: str) -> str:
    """The lower-case form with dashes. Raises ValueError if ``text`` is not a UUID."""
    return text if is_canonical_uuid(text) else str(uuid.UUID(text))


def is_custom(name: str) -> bool:
    """Whether ``name`` is a valid name of a custom trait or resource class."""
    return len(name) <= MAX_NAME_LENGTH and _CUSTOM.fullmatch(name) is not None


def is_symbol(name: str) -> bool:
    """Whether ``name`` is a valid name of a trait, a resource class or a consumer type."""
    return 0 < len(name) <= MAX_NAME_LENGTH and _SYMBOL.fullmatch(name) is not None


def matches_glob(name: str, globs: Iterable[str]) -> bool:
    """Whether a name matches one of the patterns, as in ``rack1-*``; in the same case."""
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def and_more(texts: Sequence[str], limit: int = 3) -> str:
    """``a, b, c and 4 more``: the first texts, and the number of the others."""
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 host``, ``2 hosts``, ``3 classes``: a number with its noun, or with its ``plural``."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {plural or noun + ('es' if noun.endswith('s') else 's')}"


def _bare(text: str) -> str:
    return text.lower().replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
