# SPDX-License-Identifier: Apache-2.0
"""The scripts of the guide, which use only exit codes."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tests.functional.batch.test_batch import AGGREGATE, HOSTS
from tests.support.peer import process, shell, target as targets

RECIPES = process.ROOT / "doc" / "source" / "user" / "batch" / "recipes.rst"


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

    def providers(self, query: str) -> list[dict[str, Any]]:
        answer = self.cloud.ask("GET", f"/resource_providers?{query}")
        return list(answer["resource_providers"])

    def ratio(self, host: str, resource_class: str) -> float:
        (provider,) = self.providers(f"name={host}")
        path = f"/resource_providers/{provider['uuid']}/inventories/{resource_class}"
        return float(self.cloud.ask("GET", path)["allocation_ratio"])


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> Workspace:
    return Workspace(tmp_path)


def script(name: str, folder: pathlib.Path) -> str:
    """The path of a script of the guide, which is written to the folder."""
    blocks = RECIPES.read_text().split(".. code-block:: bash\n\n")[1:]
    texts = [textwrap.dedent(re.split(r"\n\n(?=\S)", block)[0]) for block in blocks]
    (text,) = (text for text in texts if f"\n# {name} " in text)
    path = folder / name
    path.write_text(f"{text.strip()}\n")
    assert len(text.splitlines()) < 40
    return str(path)


def test_the_trait_script_adds_a_missing_trait(workspace: Workspace) -> None:
    command = ("bash", script("aggregate-trait", workspace.folder), AGGREGATE, "CUSTOM_GOLD")
    code, stdout, _ = workspace.run(*command)
    assert (code, "planned" in stdout, "applied" in stdout) == (0, True, True)
    assert workspace.run(*command) == (0, "", "")
    listed = workspace.providers("required=CUSTOM_GOLD")
    assert {row["name"] for row in listed} == {*HOSTS, "nfs-share"}
    code, _, stderr = workspace.run(*command[:3], "nonsense")
    assert (code, "unknown trait nonsense" in stderr) == (1, True)


def test_the_ratio_script_plans_all_lines_before_a_change(workspace: Workspace) -> None:
    command = ("bash", script("aggregate-ratios", workspace.folder), "ratios")
    before = workspace.ratio(HOSTS[0], "VCPU")
    (workspace.folder / "ratios").write_text(f"{AGGREGATE} 2 1.5\nunknown 3 1\n")
    code, _, stderr = workspace.run(*command)
    assert (code, "aggregate 'unknown' is not a UUID" in stderr) == (1, True), stderr
    assert workspace.ratio(HOSTS[0], "VCPU") == before
    (workspace.folder / "ratios").write_text(f"{AGGREGATE} 2 1.5\n")
    code, _, stderr = workspace.run(*command)
    assert code == 0, stderr
    assert [workspace.ratio(host, "VCPU") for host in HOSTS] == [2.0, 2.0]
    assert workspace.ratio(HOSTS[0], "MEMORY_MB") == 1.5
    assert workspace.run(*command)[0] == 0
