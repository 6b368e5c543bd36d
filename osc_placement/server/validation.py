# SPDX-License-Identifier: Apache-2.0
"""Validation by a schema, with the error texts of python-jsonschema.

Placement's error texts are those of jsonschema, which takes up to a millisecond for a document.
fastjsonschema takes a few microseconds to accept the documents that are valid: most of them. It
reads ``$`` in patterns more strictly, so jsonschema decides about a document that it refuses,
unless the document is large.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from osc_placement.model.name import is_uuid
from osc_placement.server import http_errors

#: Values of a document up to which jsonschema explains the error.
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
        self._is_uuid = _is_uuid if lenient_uuids else _is_dashed_uuid

    @functools.cached_property
    def _require_valid(self) -> Callable[[Any], Any]:
        """A function that raises JsonSchemaValueException for an invalid document."""
        # The libraries are imported at the first use: commands on a file start without them.
        import fastjsonschema

        formats: Any = {"uuid": self._is_uuid}
        require: Callable[[Any], Any] = fastjsonschema.compile(
            self.definition, formats=formats, use_default=False
        )
        return require

    @functools.cached_property
    def _validator(self) -> Any:
        import jsonschema

        checker = jsonschema.FormatChecker(())
        checker.checks("uuid")(self._is_uuid)
        return jsonschema.Draft202012Validator(self.definition, format_checker=checker)

    def check(self, document: Any, prefix: str) -> None:
        """Raise HttpBadRequest with ``prefix`` and the most relevant error of the document.

        For a large document that is fastjsonschema's error, which is short.
        """
        from fastjsonschema import JsonSchemaValueException

        try:
            self._require_valid(document)
        except JsonSchemaValueException as refusal:
            short = http_errors.clip(refusal.message, MAX_QUOTED)
            text = short if _is_large(document) else self._explain(document)
        except (OverflowError, RecursionError) as unusable:
            text = str(unusable)
        else:
            return
        if text:
            raise http_errors.InvalidDocument(f"{prefix}{text}")

    def _explain(self, document: Any) -> str:
        """The text of the error; empty if jsonschema accepts the document."""
        from jsonschema import exceptions

        try:
            error = exceptions.best_match(self._validator.iter_errors(document))
        except (OverflowError, RecursionError) as unusable:
            return str(unusable)
        if error is None:
            return ""
        if len(repr(error.instance)) > MAX_QUOTED:
            error.message = http_errors.clip(error.message, MAX_QUOTED)
            error.instance = http_errors.clip(_SHORT.repr(error.instance), MAX_QUOTED)
        return str(error)


#: One schema, or ``{first microversion 1.x: schema}``.
Schemas = Schema | Mapping[int, Schema]


def at(schemas: Schemas, minor: int) -> Schema:
    """The schema at microversion 1.``minor``."""
    if isinstance(schemas, Schema):
        return schemas
    return schemas[max(since for since in schemas if since <= minor)]


def _is_large(document: Any) -> bool:
    """Whether a document has more than MAX_EXPLAINED values."""
    left = [document]
    for value in left:
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
            if len(left) > MAX_EXPLAINED:
                return True
    return False


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or is_uuid(value)


def _is_dashed_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return is_uuid(value) and all(value[at : at + 1] == "-" for at in (8, 13, 18, 23))
