# SPDX-License-Identifier: Apache-2.0
"""``tools/mutants`` draws anew for each commit: tests written for a draw mend only that draw."""

from __future__ import annotations

import ast
import pathlib
import runpy
import subprocess

MUTANTS = runpy.run_path(str(pathlib.Path(__file__).parents[1] / "tools/mutants"))


def commit(folder: pathlib.Path, message: str) -> str:
    """The id of a new commit."""
    owner = ("-c", "user.name=n", "-c", "user.email=e")
    for words in (("init", "-q"), (*owner, "commit", "-q", "--allow-empty", "-m", message)):
        subprocess.run(["git", *words], cwd=folder, check=True)
    shown = subprocess.run(["git", "log", "-1", "--format=%H"], cwd=folder, capture_output=True)
    return shown.stdout.decode().strip()


def test_the_seed_is_that_of_the_commit(tmp_path: pathlib.Path) -> None:
    seeds = []
    for message in ("one", "two"):
        own = commit(tmp_path, message)
        seeds.append(MUTANTS["seed_of_commit"](tmp_path))
        assert f"{seeds[-1]:08x}" == own[:8]
    assert seeds[0] != seeds[1]


def test_a_constant_becomes_its_opposite_and_not_none_which_is_false_too() -> None:
    (statement,) = ast.parse("return False").body
    ((_, change),) = MUTANTS["changes"](statement)
    assert ast.unparse(change(statement)) == "return True"
