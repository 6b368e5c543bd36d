# SPDX-License-Identifier: Apache-2.0
"""Hostile YAML files: every reader ends within a second with an error that names the file."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from osc_placement import errors
from osc_placement.model import yaml_lines
from osc_placement.nova import provider_config
from osc_placement.workflows.reshape import documents, target_tree

#: The readers of YAML files in the product; ``test_architecture`` finds a new one.
READERS: dict[str, Callable[[pathlib.Path], object]] = {
    "--provider-config": lambda path: provider_config.read([path]),
    "reshape": lambda path: documents.parse(path.read_text(), str(path)),
    "reshape --to-tree": lambda path: target_tree.parse(path.read_text(), str(path)),
}

LEVELS = range(1, 30)


def bomb(item: str) -> str:
    """Anchors that each use the one before ten times, in a form."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {item.format(', '.join([f'*a{n - 1}'] * 10))}" for n in LEVELS]
    return "\n".join(lines)


HOSTILE = {
    "aliases": bomb("[{}]"),
    "merge keys": bomb("{{<<: [{}]}}"),
    "merge keys in lists": bomb("[{{<<: [{}]}}]").replace("[*a0", "[{y: 1}, *a0"),
    "an alias in its own anchor": "a: &a [*a, *a]",
    "a merge key in its own anchor": "a: &a {<<: *a}",
    "base 60": "a: " + ":".join(["59"] * 300_000),
    "base 60 with a fraction": "a: " + ":".join(["59"] * 300_000) + ".5",
    "a long number": "a: " + "9" * 900_000,
    "a long hexadecimal number": "a: 0x" + "f" * 900_000,
    "a long number as a key": "? " + "9" * 900_000 + "\n: 1",
    "5,000 lists": "[" * 5000 + "]" * 5000,
    "5,000 mappings": "{a: " * 5000 + "}" * 5000,
    "5,000 entries in one line": "- " * 5000 + "a",
    "5,000 keys in one line": "? " * 5000 + "a",
    "an invalid number": "a: !!int ''",
    "an invalid date": "a: !!timestamp x",
    "an invalid switch": "a: !!bool x",
    "an object of Python": "a: !!python/object/apply:os.system [id]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.timeout(20)
def test_a_hostile_file_ends_with_an_error_that_names_it(
    reader: Callable[[pathlib.Path], object], text: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    with pytest.raises(errors.InvalidInput, match=r"hostile\.yaml"):
        reader(path)


def test_merge_keys_have_less_precedence_than_own_keys_and_earlier_ones() -> None:
    text = "- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- {z: 3, <<: [*a, *b]}\n"
    assert yaml_lines.load(text, "f").data[2] == {"x": 1, "y": 1, "z": 3}
