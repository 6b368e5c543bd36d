# SPDX-License-Identifier: Apache-2.0
"""A lopsided cloud of six hosts with a real nova becomes even by the script of a plan.

The cloud is that of test_drain::

    LAB_MOVES=/path/to/moves.py pytest -m interop lab/tests/test_balance.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab.tests import test_drain
from lab.tests.test_drain import Cloud

pytestmark = test_drain.pytestmark
cloud = test_drain.cloud

BALANCE = "openstack placement capacity balance --class MEMORY_MB --within 5% --parallel 2 -f json"
#: One host of each zone has nearly all servers.
LOPSIDED: Mapping[str, tuple[str, ...]] = {
    **{f"medium-{number}": ("moves-1", "--flavor", "medium") for number in range(6)},
    **{f"small-{number}": ("moves-1",) for number in range(4)},
    "zoned": ("moves-1", "--zone", "zone-a"),
    "stopped": ("moves-1",),
    "web-1": ("moves-1", "--group", "web"),
    "web-2": ("moves-2", "--group", "web"),
    **{f"other-{number}": ("moves-4", "--flavor", "medium") for number in range(3)},
}


def balance(cloud: Cloud, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer."""
    done = cloud.bash(f"{BALANCE} {' '.join(options)}")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_lopsided_cloud_becomes_even_and_a_second_plan_is_empty(cloud: Cloud) -> None:
    more = cloud.bash("openstack quota set --instances 40 --cores 100 --ram 100000 admin")
    assert more.returncode == 0, more.stderr
    cloud.create(LOPSIDED)
    cloud.do("act", "stopped", '{"os-stop": null}')
    test_drain.wait(lambda: cloud.servers()["stopped"][0] == "SHUTOFF", "stopped")
    code, answer = balance(cloud, "--plan-out plan.json --script even.sh")
    assert (code, answer["even"]) == (0, True), answer
    (part,) = answer["parts"]
    assert part["spread"] > 5 >= part["spread_after"], part
    done = cloud.bash("./even.sh", pause="1")
    assert done.returncode == 0, done.stdout + done.stderr
    truth = json.loads(cloud.do("truth"))
    moves = [move for server in truth["servers"].values() for move in server["migrations"]]
    assert {move["status"] for move in moves} <= {"completed", "confirmed"}, moves
    assert len(moves) == len(answer["moves"])
    planned = {move["name"]: move["to"] for move in answer["moves"]}
    for server in truth["servers"].values():
        host = server["nova"]["host"]
        assert host == planned.get(server["name"], LOPSIDED[server["name"]][0])
        assert list(server["allocations"]) == [host], server
        is_stopped = server["name"] == "stopped"
        assert is_stopped or server["guest"] == {host: "running"}, server
    print({name: part[name] for name in ("spread", "spread_after", "moves", "at_least")})
    code, answer = balance(cloud)
    assert (code, answer["even"], answer["moves"]) == (0, True, []), answer
    assert answer["parts"][0]["spread"] == part["spread_after"]
    code, answer = balance(cloud, "--continue plan.json")
    assert (code, {step["state"] for step in answer["steps"]}) == (0, {"done"}), answer
