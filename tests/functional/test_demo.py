"""The commands of ``tools/demo``, in this process."""

from __future__ import annotations

import re
import shlex

from tests.support.peer import fixtures, process, target as targets
from tests.support.peer.shell import OpenStack

DEMO = (process.ROOT / "tools" / "demo").read_text()


@fixtures.ON_ONE_TARGET
def test_every_command_succeeds_and_the_last_one_explains(
    openstack: OpenStack, target: targets.Target
) -> None:
    target.load("12-hosts")
    aggregate = re.findall("^aggregate=(.*)$", DEMO, re.MULTILINE)[0]
    lines = re.findall("^run openstack (.*)$", DEMO, re.MULTILINE)
    codes = []
    for line in lines:
        command, _, alternative = line.partition(" || ")
        ended = openstack.run("", *shlex.split(command.replace("$aggregate", aggregate)))
        codes.append(ended.code)
        expected = 3 if alternative == "[ $? -eq 3 ]" else 0
        assert ended.code == expected, f"{command}: {ended.stderr}"
    assert len(codes) >= 9
    assert lines[-1].startswith("allocation candidate explain")
    assert codes[-1] == 3
