# SPDX-License-Identifier: Apache-2.0
"""An evacuation that failed on real nova: what the audit says, and that its command helps.

The cloud is that of test_moves: ``OSC_PLACEMENT_MOVES`` names the folder with *moves.py*.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.tests import test_moves
from lab.tests.test_moves import A, B, Lab
from tests.support.peer import shell

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3600)]

started, lab = test_moves.started, test_moves.lab


def findings(command: str, concerned: str) -> list[dict[str, Any]]:
    """What an audit says about a server or a host."""
    ended = shell.run([*command.split(), "-f", "json"])
    assert ended.stdout, ended.stderr
    return [row for row in json.loads(ended.stdout) if concerned in (row["uuid"], row["name"])]


def test_a_server_whose_evacuation_failed_is_evacuated_again(lab: Lab) -> None:
    audit = "placement allocation audit --min-age 0"
    server = lab.server("in-vain", A)
    lab.moves.stop(A, kill=True)
    lab.moves.power_off(A)
    lab.moves.force_down(lab.api, A)
    lab.is_down(A)
    lab.fail(B, "spawn")
    lab.act(server, evacuate={"host": B})
    lab.status(server, "failed", "error")
    lab.settled(server, "ERROR")
    (row,) = findings(audit, server)
    assert row["code"] == "stuck-move"
    assert row["proposed"]["commands"] == [f"openstack server evacuate {server}"]
    lab.moves.release()
    lab.act(server, evacuate={"host": B})
    lab.wait("the server", lambda: lab.api.server(server)["OS-EXT-SRV-ATTR:host"] == B)
    lab.settled(server, "ACTIVE", "SHUTOFF")
    assert findings(audit, server) == []
