"""Validation by a schema, with the error texts of python-jsonschema."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema import exceptions, validators

from osc_placement.model import name as names
from osc_placement.server import http_errors


class Schema:
    """A schema and, from its first use, its validator.

    ``lenient_uuids`` accepts UUIDs in any form, as bodies do; query strings need dashes.
    """

    def __init__(self, definition: dict[str, Any], lenient_uuids: bool = True) -> None:
        self.definition = definition
        self._lenient_uuids = lenient_uuids

    @functools.cached_property
    def _validator(self) -> Any:
        checker = jsonschema.FormatChecker(())
        checker.checks("uuid")(_is_uuid if self._lenient_uuids else _is_dashed_uuid)
        return _validator_class()(self.definition, format_checker=checker)

    def check(self, document: Any, prefix: str) -> None:
        """Raise BadRequest with ``prefix`` and the most relevant error of the document."""
        try:
            error = exceptions.best_match(self._validator.iter_errors(document))
            text = "" if error is None else str(error)
        except (OverflowError, RecursionError) as unusable:
            raise http_errors.BadRequest(f"{prefix}{unusable}") from unusable
        if text:
            raise http_errors.BadRequest(f"{prefix}{text}")


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
    if len({_hashable(item) for item in instance}) < len(instance):
        yield exceptions.ValidationError(f"{instance!r} has non-unique elements")


def _hashable(item: Any) -> Any:
    """A value that is equal for equal JSON: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(item, bool):
        return "bool", item
    if isinstance(item, list):
        return tuple(map(_hashable, item))
    if isinstance(item, dict):
        return frozenset((key, _hashable(value)) for key, value in item.items())
    return item


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or names.is_uuid(value)


def _is_dashed_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return names.is_uuid(value) and all(value[at : at + 1] == "-" for at in (8, 13, 18, 23))


def at(schemas: dict[int, Schema], minor: int) -> Schema:
    """The schema at microversion 1.``minor``."""
    return schemas[max(since for since in schemas if since <= minor)]
