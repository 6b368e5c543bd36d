# SPDX-License-Identifier: Apache-2.0
"""Two commands that change the same providers at the same time."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from tests.support.peer import chaos, fixtures, forked, shell, target as targets

AMEND = "resource provider inventory amend"
HOST = "cmp-0001.lab.example.org"

pytestmark = [fixtures.WITH_SOCKET, pytest.mark.usefixtures("openstack")]


def run_overtaken(
    target: targets.OverHttp, folder: pathlib.Path, resource: str
) -> tuple[shell.Outcome, shell.Outcome]:
    """Two runs of one command: the second runs between the first one's read and its write."""
    arguments = [*AMEND.split(), HOST, "--resource", resource, "-f", "json"]
    second = folder / "second.json"

    def overtake(method: str, _: str) -> None:
        if method != "PUT" or second.exists():
            return
        words = [*targets.admin_options(target.url), *arguments]
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state-of-the-second")}
        process = forked.CONTEXT.Process(
            target=forked.child, args=(words, environment, str(folder), str(second))
        )
        process.start()
        process.join(60)

    with chaos.between(target.url) as proxy:
        proxy.on_request = overtake
        first = targets.run_at(proxy.url, "", *arguments)
    return first, shell.Outcome(*json.loads(second.read_text()))


def test_of_two_relative_runs_the_overtaken_one_is_stale(
    target: targets.OverHttp, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    before = target.inventories()[HOST]["MEMORY_MB"]["reserved"]
    first, second = run_overtaken(target, tmp_path, "MEMORY_MB:reserved+=1")
    assert target.inventories()[HOST]["MEMORY_MB"]["reserved"] == before + 1
    assert second.code == 0, second
    assert json.loads(second.stdout)[0]["status"] == "applied"
    assert first.code == 7, first
    (row,) = json.loads(first.stdout)
    assert (row["status"], row["code"]) == ("stale", "changed-concurrently")


def test_of_two_absolute_runs_the_overtaken_one_finds_nothing_to_do(
    target: targets.OverHttp, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    first, second = run_overtaken(target, tmp_path, "MEMORY_MB:reserved=7")
    assert (first.code, second.code) == (0, 0), first
    assert json.loads(first.stdout)[0]["status"] == "unchanged"
