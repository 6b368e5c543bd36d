# SPDX-License-Identifier: Apache-2.0
"""A real nova-compute is killed, and no answer names its host any more."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lab import database, place, process
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

KILLED, KEPT = "real-1", "real-2"
CONSUMER = "6f1d7f0a-0c5f-4b8e-9a53-3a1c1a0d2b11"
LIMIT = 180.0


class ImpatientLab(place.Place):
    """The lab with compute services that are down after seconds, not after ten years."""

    def environment(self) -> Mapping[str, str]:
        times = {"OS_DEFAULT__SERVICE_DOWN_TIME": "20", "OS_DEFAULT__REPORT_INTERVAL": "2"}
        return {**super().environment(), **times}


@contextlib.contextmanager
def compute(lab: place.Place, host: str, state: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """A nova-compute; its log is in the lab."""
    state.mkdir()
    with lab.path("log", f"compute-{host}.out").open("wb") as log:
        started = subprocess.Popen(
            [lab.program("python"), "-P", str(place.HERE / "compute.py"), host, str(state)],
            env=dict(lab.environment()),
            stdout=log,
            stderr=log,
        )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@pytest.fixture
def computes(
    seeded_lab: place.Place, tmp_path: pathlib.Path
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """``{host: its nova-compute}`` in an empty cloud."""
    lab = ImpatientLab(seeded_lab.folder, seeded_lab.first_port)
    process.stop(lab, ["nova"])
    database.reset(lab, database.EMPTY)
    process.start(lab, ["nova"])
    try:
        with contextlib.ExitStack() as stack:
            yield {
                host: stack.enter_context(compute(lab, host, tmp_path / host))
                for host in (KILLED, KEPT)
            }
    finally:
        process.stop(lab, ["nova"])
        database.reset(seeded_lab, database.SEEDED)
        process.start(seeded_lab, ["nova"])


@pytest.fixture
def openstack(seeded_lab: place.Place, tmp_path: pathlib.Path) -> conftest.OpenStack:
    return conftest.OpenStack(seeded_lab, tmp_path, "lab")


def wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(2)


def states(openstack: conftest.OpenStack) -> dict[str, str]:
    services = openstack("compute service list --service nova-compute")
    return {item["Host"]: item["State"] for item in services}


def answer(openstack: conftest.OpenStack, command: str) -> Any:
    return json.loads(openstack.run(f"{command} -f json").stdout)


def targets(openstack: conftest.OpenStack) -> dict[str, set[str] | int]:
    """``{command: the hosts that it names for a server}``, or their number; for host check the
    number of servers without a place."""
    unplaced = answer(openstack, f"placement host check {KEPT}")["unplaced"]
    fits = answer(openstack, "placement capacity show --flavor tiny --by host")
    facts = answer(openstack, "allocation candidate explain --flavor tiny")
    (audited,) = answer(openstack, "placement flavor audit tiny")
    return {
        "host check": len(unplaced),
        "capacity show": {row["part"] for row in fits if row["fits"]},
        "explain": {row["host"] for row in facts if row["section"] == "candidate"},
        "flavor audit": audited["hosts"],
    }


def test_no_answer_names_the_host_of_a_killed_nova_compute(
    seeded_lab: place.Place,
    computes: dict[str, subprocess.Popen[bytes]],
    openstack: conftest.OpenStack,
) -> None:
    both = {KILLED, KEPT}
    wait(lambda: states(openstack) == dict.fromkeys(both, "up"), "nova-compute starts")
    seeded_lab.run(
        seeded_lab.program("nova-manage"),
        *("--config-dir", str(seeded_lab.path("etc", "nova"))),
        *("cell_v2", "discover_hosts"),
    )
    wait(lambda: len(openstack("resource provider list")) == len(both), "providers")
    uuids = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    inventories = f"resource provider inventory list {uuids[KILLED]}"
    wait(lambda: bool(openstack(inventories)), "inventories")
    openstack("flavor create tiny --vcpus 1 --ram 64 --disk 1")
    allocated = f"rp={uuids[KEPT]},VCPU=1"
    openstack(
        f"resource provider allocation set {CONSUMER} --allocation {allocated}"
        " --project-id p --user-id u --consumer-type INSTANCE"
    )
    before = targets(openstack)
    assert before == {
        "host check": 0, "capacity show": both, "explain": both, "flavor audit": 2
    }  # fmt: skip
    computes[KILLED].kill()
    wait(lambda: states(openstack)[KILLED] == "down", "nova reports the killed service")
    assert targets(openstack) == {
        "host check": 1, "capacity show": {KEPT}, "explain": {KEPT}, "flavor audit": 1
    }  # fmt: skip
    assert states(openstack)[KEPT] == "up"
    (audited,) = answer(openstack, "placement flavor audit tiny")
    assert audited["not_counted"] == [{"host": KILLED, "reason": "nova-compute down"}]
