"""How things are named: UUIDs, custom resource classes, custom traits, consumer types."""

from __future__ import annotations

import re
import uuid

CUSTOM_PREFIX = "CUSTOM_"
MAX_NAME_LENGTH = 255

_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
_SYMBOL = re.compile(r"[A-Z0-9_]+")


def is_uuid(text: str) -> bool:
    """Whether ``text`` is a UUID in any of the forms that Placement takes.

    Dashes and the case of the hexadecimal digits do not matter.
    """
    try:
        return str(uuid.UUID(text)).replace("-", "") == _bare(text)
    except (AttributeError, TypeError, ValueError):
        return False


def canonical_uuid(text: str) -> str:
    """The dashed, lower-case form; raises ValueError for what is no UUID."""
    return str(uuid.UUID(text))


def is_custom(name: str) -> bool:
    """Whether ``name`` is well formed as an operator's own trait or resource class."""
    return len(name) <= MAX_NAME_LENGTH and _CUSTOM.fullmatch(name) is not None


def is_symbol(name: str) -> bool:
    """Whether ``name`` could name a trait, a resource class or a consumer type at all."""
    return 0 < len(name) <= MAX_NAME_LENGTH and _SYMBOL.fullmatch(name) is not None


def _bare(text: str) -> str:
    return text.lower().replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
