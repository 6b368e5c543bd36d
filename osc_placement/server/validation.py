"""Validation by a schema, with the error texts of python-jsonschema."""

from __future__ import annotations

import functools
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from osc_placement.model import name as names
from osc_placement.server import http_errors

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
    def _is_valid(self) -> Check:
        return compile_schema(self.definition, self._formats)

    @functools.cached_property
    def _validator(self) -> Any:
        # The import takes as long as a small command, and most documents are valid.
        return jsonschema_validator(self.definition, self._formats["uuid"])

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
            schema, document, path = first_invalid(schema, document, self._formats)
        if _is_large(document):
            return f"{_quote(document)} is not valid"
        error = most_relevant(self._validator, schema, document)
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


Check = Callable[[Any], bool]

_PLAIN_STRING = {"type", "minLength", "maxLength"}
_TYPES: dict[str, Check] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}


def compile_schema(schema: Mapping[str, Any], formats: Mapping[str, Check]) -> Check:
    """A function that returns whether a value is valid; ``formats`` checks strings by format."""
    if schema.keys() <= _PLAIN_STRING and schema.get("type") == "string":
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
        return lambda value: isinstance(value, str) and shortest <= len(value) <= longest
    checks: list[Check] = []
    if "type" in schema:
        checks.append(_any_type(schema["type"]))
    if "enum" in schema:
        checks.append(schema["enum"].__contains__)
    if "anyOf" in schema:
        options = [compile_schema(option, formats) for option in schema["anyOf"]]
        checks.append(lambda value: any(option(value) for option in options))
    checks += _string_checks(schema, formats)
    checks += _number_checks(schema)
    if {"items", "minItems", "uniqueItems"} & schema.keys():
        checks.append(_array_check(schema, formats))
    if {"properties", "patternProperties", "required", "minProperties"} & schema.keys():
        checks.append(_object_check(schema, formats))
    return checks[0] if len(checks) == 1 else _all_of(checks)


def _all_of(checks: list[Check]) -> Check:
    def check_all(value: Any) -> bool:
        for check in checks:  # noqa: SIM110 - a hot path, without a generator
            if not check(value):
                return False
        return True

    return check_all


def first_invalid(
    schema: Mapping[str, Any], value: Any, formats: Mapping[str, Check]
) -> tuple[Mapping[str, Any], Any, list[str | int]]:
    """``(schema, value, path)`` of the first invalid part of a value, without invalid children."""
    checks: dict[int, Check] = {}
    for key, definition, member in _children(schema, value):
        check = checks.get(id(definition))
        if check is None:
            check = checks[id(definition)] = compile_schema(definition, formats)
        if not check(member):
            found, part, path = first_invalid(definition, member, formats)
            return found, part, [key, *path]
    return schema, value, []


def _children(
    schema: Mapping[str, Any], value: Any
) -> Iterator[tuple[str | int, Mapping[str, Any], Any]]:
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield number, schema["items"], item
    elif isinstance(value, dict):
        patterns = schema.get("patternProperties", {}).items()
        for key, member in value.items():
            if key in schema.get("properties", {}):
                yield key, schema["properties"][key], member
            for pattern, definition in patterns:
                if re.search(pattern, key):
                    yield key, definition, member


def hashable(item: Any) -> Any:
    """A value that is equal for equal JSON: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(item, bool):
        return "bool", item
    if isinstance(item, list):
        return tuple(map(hashable, item))
    if isinstance(item, dict):
        return frozenset((key, hashable(value)) for key, value in item.items())
    return item


def _any_type(names: str | list[str]) -> Check:
    checks = [_TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    if len(checks) == 1:
        return checks[0]
    return lambda value: any(check(value) for check in checks)


def _string_checks(schema: Mapping[str, Any], formats: Mapping[str, Check]) -> list[Check]:
    checks: list[Check] = []
    if "minLength" in schema or "maxLength" in schema:
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
        checks.append(lambda value: shortest <= len(value) <= longest)
    if "pattern" in schema:
        search = re.compile(schema["pattern"]).search
        checks.append(lambda value: search(value) is not None)
    if "format" in schema:
        checks.append(formats[schema["format"]])
    if not checks:
        return []
    check_all = _all_of(checks)
    return [lambda value: not isinstance(value, str) or check_all(value)]


def _number_checks(schema: Mapping[str, Any]) -> list[Check]:
    if not {"minimum", "maximum"} & schema.keys():
        return []
    is_number = _TYPES["number"]
    low, high = schema.get("minimum", -float("inf")), schema.get("maximum", float("inf"))
    # Negated comparisons, because jsonschema accepts a NaN.
    return [lambda value: not is_number(value) or not (value < low or value > high)]


def _array_check(schema: Mapping[str, Any], formats: Mapping[str, Check]) -> Check:
    item = compile_schema(schema.get("items", {}), formats)
    shortest, unique = schema.get("minItems", 0), schema.get("uniqueItems", False)

    def check(value: Any) -> bool:
        if not isinstance(value, list):
            return True
        if len(value) < shortest or not all(map(item, value)):
            return False
        return not unique or len(set(map(hashable, value))) == len(value)

    return check


def _object_check(schema: Mapping[str, Any], formats: Mapping[str, Check]) -> Check:
    properties = {
        name: compile_schema(definition, formats)
        for name, definition in schema.get("properties", {}).items()
    }
    patterns = [
        (re.compile(pattern).search, compile_schema(definition, formats))
        for pattern, definition in schema.get("patternProperties", {}).items()
    ]
    required = frozenset(schema.get("required", ()))
    fewest, is_closed = schema.get("minProperties", 0), schema.get("additionalProperties") is False

    def check(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        if len(value) < fewest or not required <= value.keys():
            return False
        for key, member in value.items():
            is_known = key in properties
            if is_known and not properties[key](member):
                return False
            for search, matches in patterns:
                if search(key):
                    is_known = True
                    if not matches(member):
                        return False
            if is_closed and not is_known:
                return False
        return True

    return check


def jsonschema_validator(definition: dict[str, Any], is_uuid: Callable[[object], bool]) -> Any:
    """A validator of jsonschema for a schema with the format ``uuid``."""
    import jsonschema

    checker = jsonschema.FormatChecker(())
    checker.checks("uuid")(is_uuid)
    return _validator_class()(definition, format_checker=checker)


def most_relevant(found: Any, schema: Any, document: Any) -> Any:
    """The most relevant error by a validator, for a part of its schema; None if there is none."""
    from jsonschema import exceptions

    return exceptions.best_match(found.evolve(schema=schema).iter_errors(document))


@functools.cache
def _validator_class() -> Any:
    import jsonschema
    from jsonschema import validators

    extend: Any = validators.extend
    return extend(jsonschema.Draft202012Validator, {"uniqueItems": _check_unique})


def _check_unique(found: Any, unique: bool, instance: Any, _: Any) -> Iterator[Any]:
    """Replaces the library's check, which takes quadratic time for items that cannot be ordered."""
    from jsonschema import exceptions

    if not (unique and found.is_type(instance, "array")):
        return
    if len({hashable(item) for item in instance}) < len(instance):
        yield exceptions.ValidationError(f"{instance!r} has non-unique elements")
