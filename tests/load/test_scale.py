# SPDX-License-Identifier: Apache-2.0
"""Cost grows with the request, not with the cloud; see ``tools/benchmark --scale``."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time

import webob

from benchmarks import cloud, operations, scale
from osc_placement import server

#: Limit in MiB for 20,000 hosts with 60,000 inventories.
MEMORY = 600
#: ``ru_maxrss`` would include the memory of the process that starts this one.
LOAD = """
import json, pathlib, sys, time
from osc_placement import server
app = server.create_app(sys.argv[1], load=json.load(open(sys.argv[2])) if sys.argv[2:] else None)
status = pathlib.Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024, time.process_time())
"""


def ask(app: server.App, path: str) -> webob.Response:
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
    return webob.Request.blank(path, headers=headers).get_response(app)


def quickest(app: server.App) -> float:
    """The shortest of many times for ten candidates, in seconds."""
    seconds = []
    for number in range(30):
        path = operations.QUERIES[1].path.format(amount=256 + number)
        started = time.perf_counter()
        answer = ask(app, path)
        seconds.append(time.perf_counter() - started)
        assert len(answer.json["allocation_requests"]) == 10
    return min(seconds)


def flat(hosts: int) -> list[cloud.Provider]:
    return [provider for host in range(hosts) for provider in cloud.flat_host(host)]


def test_ten_candidates_of_20000_hosts_take_as_long_as_of_1000(tmp_path: pathlib.Path) -> None:
    document = cloud.document(flat(scale.LARGE))
    small = quickest(server.create_app(load=cloud.document(flat(scale.SMALL))))
    large = quickest(server.create_app(load=document))
    assert large < 3 * small
    state, database = tmp_path / "state.json", tmp_path / "placement.sqlite"
    state.write_text(json.dumps(document))
    for arguments in ([database, state], [database]):
        measured = subprocess.run(
            [sys.executable, "-c", LOAD, *map(str, arguments)],
            check=True,
            capture_output=True,
        )
        memory, seconds = map(float, measured.stdout.split())
        assert memory < MEMORY
    # The second run opens the SQLite file only. Processor time does not depend on other programs.
    assert seconds < 20


def test_too_many_candidates_are_refused_and_a_few_are_found_quickly() -> None:
    app = server.create_app(load=cloud.document(cloud.wide_host(0, scale.DEVICES)))
    started = time.process_time()
    answer = ask(app, f"{scale.TOO_MANY}&limit=10")
    assert len(answer.json["allocation_requests"]) == 10
    assert time.process_time() - started < 2
    answer = ask(app, scale.TOO_MANY)
    assert answer.status_int == 400
    assert "limit" in answer.json["errors"][0]["detail"]
