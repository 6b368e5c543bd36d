# SPDX-License-Identifier: Apache-2.0
"""Command lines that are printed, with names that are options, scripts and UUIDs."""

from __future__ import annotations

import argparse
import pathlib
import random
import re
import subprocess
from types import EllipsisType

import pytest

import osc_placement
from osc_placement.model import command_line
from tests.support.fuzz.names import HOSTILE

UUID = "7d2590ae-fb85-4080-9306-058b4c915e3f"


def random_name(chance: random.Random) -> str:
    return "".join(chance.choices("-=a0 '\"\\$`()\n\t\x1b;&|<>*?#~\u202eä", k=chance.randint(1, 9)))


NAMES = [*HOSTILE, *(random_name(random.Random(seed)) for seed in range(40)), "-" + "x" * 100_000]


def test_a_provider_is_selected_by_a_plain_name_or_by_its_uuid() -> None:
    for name in ("cmp-1", "rack1_node7.example.org", "cmp@site:0", "7"):
        assert command_line.subject(name, UUID) == name
    assert {command_line.subject(name, UUID) for name in HOSTILE} == {UUID}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_parser_reads_back_the_subjects_and_the_values(name: str, tmp_path: pathlib.Path) -> None:
    """A shell passes exactly these words, and runs nothing else."""
    line = command_line.line("x y", name, "nova-compute", options=(("--host", name), ("-f", None)))
    assert line.isprintable()
    (tmp_path / "script").write_text(f"openstack() {{ printf '%s\\0' \"$@\"; }}\n{line}\n")
    done = subprocess.run(["bash", "script"], cwd=tmp_path, capture_output=True, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["script"]
    command = [word.decode() for word in done.stdout.split(b"\0")[:-1]]
    assert command[:2] == ["x", "y"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-f", action="store_true")
    parser.add_argument("subjects", nargs="*")
    if name == "--":
        return  # Python's argparse takes "--host=--" as a host without a value.
    expected = argparse.Namespace(host=name, all=False, f=True, subjects=[name, "nova-compute"])
    assert parser.parse_args(command[2:]) == expected


#: Text that begins a command line with a name in it, outside of the one builder.
_TEMPLATE = re.compile(
    r"openstack (?:server|resource|placement|allocation|compute|aggregate|trait)"
    r"[a-z -]*(?:--[a-z-]+[ =])?\{(?P<value>[^{}]+)\}"
)

#: Values that are UUIDs, checked names of classes and traits, or quoted where they are filled in.
_SAFE = {"trait", "resource_class", "name", "new.uuid", "old_uuid", "hostname"}


def test_no_other_module_puts_names_into_command_lines() -> None:
    root = pathlib.Path(osc_placement.__file__).parent
    written = {
        f"{path.relative_to(root)}: {match[0]}"
        for path in root.rglob("*.py")
        for match in _TEMPLATE.finditer(re.sub(r'"\s*\n\s*f?"', "", path.read_text()))
        if match["value"] not in _SAFE
    }
    assert written == set()
    quoting = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"shlex\.(quote|join)\(", path.read_text())
    }
    # errors.py has a command of pip, with a path.
    assert quoting == {"errors.py", "model/command_line.py"}


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("inventory amend --resource=A:total=1 a b c", ...),
        ("inventory amend --resource=A:total=1 a b c d", "{} a b c ... (4 names)"),
        ("inventory amend --all --resource=A:total=1 --resource=B:total=1", ...),
        ("audit --repair -- -a -b -c -d", "audit --repair -- -a -b -c ... (4 names)"),
        ("audit --consumer=a --consumer=b --consumer=c --consumer=d --repair e",
         "audit --consumer=a --consumer=b --consumer=c ... (4 --consumer) --repair e"),
        ("placement host retire a b c d e", "placement host retire a b c ... (5 names)"),
        ("amend --trait=T 'a b' $'c\\'d' e 'f g'",
         "amend --trait=T 'a b' $'c\\'d' e ... (4 names)"),
    ],
)  # fmt: skip
def test_people_see_the_first_names_of_a_long_recorded_command(
    recorded: str, shown: str | EllipsisType
) -> None:
    expected = recorded if isinstance(shown, EllipsisType) else shown
    expected = expected.replace("{}", "inventory amend --resource=A:total=1")
    assert command_line.brief(recorded) == expected


@pytest.mark.parametrize("name", NAMES[:-1], ids=range(len(NAMES) - 1))
def test_a_short_recorded_command_is_shown_as_it_is(name: str) -> None:
    line = command_line.line("trait add", name, options=[("--trait", name)])
    assert command_line.brief(line) == line
