"""The scripts for operators in tools/, which use only exit codes and JSON output."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.functional.test_batch import AGGREGATE, HOSTS
from tests.support.peer import process, shell, target as targets


class Workspace:
    """A folder with the 12-host cloud in a database file."""

    def __init__(self, folder: pathlib.Path) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("OS")
        }
        programs = pathlib.Path(sys.executable).parent
        self.folder = folder
        self.environment = {
            **environment,
            "PATH": f"{programs}:{environment['PATH']}",
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "OSC_PLACEMENT_DATABASE": str(folder / "cloud.sqlite"),
        }
        self.cloud = targets.OnFile(folder / "cloud.sqlite")
        self.cloud.load("12-hosts")

    def run(self, *command: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        return ended.returncode, ended.stdout, shell.without_database(ended.stderr)

    def tool(self, name: str, *arguments: str) -> tuple[int, str, str]:
        return self.run(str(process.ROOT / "tools" / name), *arguments)

    def providers(self, query: str) -> list[dict[str, Any]]:
        found = self.cloud.ask("GET", f"/resource_providers?{query}")
        return list(found["resource_providers"])

    def ratio(self, host: str, resource_class: str) -> float:
        (provider,) = self.providers(f"name={host}")
        path = f"/resource_providers/{provider['uuid']}/inventories/{resource_class}"
        return float(self.cloud.ask("GET", path)["allocation_ratio"])


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> Workspace:
    return Workspace(tmp_path)


def test_the_trait_script_adds_a_missing_trait(workspace: Workspace) -> None:
    command = ("aggregate-trait", AGGREGATE, "CUSTOM_GOLD")
    code, stdout, stderr = workspace.tool(*command)
    assert (code, stderr) == (0, "")
    assert "CUSTOM_GOLD is missing: 4 to change" in stdout
    assert "4 changed" in stdout
    assert workspace.tool(*command) == (0, "", "")
    listed = workspace.providers("required=CUSTOM_GOLD")
    assert {row["name"] for row in listed} == {*HOSTS, "nfs-share"}
    undo = stdout.split("openstack ")[-1].split()
    assert workspace.run("openstack", *undo)[0] == 0
    assert workspace.cloud.request("GET", "/traits/CUSTOM_GOLD").status_code == 404


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "usage"),
        ((AGGREGATE, "nonsense"), 1, "unknown trait nonsense"),
        (("unknown", "CUSTOM_X"), 1, "aggregate 'unknown' is not a UUID"),
    ],
)
def test_the_trait_script_reports_an_error(
    workspace: Workspace, arguments: tuple[str, ...], code: int, message: str
) -> None:
    exit_code, stdout, stderr = workspace.tool("aggregate-trait", *arguments)
    assert (exit_code, stdout) == (code, "")
    assert message in stderr


def test_the_ratio_script_sets_the_ratios_of_a_file(workspace: Workspace) -> None:
    file = workspace.folder / "ratios.csv"
    file.write_text(f"aggregate,VCPU,MEMORY_MB\n{AGGREGATE},2,1.5\n")
    before = workspace.ratio(HOSTS[0], "VCPU")
    code, stdout, _ = workspace.tool("aggregate-ratios", "--check", str(file))
    assert (code, before) == (3, workspace.ratio(HOSTS[0], "VCPU"))
    code, stdout, stderr = workspace.tool("aggregate-ratios", str(file))
    assert (code, stderr) == (0, "")
    assert f"{AGGREGATE}: 2 changed" in stdout
    assert [workspace.ratio(host, "VCPU") for host in HOSTS] == [2.0, 2.0]
    assert workspace.ratio(HOSTS[0], "MEMORY_MB") == 1.5
    assert workspace.tool("aggregate-ratios", "--check", str(file))[0] == 0
    assert workspace.tool("aggregate-ratios", str(file))[:2] == (0, "")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (f"aggregate,VCPU\n{AGGREGATE},2\nunknown,3\n", 1, "'unknown' is not a UUID"),
        (f"aggregate,VCPU\n{AGGREGATE},0.001\n", 1, "would be over capacity"),
        (f"aggregate,VCPU\n{AGGREGATE},two\n", 1, "'two' is not a number"),
        ("VCPU,MEMORY_MB\n1,1\n", 1, "expected a header with aggregate"),
    ],
)
def test_an_invalid_line_prevents_all_changes(
    workspace: Workspace, text: str, code: int, message: str
) -> None:
    file = workspace.folder / "ratios.csv"
    file.write_text(text)
    before = workspace.ratio(HOSTS[0], "VCPU")
    exit_code, _, stderr = workspace.tool("aggregate-ratios", str(file))
    assert exit_code == code, stderr
    assert message in stderr
    assert workspace.ratio(HOSTS[0], "VCPU") == before
