# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain --server`` of a server that is in ERROR."""

from __future__ import annotations

from typing import Any

from osc_placement.testing.cloud import uuid_of
from tests.support.functional_cloud import cloud_of, nova_of, server
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, table

SERVER = uuid_of("web")
OF = f"allocation candidate explain --server {SERVER}"
ACTIONS = f"GET /v2.1/servers/{SERVER}/os-instance-actions"
REQUEST = "req-6bcd3a4c-7f2f-4a6c-9f4e-3f0f7f1a2b3c"
NO_HOST = "No valid host was found. There are not enough hosts available."
BUILDS = (
    "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures"
    f" for instance {SERVER}."
)
IMAGE = {"id": uuid_of("image"), "properties": {}}
#: The events of a build that was tried on two hosts, in the order of nova's answer.
TRIED = [
    {"event": "compute__do_build_and_run_instance", "result": "Error", "host": host,
     "start_time": f"2026-11-27T02:13:{second}.000000", "details": details}
    for second, host, details in ((31, "cmp-2", None), (10, "cmp-1", "Failed to bind port"))
]  # fmt: skip
BEGUN = {
    "event": "conductor_schedule_and_build_instances", "result": "Success", "host": "ctl",
    "start_time": "2026-11-27T02:13:09.000000",
}  # fmt: skip


def failed(
    message: str, events: list[dict[str, Any]] | None = None, status: str = "ERROR"
) -> State:
    """A server with this fault; ``events`` are those of its only action, None without actions."""
    fault = {"code": 500, "message": message, "created": "2026-11-27T02:13:44Z"}
    fields = {"OS-EXT-STS:vm_state": "error", "OS-EXT-SRV-ATTR:host": None, "status": status}
    shown = server(SERVER, "a", **{**fields, "name": "web", "fault": fault, "image": IMAGE})
    action = {"action": "create", "request_id": REQUEST, "start_time": "2026-11-27T02:13:08.0"}
    answers: dict[str, Any] = {ACTIONS: {"instanceActions": [] if events is None else [action]}}
    if events is not None:
        answers[f"{ACTIONS}/{REQUEST}"] = {"instanceAction": {**action, "events": events}}
    return State(cloud_of(("a", "b")), {**nova_of("a", "b", servers=[shown]), **answers})


STATES = {
    "no host": failed(NO_HOST, [BEGUN]),
    "builds": failed(BUILDS, [*TRIED, BEGUN]),
    "aborted": failed("Build of instance x aborted: Volume is gone", TRIED[1:]),
    "purged": failed(BUILDS),
    "no right": State(
        cloud_of(("a", "b")),
        {path: body for path, body in (failed(BUILDS).nova or {}).items() if path != ACTIONS},
    ),
    "active again": failed(BUILDS, TRIED, status="ACTIVE"),
}
NEXT = "Next: the log of nova-compute"

# fmt: off
TABLE = [
    Row(OF, "no host", 0,
        {"failed": [{"text": NO_HOST, "reason": "no-host", "source": REQUEST}], "attempt": None},
        (f"web failed at 2026-11-27T02:13:44Z in create ({REQUEST}): the scheduler found no host;"
         " this answer is about now", Absent(NEXT))),
    Row(OF, "builds", 0,
        {"failed": [{"text": BUILDS, "reason": "builds"}],
         "attempt": [{"host": "cmp-1", "text": "Failed to bind port"},
                     {"host": "cmp-2", "text": "nova shows no text"}]},
        ("the scheduler found hosts, and each build failed on cmp-1, cmp-2. The number of hosts now"
         " does not explain it", f"{NEXT} on cmp-1, cmp-2 with {REQUEST} has the cause")),
    Row(OF, "builds", 0, ("Hosts that were tried", "cmp-1", "Failed to bind port")),
    Row(OF, "aborted", 0, {"failed": [{"reason": "other"}], "attempt": [{"host": "cmp-1"}]},
        "on cmp-1: Build of instance x aborted: Volume is gone"),
    Row(OF, "purged", 0, {"failed": [{"reason": "builds", "source": None}]},
        ("each build failed. ",
         "Not checked: which hosts were tried: nova has no actions of the server")),
    Row(OF, "no right", 0, {"failed": [{"reason": "builds"}]},
        "Not checked: which hosts were tried"),
    Row(OF, "active again", 0, {"failed": None}, Absent("failed at")),
    # The question about a move is not about the failure.
    Row(f"{OF} --for evacuate", "builds", 1, says=Absent("failed at")),
]
# fmt: on


@table(TABLE)
def test_a_failure_that_happened_is_told_before_the_answer_about_now(
    openstack: OpenStack, row: Row
) -> None:
    row.check(openstack, STATES)
