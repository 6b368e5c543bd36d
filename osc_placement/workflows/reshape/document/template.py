"""One document for many trees: ``$root`` stands for the name of each tree's root. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

from osc_placement.workflows.reshape.document import values

_WORDS = ("${root}", "$root")


def is_template(document: values.Document) -> bool:
    """Whether a document speaks of ``$root`` anywhere."""
    return filled(document, "") != document


def filled(document: values.Document, root: str) -> values.Document:
    """The document for the tree of one root."""
    found: values.Document = _filled(document, root)
    return found.replace(source=document.source)


def filled_text(text: str, root: str) -> str:
    """A name with the root's in place of ``$root``."""
    for word in _WORDS:
        text = text.replace(word, root)
    return text


def _filled(part: Any, root: str) -> Any:
    if isinstance(part, str):
        return filled_text(part, root)
    if isinstance(part, tuple):
        return tuple(_filled(item, root) for item in part)
    if isinstance(part, dict):
        return {_filled(key, root): _filled(value, root) for key, value in part.items()}
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return type(part)(**{name: _filled(value, root) for name, value in fields.items()})
    return part
