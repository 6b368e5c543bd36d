# SPDX-License-Identifier: Apache-2.0
"""``-f shell``: a shell that evaluates the lines gets the values, and runs nothing."""

from __future__ import annotations

import argparse
import io
import pathlib
import subprocess

import pytest

from osc_placement.v1.output import rows, shell
from tests.support.fuzz.names import HOSTILE

NAMESPACE = argparse.Namespace(variables=[], prefix="p_")


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_a_shell_gets_the_value_and_runs_nothing(value: str, tmp_path: pathlib.Path) -> None:
    out = io.StringIO()
    shell.ShellFormatter().emit_one(["Full Name", "generation"], [value, 3], out, NAMESPACE)
    assert out.getvalue().replace("\n", "").isprintable()
    script = f"eval '{out.getvalue().replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'\n"
    script += 'printf \'%s|%s\' "$p_full_name" "$p_generation"'
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode() == f"{value}|3"
    assert list(tmp_path.iterdir()) == []


def test_plain_values_are_as_cliff_writes_them() -> None:
    out = io.StringIO()
    fields = {"name": "cmp-1", "resource:class": rows.lines(["a"]), "parent": None}
    shell.ShellFormatter().emit_one([*fields], [*fields.values()], out, NAMESPACE)
    assert out.getvalue() == 'p_name="cmp-1"\np_resource_class="[\'a\']"\np_parent="None"\n'
