# SPDX-License-Identifier: Apache-2.0
"""Nova's provider configuration files: what they say about custom inventories and traits.

The schema is that of nova's documentation, "Managing Resource Providers Using Config Files". It
accepts and refuses the same files as nova-compute, which leaves the values of amounts to Placement.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import json_text

#: In a file, the compute nodes of the host that has the file.
COMPUTE_NODE = "$COMPUTE_NODE"

_UUID = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
_CUSTOM = "^CUSTOM_[A-Z0-9_]{0,248}$"
_AMOUNTS = ("total", "reserved", "min_unit", "max_unit", "step_size")
_INVENTORY = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in _AMOUNTS},
        "allocation_ratio": {"type": "number"},
    },
    "required": ["total"],
    "additionalProperties": False,
}
_PROVIDER = {
    "type": "object",
    "properties": {
        "identification": {
            "type": "object",
            "properties": {
                "uuid": {"anyOf": [{"type": "string", "pattern": _UUID}, {"const": COMPUTE_NODE}]},
                "name": {"type": "string", "minLength": 1, "maxLength": 200},
            },
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
        "inventories": {
            "type": "object",
            "properties": {
                "additional": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "patternProperties": {_CUSTOM: _INVENTORY},
                        "additionalProperties": False,
                    },
                }
            },
        },
        "traits": {
            "type": "object",
            "properties": {
                "additional": {"type": "array", "items": {"type": "string", "pattern": _CUSTOM}}
            },
        },
    },
    "required": ["identification"],
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "meta": {
            "type": "object",
            "properties": {"schema_version": {"type": "string", "pattern": r"^1\.\d+$"}},
            "required": ["schema_version"],
        },
        "providers": {"type": "array", "items": _PROVIDER},
    },
    "required": ["meta"],
}


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderConfig:
    """``{provider: names}`` of all files; a provider is a name, a UUID or COMPUTE_NODE."""

    inventories: Mapping[str, frozenset[str]]
    traits: Mapping[str, frozenset[str]]


def read(paths: Iterable[pathlib.Path]) -> ProviderConfig:
    """Read and validate files. Errors: InvalidInput with every error, by file and place."""
    input_errors = errors.InputErrors()
    documents = []
    for path in paths:
        try:
            documents.append(_parse(json_text.read_bytes(path).decode(), str(path)))
        except (OSError, UnicodeDecodeError) as error:
            reason = errors.file_reason(error)
            input_errors.add(f"--provider-config {path} cannot be read: {reason}")
        except ValueError as error:
            input_errors.add(f"--provider-config {error}")
    input_errors.check()
    entries = [entry for document in documents for entry in document.get("providers", ())]
    return ProviderConfig(
        _merged(
            (entry, (name for item in _additional(entry, "inventories") for name in item))
            for entry in entries
        ),
        _merged((entry, _additional(entry, "traits")) for entry in entries),
    )


def _parse(text: str, source: str) -> Mapping[str, Any]:
    """The validated document. Errors: ValueError with the file."""
    # Imported here: most commands read no such file.
    import jsonschema

    from osc_placement.model import yaml_lines

    try:
        # nova-compute takes the last of repeated keys.
        document = yaml_lines.load(text, source, repeated_keys=True).data
    except errors.InvalidInput as error:
        raise ValueError("; ".join(error.reasons)) from error
    if document is None:
        raise ValueError(
            f"{source}: it is empty: it needs 'meta' with a schema_version, such as '1.0'"
        )
    validator = jsonschema.Draft202012Validator(_SCHEMA)
    problems = [
        f"{error.json_path.removeprefix('$.')}: {error.message}"
        for error in validator.iter_errors(document)
    ]
    problems = problems or list(_defined_twice(document))
    if problems:
        raise ValueError(f"{source}: {'; '.join(problems)}")
    checked: Mapping[str, Any] = document
    return checked


def _defined_twice(document: Mapping[str, Any]) -> Iterator[str]:
    """Providers with several entries; nova ignores entries without inventories and traits."""
    counts = collections.Counter(
        provider
        for entry in document.get("providers", ())
        if _additional(entry, "inventories") or _additional(entry, "traits")
        for provider in entry["identification"].values()
    )
    for provider, count in counts.items():
        if count > 1:
            yield f"providers: {provider} is defined {count} times, and must be defined once"


def _additional(entry: Mapping[str, Any], part: str) -> list[Any]:
    return list(entry.get(part, {}).get("additional", ()))


def _merged(
    entries: Iterable[tuple[Mapping[str, Any], Iterable[str]]],
) -> dict[str, frozenset[str]]:
    merged: dict[str, frozenset[str]] = {}
    for entry, names in entries:
        (provider,) = entry["identification"].values()
        merged[provider] = merged.get(provider, frozenset()) | frozenset(names)
    return merged
