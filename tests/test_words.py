# SPDX-License-Identifier: Apache-2.0
"""One word per thing in what a person reads: messages, help, pages, notes and examples."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]

#: ``{what no text says: what it says}``. Names in code and comments are free.
WORDS = {
    r"\bjudg\w+": "check, checked, not checked",
    r"\bexamin\w+": "check, checked, not checked",
    r"\bembedded (server|Placement)": "reference server",
    r"\b(no|one)_host\b": "no-host, one-host",
    r"\bok-to-stop\b": "host check",
    r"\bsells?\b|\bsold\b": "has the allocation ratio",
    r"\bat rest\b": "does not move",
    r"\b[Dd]emands?\b": "request",
    r"\bsufficient alone\b": "is enough",
    r"\blasts only where\b": "if nova.conf sets it, nova-compute overwrites it",
    r"\brequests elsewhere\b": "must find on one other host",
    r"\ba host of nova with\b": "a host whose nova-compute is up and enabled",
    r"\bmany commands share\b": "options that many commands have",
}

#: Words that fill the place of a noun, as names of variables and parameters: how many there are, in
#: the product and elsewhere. Rename one, then lower the number.
FILLERS = {"each", "every", "found", "known", "held", "given", "one", "asked"}
MOST_FILLERS = {("osc_placement",): 97, ("tests", "lab", "benchmarks"): 191}


def literals(path: pathlib.Path) -> Iterator[str]:
    """The texts of a module that a person may read; of docstrings those of commands: the help."""
    tree = ast.parse(path.read_text())
    silent = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(node.body[0], ast.Expr)
        and not (isinstance(node, ast.ClassDef) and "v1" in path.parts)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in silent:
                yield text


@functools.cache
def texts() -> list[tuple[str, str]]:
    """``(file, text)`` of everything that a person reads."""
    return [*_read()]


def _read() -> Iterator[tuple[str, str]]:
    modules = [path for path in ROOT.glob("osc_placement/**/*.py") if "data" not in path.parts]
    for path in modules:
        yield from ((path.name, text) for text in literals(path))
    for pattern in (
        *("*.rst", "doc/source/**/*.rst", "doc/source/**/*.csv", "doc/source/**/*.svg"),
        *("doc/man/*", "osc_placement/**/*.html", "releasenotes/notes/*", "examples/*/*"),
    ):
        yield from ((path.name, path.read_text()) for path in ROOT.glob(pattern))


@pytest.mark.parametrize("word", WORDS)
def test_no_text_has_a_second_word_for_a_thing(word: str) -> None:
    uses = {
        f"{name}: {text[max(0, use.start() - 40) : use.end() + 20]!r}"
        for name, text in texts()
        for use in re.finditer(word, text)
    }
    assert uses == set(), f"say: {WORDS[word]}"


def test_help_messages_and_pages_are_read() -> None:
    read = texts()
    names = {name for name, _ in read}
    assert {"host.py", "amend.py", "README.rst", "host-check.rst", "report.html"} <= names
    assert any("Show whether some hosts may stop" in text for _, text in read)
    assert any("is not a plan file" in text for _, text in read)


@pytest.mark.parametrize("folders", MOST_FILLERS)
def test_no_more_names_are_words_that_fill_the_place_of_a_noun(folders: tuple[str, ...]) -> None:
    trees = (ast.parse(path.read_text()) for top in folders for path in ROOT.glob(f"{top}/**/*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    names = (
        node.arg if isinstance(node, ast.arg) else node.id
        for node in nodes
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    assert sum(name in FILLERS for name in names) <= MOST_FILLERS[folders]
