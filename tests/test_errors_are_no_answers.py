# SPDX-License-Identifier: Apache-2.0
"""An error of a service never becomes an empty value, except where its meaning is that one.

The syntax of the product: each ``except`` for an error of a service whose block only returns
an empty value, or goes on with the next item. ``RIGHT`` says why such a place is right.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

import osc_placement

ROOT = pathlib.Path(osc_placement.__file__).parent

#: Errors that say that a service did not answer, or that it refused.
ERRORS = {
    "ApiError",
    "BadRequest",
    "ConnectionFailed",
    "Exception",
    "Forbidden",
    "GlanceRefused",
    "NeutronRefused",
    "NotFound",
    "NotKnown",
    "NovaRefused",
    "PlacementError",
    "ServiceRefused",
    "TimedOut",
    "UnexpectedResponse",
}

#: ``{module: function}`` and why an error is an answer there.
RIGHT: dict[tuple[str, str], str] = {
    ("client/api.py", "trait_exists"): "404 of a name",
    ("client/api.py", "resource_class_exists"): "404 of a name",
    (
        "client/lookup.py",
        "providers_with_trait",
    ): "400 of an unknown trait",
    ("offline/app.py", "_names"): "a database without the table has no names",
    ("plan/apply.py", "_narrow_undo"): "a file of this computer, whose loss the run reports",
    ("plan/attempt.py", "_write"): "the attempt keeps the error, and reads again",
    ("plan/kinds/provider.py", "write"): "what a concurrent run created is read and compared",
    ("scheduling/api_rules.py", "_property"): "the property cannot be there",
    ("v1/explain/explain.py", "_host_aggregates"): "only the names that stand beside UUIDs",
    ("v1/resources/allocation.py", "_server_names"): "only names; a line says why they are missing",
    ("v1/resources/provider.py", "row"): "404 of a provider that was deleted meanwhile",
    ("v1/resources/trait.py", "_updated"): "404 of a name that was deleted meanwhile",
    ("nova/api.py", "host_aggregate_uuids"): "all aggregates are read one by one then",
    ("workflows/batch/batch.py", "_usages_in_bulk"): "each provider is read by itself then",
    (
        "workflows/cloud/nova_request.py",
        "with_trait",
    ): "400 of an unknown trait",
    (
        "workflows/cloud/reading.py",
        "attempt",
    ): "404 of what is not listed any more",
    (
        "workflows/explain/explain.py",
        "proved",
    ): "it is left out, and counted",
    ("workflows/health/metrics.py", "_hosts"): "a series has the error",
    (
        "workflows/repair/allocations/observe.py",
        "_read_summaries",
    ): "each host is read then",
    ("workflows/repair/migrations/registry.py", "_migrate"): "the result has the failure",
    ("workflows/snapshot/nova.py", "_read_all"): "the recording has the reason",
    ("workflows/snapshot/save.py", "check"): "404 of a provider: it is read again",
    ("workflows/snapshot/save.py", "read_allocations"): "404 of a provider: it is read again",
}


def names(node: ast.expr | None) -> Iterator[str]:
    """The classes that an ``except`` catches, without their modules."""
    if isinstance(node, ast.Tuple):
        for item in node.elts:
            yield from names(item)
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id


def is_empty(node: ast.expr | None) -> bool:
    """Whether an expression is None, False, zero, or an empty text or container."""
    if node is None:
        return True
    if isinstance(node, ast.Constant):
        return not node.value
    if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set):
        return not ast.unparse(node).strip("[](){}")
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        return ast.unparse(node.func) in {"dict", "frozenset", "list", "set", "tuple"}
    return False


def hides(body: list[ast.stmt]) -> bool:
    """Whether a block ends with an empty value, or with nothing."""
    last = body[-1]
    if any(isinstance(node, ast.Raise) for part in body for node in ast.walk(part)):
        # Some of the errors go on: what is left is chosen by its status.
        return isinstance(last, ast.Return) and is_empty(last.value)
    if isinstance(last, ast.Return):
        return is_empty(last.value)
    return isinstance(last, ast.Pass | ast.Continue)


def hiding(source: str) -> Iterator[str]:
    """The functions that turn an error of a service into an empty value."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        caught: list[str] = []
        if isinstance(node, ast.ExceptHandler) and hides(node.body):
            caught += names(node.type)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            caught += (name for item in node.args for name in names(item))
        if not ERRORS.isdisjoint(caught):
            yield function
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(ast.parse(source), "")


def test_no_error_of_a_service_becomes_an_empty_value() -> None:
    places = {
        (str(path.relative_to(ROOT)), function)
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] not in ("server", "engine", "testing")
        for function in hiding(path.read_text())
    }
    assert places == RIGHT.keys()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("return []", True),
        ("return None", True),
        ("return", True),
        ("return frozenset()", True),
        ("continue", True),
        ("LOG.info(error)\n        return {}", True),
        ("if error.status != 404:\n            raise\n        return None", True),
        ("raise", False),
        ("return str(error)", False),
        ("notes.append(str(error))", False),
    ],
)
def test_such_a_place_is_recognized(block: str, expected: bool) -> None:
    source = (
        "def read():\n  for one in ():\n    try:\n      ask()\n"
        f"    except api_errors.ApiError as error:\n        {block}\n"
    )
    assert bool([*hiding(source)]) is expected
