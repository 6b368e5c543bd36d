"""The most relevant error of an invalid document, found by python-jsonschema."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
from jsonschema import exceptions, validators

from osc_placement.server.schemas import compiled


def validator(definition: dict[str, Any], is_uuid: Callable[[object], bool]) -> Any:
    """A validator of jsonschema for a schema with the format ``uuid``."""
    checker = jsonschema.FormatChecker(())
    checker.checks("uuid")(is_uuid)
    return _validator_class()(definition, format_checker=checker)


def most_relevant(found: Any, schema: Any, document: Any) -> exceptions.ValidationError | None:
    """The most relevant error by a validator, for a part of its schema; None if there is none."""
    error: exceptions.ValidationError | None
    error = exceptions.best_match(found.evolve(schema=schema).iter_errors(document))
    return error


@functools.cache
def _validator_class() -> Any:
    extend: Any = validators.extend
    return extend(jsonschema.Draft202012Validator, {"uniqueItems": _check_unique})


def _check_unique(
    found: Any, unique: bool, instance: Any, _: Any
) -> Iterator[exceptions.ValidationError]:
    """Replaces the library's check, which takes quadratic time for items that cannot be ordered."""
    if not (unique and found.is_type(instance, "array")):
        return
    if len({compiled.hashable(item) for item in instance}) < len(instance):
        yield exceptions.ValidationError(f"{instance!r} has non-unique elements")
