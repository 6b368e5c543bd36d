"""Checking a document against a schema, with python-jsonschema's own error texts."""

from __future__ import annotations

import functools
from typing import Any

import jsonschema
from jsonschema import exceptions

from osc_placement.model import name as names
from osc_placement.server import faults


class Schema:
    """A schema and, made at its first use, the validator for it.

    ``lenient_uuids`` takes UUIDs in any form, as bodies do; query strings want dashes.
    """

    def __init__(self, definition: dict[str, Any], lenient_uuids: bool = True) -> None:
        self.definition = definition
        self._lenient_uuids = lenient_uuids

    @functools.cached_property
    def _validator(self) -> jsonschema.Draft202012Validator:
        checker = jsonschema.FormatChecker(())
        checker.checks("uuid")(_is_uuid if self._lenient_uuids else _is_dashed_uuid)
        return jsonschema.Draft202012Validator(self.definition, format_checker=checker)

    def check(self, document: Any, prefix: str) -> None:
        """Raises BadRequest with ``prefix`` and the most telling fault of the document."""
        try:
            error = exceptions.best_match(self._validator.iter_errors(document))
        except (OverflowError, RecursionError) as unusable:
            raise faults.BadRequest(f"{prefix}{unusable}") from unusable
        if error is not None:
            raise faults.BadRequest(f"{prefix}{error}")


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or names.is_uuid(value)


def _is_dashed_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return names.is_uuid(value) and all(value[at : at + 1] == "-" for at in (8, 13, 18, 23))


def at(schemas: dict[int, Schema], minor: int) -> Schema:
    """The schema that holds at 1.``minor``: the latest that is not newer."""
    return schemas[max(since for since in schemas if since <= minor)]
