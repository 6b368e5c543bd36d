# SPDX-License-Identifier: Apache-2.0
"""YAML files that are refused: every reader ends with an error that names the file."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest

from osc_placement import errors
from osc_placement.model import yaml_lines
from osc_placement.nova import provider_config
from osc_placement.workflows.reshape import documents

#: The readers of YAML files in the product; ``test_architecture`` finds a new one.
READERS: dict[str, Callable[[pathlib.Path], object]] = {
    "--provider-config": lambda path: provider_config.read([path]),
    "reshape": lambda path: documents.parse(path.read_text(), str(path)),
    "reshape --to-tree": lambda path: documents.parse_tree(path.read_text(), str(path)),
}

REFUSED = {
    "an alias": ("a: &a {x: 1}\nb: *a", ":2: the alias *a is not supported"),
    "an alias as a key": ("&a a: 1\n? *a\n: 1", ":2: the alias *a is not supported"),
    "an alias in its own anchor": ("a: &a [*a, *a]", ":1: the alias *a is not supported"),
    "a merge key": ("a: 1\n<<: {b: 2}", ":2: merge keys (<<) are not supported"),
    "a merge key with an alias": ("a: &a {b: 2}\n<<: *a", ":2: the alias *a is not supported"),
    "5,000 lists": ("[" * 5000 + "]" * 5000, ": nested too deeply"),
    "5,000 entries in one line": ("- " * 5000 + "a", ": nested too deeply"),
    "a long number": ("a: " + "9" * 5000, ":1: the number '999"),
    "a number in base 60": ("a: 1" + ":1" * 50_000, ":1: the number '1:1:1:1:"),
    "an invalid number": ("a: !!int ''", ":1: '' cannot be read"),
    "an invalid date": ("a: !!timestamp x", ":1: 'x' cannot be read"),
    "an invalid switch": ("a: !!bool x", ":1: 'x' cannot be read"),
    "half of a surrogate pair": ('{"a": "\\ud800"}', "cannot be read"),
    "an object of Python": ("a: !!python/object/apply:os.system [id]", "hostile.yaml"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.timeout(20)
def test_a_hostile_file_ends_with_an_error_that_names_it(
    reader: Callable[[pathlib.Path], object], text: str, reason: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    with pytest.raises(errors.InvalidInput, match=re.escape(reason)) as raised:
        reader(path)
    assert "hostile.yaml" in str(raised.value)


def test_repeated_keys_are_refused_or_the_last_one_is_used() -> None:
    text = "x: 1\ny:\n  z: 1\n  z: 2\n"
    with pytest.raises(errors.InvalidInput, match="f:4: the key 'z' is repeated"):
        yaml_lines.load(text, "f")
    assert yaml_lines.load(text, "f", repeated_keys=True).data == {"x": 1, "y": {"z": 2}}


def test_dates_and_infinite_numbers_stay_text() -> None:
    assert yaml_lines.load("", "f").line("x") == 1
    data = yaml_lines.load("[2026-01-31, .inf, 2.0, 2.5, ~, yes, '7']", "f").data
    assert data == ["2026-01-31", ".inf", 2, 2.5, None, True, "7"]


def test_a_part_that_is_missing_has_the_line_of_what_lacks_it() -> None:
    data = yaml_lines.load("a: 1\nb:\n  c: 1\n", "file.yaml")
    assert [data.line("b", "c"), data.line("b", "d", 0), data.line("e")] == [3, 2, 1]
