# SPDX-License-Identifier: Apache-2.0
"""Request bodies: strict UTF-8, cheap validation of large documents, short quotations in errors."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from osc_placement import server
from osc_placement.server import context, http_errors, schemas, validation
from osc_placement.server.handlers import resource_class
from tests.support.in_process import ask

UUID = "00000000-0000-4000-8000-000000000001"
#: Calls of Python functions for 1 MiB, at most a few per value: an explanation of all values
#: by jsonschema takes millions.
MOST_CALLS = 500_000
MIB = 1 << 20

SCHEMAS: dict[str, validation.Schema] = {
    **{f"claim {minor}": schema for minor, schema in schemas.ALLOCATIONS_WRITE.items()},
    **{f"claims {minor}": schema for minor, schema in schemas.ALLOCATIONS_WRITE_MANY.items()},
    **{f"reshape {minor}": schema for minor, schema in schemas.RESHAPE.items()},
    **{f"provider {minor}": schema for minor, schema in schemas.PROVIDER_CREATE.items()},
    **{f"aggregates {minor}": schema for minor, schema in schemas.AGGREGATES.items()},
    "traits": schemas.TRAITS,
    "class": resource_class.CREATE,
    "inventory": schemas.INVENTORY_ADD,
    "inventories": schemas.INVENTORIES_REPLACE,
}


@contextlib.contextmanager
def counted_calls() -> Iterator[list[None]]:
    """One item for each call of a Python function in this block."""
    calls: list[None] = []

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls.append(None)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.fixture
def app() -> server.App:
    created = server.create_app()
    answer = ask(created, "/resource_providers", "POST", {"name": "one", "uuid": UUID})
    assert answer.status_int == 200
    return created


@pytest.mark.parametrize("surrogate", [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\\ud800", b"\\uDFFF"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/resource_providers", b'{"name": "%s"}'),
        ("POST", "/resource_providers", b'{"name": "a", "%s": 1}'),
        ("PUT", f"/resource_providers/{UUID}", b'{"name": "%s"}'),
        (
            "PUT",
            f"/allocations/{UUID}",
            b'{"allocations": {}, "project_id": "%s", "user_id": "u", "consumer_generation": null,'
            b' "consumer_type": "X"}',
        ),
    ],
)
def test_unpaired_surrogates_are_refused_before_any_change(
    app: server.App, method: str, path: str, body: bytes, surrogate: bytes
) -> None:
    before = app.export()
    assert ask(app, path, method, body % surrogate).status_int == 400
    assert app.export() == before


LARGE: dict[str, Callable[[int], Any]] = {
    "numbers": lambda size: [1] * (size // 3),
    "strings": lambda size: ["A"] * (size // 5),
    "one long string": lambda size: "A" * size,
    "one long key": lambda size: {"A" * size: 1},
    "unknown keys": lambda size: {f"key{number}": number for number in range(size // 20)},
    "invalid traits": lambda size: {
        "traits": [""] * (size // 4),
        "resource_provider_generation": 0,
    },
    "unknown traits": lambda size: {
        "traits": [f"T{number}" for number in range(size // 10)],
        "resource_provider_generation": 0,
    },
    "a last invalid trait": lambda size: {
        "traits": [*["A"] * (size // 5), 1],
        "resource_provider_generation": 0,
    },
    "nested lists": lambda size: {"traits": [[]] * (size // 4)},
    "nested objects": lambda size: {"traits": [{"a": {}}] * (size // 11)},
    "items that cannot be ordered": lambda size: {
        "aggregates": [{"a": number} for number in range(size // 16)],
        "resource_provider_generation": 0,
    },
    "names in place of UUIDs": lambda size: {
        "aggregates": [f"x{number}" for number in range(size // 10)],
        "resource_provider_generation": 0,
    },
}


@pytest.mark.parametrize("shape", LARGE)
def test_a_large_invalid_body_is_cheap_and_hardly_quoted(app: server.App, shape: str) -> None:
    document = LARGE[shape](MIB)
    part = "aggregates" if "aggregates" in document else "traits"
    with counted_calls() as calls:
        answer = ask(app, f"/resource_providers/{UUID}/{part}", "PUT", document)
    assert answer.status_int == 400
    assert len(answer.body) < 16_000
    assert len(calls) < MOST_CALLS


def test_the_number_of_values_is_limited(app: server.App) -> None:
    body = b"[" + b"[]," * context.MAX_VALUES + b"[]]"
    answer = ask(app, "/resource_providers", "POST", body)
    assert f"more than {context.MAX_VALUES} values" in answer.json["errors"][0]["detail"]


keys = st.sampled_from(
    [
        *("name", "uuid", "parent_provider_uuid", "inventories", "allocations", "resources"),
        *("resource_provider_generation", "project_id", "user_id", "consumer_generation", UUID),
        *("consumer_type", "mappings", "traits", "aggregates", "total", "VCPU", "resource_class"),
        *("allocation_ratio", "generation", "resource_provider", "x"),
    ]
)
scalars = st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | keys | st.text(max_size=3)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=15,
)


def accepts(schema: validation.Schema, document: Any) -> bool:
    try:
        schema.check(document, "")
    except http_errors.InvalidDocument:
        return False
    return True


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_document_is_valid_where_jsonschema_says_so(name: str) -> None:
    schema = SCHEMAS[name]

    @hypothesis.settings(max_examples=30, database=None)
    @hypothesis.given(documents)
    def check(document: Any) -> None:
        assert accepts(schema, document) == schema._validator.is_valid(document)

    check()


FIELDS = {
    "allocations": {UUID: {"resources": {"VCPU": 1}}},
    "project_id": "p",
    "user_id": "u",
    "consumer_generation": None,
    "mappings": {"_A": [UUID]},
    "consumer_type": "A",
}
OF_1_12 = ("allocations", "project_id", "user_id")
OF_1_28 = (*OF_1_12, "consumer_generation")


@pytest.mark.parametrize(
    ("minor", "required", "optional"),
    [
        (12, OF_1_12, ()),
        (28, OF_1_28, ()),
        (34, OF_1_28, ("mappings",)),
        (38, (*OF_1_28, "consumer_type"), ("mappings",)),
    ],
)
def test_allocations_have_exactly_the_fields_of_their_version(
    minor: int, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    schema = schemas.ALLOCATIONS_WRITE[minor]
    document = {name: FIELDS[name] for name in required}
    assert accepts(schema, document)
    assert accepts(schema, {**document, "allocations": {}}) == (minor >= 28)
    for name, value in FIELDS.items():
        rest = {key: other for key, other in document.items() if key != name}
        assert accepts(schema, rest) == (name not in required)
        assert accepts(schema, {**rest, name: value}) == (name in required + optional)


@pytest.mark.parametrize(
    ("schema", "document", "is_valid"),
    [
        (schemas.ALLOCATIONS_WRITE[0], {"allocations": []}, False),
        (schemas.ALLOCATIONS_WRITE_MANY[13], {}, False),
        (schemas.RESHAPE[30], {"inventories": {}, "allocations": {}}, False),
        (
            schemas.RESHAPE[30],
            {
                "inventories": {UUID: {"resource_provider_generation": 0, "inventories": {}}},
                "allocations": {},
            },
            True,
        ),
    ],
)
def test_only_the_allocations_of_a_reshape_may_be_empty(
    schema: validation.Schema, document: Any, is_valid: bool
) -> None:
    assert accepts(schema, document) == is_valid


def test_equal_items_are_not_unique_whatever_their_type() -> None:
    aggregates = {"aggregates": [{"a": 1}, {"a": 1.0}], "resource_provider_generation": 0}
    assert not accepts(schemas.AGGREGATES[19], aggregates)


def test_a_name_that_ends_with_a_line_feed_is_valid_as_in_placement() -> None:
    assert accepts(schemas.INVENTORY_ADD, {"resource_class": "CUSTOM_A\n", "total": 1})
    assert not accepts(schemas.INVENTORY_ADD, {"resource_class": "CUSTOM-A", "total": 1})


def test_the_error_of_a_large_document_is_that_of_its_first_invalid_part() -> None:
    claim = {
        "allocations": {},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "mappings": {"a": [*[UUID] * 2000, "not a UUID"]},
        "consumer_type": "A",
    }
    with pytest.raises(
        http_errors.InvalidDocument, match=r"data\.mappings\.a\[2000\] must be uuid"
    ):
        schemas.ALLOCATIONS_WRITE[38].check(claim, "")
