# SPDX-License-Identifier: Apache-2.0
"""Names and lists of names."""

from __future__ import annotations

import ast
import itertools
import pathlib
import re

import pytest

from osc_placement.model import name

ROOT = pathlib.Path(__file__).parents[3]


def test_a_long_list_of_names_ends_with_the_number_of_the_others() -> None:
    assert name.and_more(["a", "b", "c"]) == "a, b, c"
    assert name.and_more(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert name.and_more(["a", "b"], limit=1) == "a and 1 more"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 queries"), (1, "1 query"), (2, "2 queries"), (1000, "1000 queries")]
)
def test_a_number_agrees_with_its_noun(number: int, text: str) -> None:
    assert name.counted(number, "query", "queries") == text
    assert name.counted(number, "host") == f"{number} host" + "s" * (number != 1)


#: Nouns that messages count, and the fields of flavors, which are no nouns.
_COUNTED = re.compile(
    r" (?:[a-z-]+ )?(aggregates|allocations|candidates|changes|classes|commands|connections"
    r"|consumers|devices|findings|flavors|groups|hosts|members|migrations|nodes|objects|problems"
    r"|providers|queries|requests|rows|servers|traits|units)\b"
)

#: ``{module: beginnings of texts}`` after a value that is no number, or not 1. Upstream says
#: "Failed ... for 1 of 1 resource providers".
_NOT_COUNTED = {
    "osc_placement/scheduling/request.py": (" requests no ", " suffixed groups but no "),
    # This folder may not import the model.
    "osc_placement/offline/users.py": (" connections",),
    "osc_placement/v1/output/tables.py": (" rows",),
    "osc_placement/v1/resources/provider_aggregate.py": (" resource providers.",),
    "osc_placement/workflows/repair/providers/inventory.py": (" hosts have the trait ",),
    "osc_placement/workflows/reshape/replace_host.py": (" nodes: the recipe supports ",),
}


def _counted_by_hand(path: pathlib.Path) -> list[str]:
    """The f-strings in which one of these nouns follows a value; a constant is never 1."""
    skipped = _NOT_COUNTED.get(path.relative_to(ROOT).as_posix(), ())
    return [
        f"{path.name}: {{{ast.unparse(value.value)}}}{text.value!s}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        for value, text in itertools.pairwise(node.values)
        if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)
        if _COUNTED.match(str(text.value)) and not str(text.value).startswith(skipped)
        if not ast.unparse(value.value).rpartition(".")[2].isupper()
    ]


def test_messages_count_with_the_right_number() -> None:
    """ "1 hosts" is possible wherever a noun in the plural follows a value."""
    modules = sorted((ROOT / "osc_placement").rglob("*.py"))
    assert [text for path in modules for text in _counted_by_hand(path)] == []
