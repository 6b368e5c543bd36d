"""Validation by a schema, with the error texts of python-jsonschema."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema import exceptions, validators

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
        checker = jsonschema.FormatChecker(())
        checker.checks("uuid")(self._formats["uuid"])
        return _validator_class()(self.definition, format_checker=checker)

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
        errors = self._validator.evolve(schema=schema).iter_errors(document)
        error = exceptions.best_match(errors)
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


@functools.cache
def _validator_class() -> Any:
    extend: Any = validators.extend
    return extend(jsonschema.Draft202012Validator, {"uniqueItems": _check_unique})


def _check_unique(
    validator: Any, unique: bool, instance: Any, _: Any
) -> Iterator[exceptions.ValidationError]:
    """Replaces the library's check, which takes quadratic time for items that cannot be ordered."""
    if not (unique and validator.is_type(instance, "array")):
        return
    if len({compiled.hashable(item) for item in instance}) < len(instance):
        yield exceptions.ValidationError(f"{instance!r} has non-unique elements")


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or names.is_uuid(value)


def _is_dashed_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return names.is_uuid(value) and all(value[at : at + 1] == "-" for at in (8, 13, 18, 23))


def at(schemas: dict[int, Schema], minor: int) -> Schema:
    """The schema at microversion 1.``minor``."""
    return schemas[max(since for since in schemas if since <= minor)]
