# SPDX-License-Identifier: Apache-2.0
"""The JSON of plan files and journals, from the types of fields: its schema, writing, reading.

A field is a text, a number, a switch, a ``Mapping[str, ...]``, a ``tuple[..., ...]``, a named
tuple, an ``Inventory``, a ``JsonObject``, or one of these or None. Any other type is a state, whose
form only its kind of change knows::

    class CapacityChange(JsonObject):  {"type": "object", "required": ["before", "over"],
        before: int                     "properties": {"before": {"type": "integer"},
        over: tuple[str, ...] = ()       "over": {"type": "array", "items": {"type": "string"}}},
                                        "additionalProperties": False}
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from osc_placement.model.inventory import Inventory

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
OPTIONAL_TEXT: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
STATE: Schema = {"type": "object"}
_NUMBER: Schema = {"type": "number"}
_INVENTORY: Schema = {**STATE, "additionalProperties": _NUMBER, "required": ["total"]}
_BY_TYPE: Mapping[Any, Schema] = {
    str: TEXT,
    bool: FLAG,
    int: INTEGER,
    float: _NUMBER,
    Inventory: _INVENTORY,
}

#: A type with keywords of its schema.
Amount = Annotated[int, ("minimum", 0)]
Percent = Annotated[int | None, ("minimum", 0), ("maximum", 100)]

#: ``{provider uuid: {resource class: amount}}``
Allocations = Mapping[str, Mapping[str, Amount]]


def record(optional: Schema | None = None, /, **required: Schema) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


class JsonObject:
    """A dataclass that a file has as an object with its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        return {name: dump(getattr(self, name)) for name in _types(type(self))}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read ``to_dict``'s form; LookupError, TypeError or ValueError for anything else."""
        readers = {name: _reader(kind) for name, kind in _types(cls).items()}
        loaded = {name: read(document[name]) for name, read in readers.items() if read}
        return cls(**{**document, **loaded})

    @classmethod
    def schema(cls) -> Schema:
        """The JSON schema of ``to_dict``'s form."""
        return record(**{name: schema(kind) for name, kind in _types(cls).items()})


class Single(JsonObject):
    """A dataclass that a file has as its only field, a mapping."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        (only,) = super().to_dict().values()
        return dict(only)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read ``to_dict``'s form."""
        (name,) = _types(cls)
        return super().from_dict({name: document})

    @classmethod
    def schema(cls) -> Schema:
        """The JSON schema of ``to_dict``'s form."""
        (only,) = _types(cls).values()
        return schema(only)


def dump(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: dump(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        named = getattr(value, "_asdict", None)
        return named() if named else [dump(inner) for inner in value]
    return value.as_dict() if isinstance(value, Inventory) else value.to_dict()


def schema(kind: Any) -> Schema:
    """The JSON schema of a type."""
    kind, origin, inner = _parts(kind)
    if origin is Annotated:
        return {**schema(inner[0]), **dict(inner[1:])}
    if origin is types.UnionType:
        form = schema(inner[0])
        return {**form, "type": [form["type"], "null"]}
    if origin is tuple:
        return {"type": "array", "items": schema(inner[0])}
    if origin is not None:
        return {"type": "object", "additionalProperties": schema(inner[1])}
    if _is_named_tuple(kind):
        return record(**{name: schema(field) for name, field in _types(kind).items()})
    of_record: Callable[[], Schema] = getattr(kind, "schema", lambda: STATE)
    return _BY_TYPE[kind] if kind in _BY_TYPE else of_record()


def _parts(kind: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """A type, its origin and its arguments; of a generic object only the type."""
    origin = typing.get_origin(kind)
    if isinstance(origin, type) and issubclass(origin, JsonObject):
        return origin, None, ()
    return kind, origin, typing.get_args(kind)


def _types(kind: Any) -> dict[str, Any]:
    """``{field: type}`` of a dataclass or a named tuple."""
    return _resolved(kind)


@functools.cache
def _resolved(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    if _is_named_tuple(kind):
        return hints
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple)


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """What reads a value of a type; None if it is as JSON has it."""
    kind, origin, inner = _parts(kind)
    if origin is not None:
        read = _reader(inner[-1] if origin is Mapping else inner[0])
        if origin is tuple:
            return lambda items: tuple(map(read, items) if read else items)
        if read is None or origin is Annotated:
            return read
        of_one = read
        if origin is Mapping:
            return lambda values: {key: of_one(value) for key, value in values.items()}
        return lambda value: None if value is None else of_one(value)
    if _is_named_tuple(kind):
        return lambda fields: kind(**fields)
    from_dict: Callable[[Any], Any] | None = getattr(kind, "from_dict", None)
    return from_dict
