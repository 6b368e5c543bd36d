"""Validation by a schema, with the error texts of python-jsonschema."""

from __future__ import annotations

import functools
import reprlib
from typing import Any

from osc_placement.model import name as names
from osc_placement.server import http_errors
from osc_placement.server.schemas import compiled

#: Values of an invalid part up to which jsonschema explains the error.
MAX_EXPLAINED = 1000
#: Characters of a document that an error text quotes.
MAX_QUOTED = 1024

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = MAX_QUOTED


class Schema:
    """A schema and, from its first use, its validators.

    ``lenient_uuids`` accepts UUIDs in any form, as bodies do; query strings need dashes.
    """

    def __init__(self, definition: dict[str, Any], lenient_uuids: bool = True) -> None:
        self.definition = definition
        self._formats = {"uuid": _is_uuid if lenient_uuids else _is_dashed_uuid}

    @functools.cached_property
    def _is_valid(self) -> compiled.Check:
        return compiled.compile_schema(self.definition, self._formats)

    @functools.cached_property
    def _validator(self) -> Any:
        # The import takes as long as a small command, and most documents are valid.
        from osc_placement.server.schemas import error_text

        return error_text.validator(self.definition, self._formats["uuid"])

    def check(self, document: Any, prefix: str) -> None:
        """Raise BadRequest with ``prefix`` and the most relevant error of the document.

        For a large document that is the error of its first invalid part.
        """
        try:
            text = "" if self._is_valid(document) else self._explain(document)
        except (OverflowError, RecursionError) as unusable:
            raise http_errors.InvalidDocument(f"{prefix}{unusable}") from unusable
        if text:
            raise http_errors.InvalidDocument(f"{prefix}{text}")

    def _explain(self, document: Any) -> str:
        schema: Any = self.definition
        path: list[str | int] = []
        if _is_large(document):
            schema, document, path = compiled.first_invalid(schema, document, self._formats)
        if _is_large(document):
            return f"{_quote(document)} is not valid"
        from osc_placement.server.schemas import error_text

        error = error_text.most_relevant(self._validator, schema, document)
        if error is None:
            return ""
        error.relative_path.extendleft(reversed(path))
        if len(repr(error.instance)) > MAX_QUOTED:
            error.message = http_errors.clip(error.message, MAX_QUOTED)
            error.instance = _quote(error.instance)
        return str(error)


def _is_large(document: Any) -> bool:
    """Whether a document has more than MAX_EXPLAINED values."""
    left = [document]
    for value in left:
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
            if len(left) > MAX_EXPLAINED:
                return True
    return False


def _quote(document: Any) -> str:
    return http_errors.clip(_SHORT.repr(document), MAX_QUOTED)


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or names.is_uuid(value)


def _is_dashed_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return names.is_uuid(value) and all(value[at : at + 1] == "-" for at in (8, 13, 18, 23))


def at(schemas: dict[int, Schema], minor: int) -> Schema:
    """The schema at microversion 1.``minor``."""
    return schemas[max(since for since in schemas if since <= minor)]
