"""The scripts in tools/ that an operator could have written: exit codes and JSON are enough."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.functional.test_batch import AGGREGATE, HOSTS
from tests.support.peer import process, target as targets


class Workplace:
    """An operator's shell on the 12-host cloud in a file."""

    def __init__(self, folder: pathlib.Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
        programs = pathlib.Path(sys.executable).parent
        self.folder = folder
        self.environment = {
            **kept,
            "PATH": f"{programs}:{kept['PATH']}",
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "OSC_PLACEMENT_DATABASE": str(folder / "cloud.sqlite"),
        }
        targets.OnFile(folder / "cloud.sqlite").load("12-hosts")

    def run(self, *command: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        return ended.returncode, ended.stdout, ended.stderr

    def tool(self, name: str, *arguments: str) -> tuple[int, str, str]:
        return self.run(str(process.ROOT / "tools" / name), *arguments)

    def rows(self, *words: str) -> Any:
        code, out, said = self.run("openstack", *words, "-f", "json")
        assert code == 0, said
        return json.loads(out)

    def ratio(self, host: str, resource_class: str) -> float:
        shown = self.rows("resource", "provider", "inventory", "show", host, resource_class)
        return float(shown["allocation_ratio"])


@pytest.fixture
def workplace(tmp_path: pathlib.Path) -> Workplace:
    return Workplace(tmp_path)


def test_a_trait_is_kept_on_an_aggregate(workplace: Workplace) -> None:
    asked = ("aggregate-trait", AGGREGATE, "CUSTOM_GOLD")
    code, out, said = workplace.tool(*asked)
    assert (code, said) == (0, "")
    assert "CUSTOM_GOLD is missing: 4 to change" in out
    assert "4 changed" in out
    assert workplace.tool(*asked) == (0, "", "")
    listed = workplace.rows("resource", "provider", "list", "--required", "CUSTOM_GOLD")
    assert {row["name"] for row in listed} == {*HOSTS, "nfs-share"}
    undo = out.split("openstack ")[-1].split()
    assert workplace.run("openstack", *undo)[0] == 0
    assert workplace.run("openstack", "trait", "show", "CUSTOM_GOLD")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "usage"),
        ((AGGREGATE, "nonsense"), 1, "unknown trait nonsense"),
        (("nobody", "CUSTOM_X"), 1, "aggregate 'nobody' is no UUID"),
    ],
)
def test_the_trait_script_hands_on_what_went_wrong(
    workplace: Workplace, arguments: tuple[str, ...], code: int, told: str
) -> None:
    ended, out, said = workplace.tool("aggregate-trait", *arguments)
    assert (ended, out) == (code, "")
    assert told in said


def test_ratios_become_what_a_file_says(workplace: Workplace) -> None:
    table = workplace.folder / "ratios.csv"
    table.write_text(f"aggregate,VCPU,MEMORY_MB\n{AGGREGATE},2,1.5\n")
    before = workplace.ratio(HOSTS[0], "VCPU")
    code, out, _ = workplace.tool("aggregate-ratios", "--check", str(table))
    assert (code, before) == (3, workplace.ratio(HOSTS[0], "VCPU"))
    code, out, said = workplace.tool("aggregate-ratios", str(table))
    assert (code, said) == (0, "")
    assert f"{AGGREGATE}: 2 changed" in out
    assert [workplace.ratio(host, "VCPU") for host in HOSTS] == [2.0, 2.0]
    assert workplace.ratio(HOSTS[0], "MEMORY_MB") == 1.5
    assert workplace.tool("aggregate-ratios", "--check", str(table))[0] == 0
    assert workplace.tool("aggregate-ratios", str(table))[:2] == (0, "")


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (f"aggregate,VCPU\n{AGGREGATE},2\nnobody,3\n", 1, "'nobody' is no UUID"),
        (f"aggregate,VCPU\n{AGGREGATE},0.001\n", 1, "would be over capacity"),
        (f"aggregate,VCPU\n{AGGREGATE},two\n", 1, "'two' is no number"),
        ("VCPU,MEMORY_MB\n1,1\n", 1, "a heading with aggregate"),
    ],
)
def test_one_line_that_cannot_be_keeps_the_whole_file_back(
    workplace: Workplace, text: str, code: int, told: str
) -> None:
    table = workplace.folder / "ratios.csv"
    table.write_text(text)
    before = workplace.ratio(HOSTS[0], "VCPU")
    ended, _, said = workplace.tool("aggregate-ratios", str(table))
    assert ended == code, said
    assert told in said
    assert workplace.ratio(HOSTS[0], "VCPU") == before
