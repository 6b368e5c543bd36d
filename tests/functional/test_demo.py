# SPDX-License-Identifier: Apache-2.0
"""The commands of ``tools/demo``, in this process."""

from __future__ import annotations

import os
import pathlib
import re
import shlex

import pytest

from tests.support.peer import fixtures, process, target as targets
from tests.support.peer.shell import OpenStack

DEMO = (process.ROOT / "tools" / "demo").read_text()
PAGE = '"$page"'
UNDO = '"$work"/state/osc-placement/*.undo.json'


@fixtures.ON_ONE_TARGET
def test_every_command_ends_with_its_exit_code(
    openstack: OpenStack,
    target: targets.Target,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    monkeypatch.setenv("OS_NOVA_RECORDING", "12-hosts")
    target.load("12-hosts")
    lines = re.findall("^run openstack (.*)$", DEMO, re.MULTILINE)
    codes = []
    for line in lines:
        command, _, alternative = line.partition(" || ")
        if UNDO in command:
            (undo,) = pathlib.Path(os.environ["XDG_STATE_HOME"]).rglob("*.undo.json")
            command = command.replace(UNDO, str(undo))
        command = command.replace(PAGE, str(tmp_path / "cloud.html"))
        ended = openstack.run("", *shlex.split(command))
        codes.append(ended.code)
        accepted = {0, *map(int, re.findall(r"-eq (\d)", alternative))}
        assert ended.code in accepted, f"{command}: {ended.stderr}"
    assert len(re.findall(r'^say "\d\.', DEMO, re.MULTILINE)) == 7
    assert codes[0] == 3
    assert (tmp_path / "cloud.html").exists()
