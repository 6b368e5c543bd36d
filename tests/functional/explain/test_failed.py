# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain`` of a failure that happened: by nova, logs and a snapshot."""

from __future__ import annotations

import gzip
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, checked, hosts

SERVER = uuid_of("web")
OF = f"allocation candidate explain --server {SERVER}"
ACTIONS = f"GET /v2.1/servers/{SERVER}/os-instance-actions"
REQUEST = "req-6bcd3a4c-7f2f-4a6c-9f4e-3f0f7f1a2b3c"
OTHER = "req-0000bd3a-4c7f-4f2f-a6c9-f4e3f0f7f1a2"
NO_HOST = "No valid host was found. There are not enough hosts available."
NO_CANDIDATES = "No valid host was found. "
BUILDS = (
    "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures"
    f" for instance {SERVER}."
)
LAST = (
    "Exceeded maximum number of retries. Exceeded max scheduling attempts 2 for instance"
    f" {SERVER}. Last exception: Unable to bind"
)
QUOTA = "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances"
IMAGE = {"id": uuid_of("image"), "properties": {}}
#: The events of a build that was tried on two hosts, as nova has them: no error for a host after
#: which it tries another one.
TRIED = [
    {
        "event": "compute__do_build_and_run_instance",
        "result": result,
        "host": host,
        "start_time": f"2026-11-27T02:13:{second}.000000",
        "details": None,
    }
    for second, host, result in ((31, "cmp-2", None), (10, "cmp-1", "Success"))
]
ABORTED = [
    {**TRIED[1], "event": "compute_prep_resize"},
    {**TRIED[1], "result": "Error", "details": "Failed to bind port"},
]
BEGUN = {
    "event": "conductor_schedule_and_build_instances", "result": "Success", "host": "ctl",
    "start_time": "2026-11-27T02:13:09.000000",
}  # fmt: skip


def failed(
    message: str,
    events: list[dict[str, Any]] | None = None,
    status: str = "ERROR",
    files: Mapping[str, str] | None = None,
    later: Mapping[str, str] | None = None,
) -> State:
    """A server with this fault; ``events`` are those of its only action, None without actions.

    ``later`` are fields of an action after the failure.
    """
    fault = {"code": 500, "message": message, "created": "2026-11-27T02:13:44Z"}
    cloud = hosts("a", "b").instance(
        "web", vcpus=3, vm_state="error", status=status, fault=fault, image=IMAGE
    )
    action = {"action": "create", "request_id": REQUEST, "start_time": "2026-11-27T02:13:08.0"}
    actions = [] if events is None else [*([later] if later else []), action]
    answers: dict[str, Any] = {ACTIONS: {"instanceActions": actions}}
    if events is not None:
        answers[f"{ACTIONS}/{REQUEST}"] = {"instanceAction": {**action, "events": events}}
    return State(cloud, answers, files or {})


# Lines of the logs of nova 34 and Placement 16.


def line(level: str, logger: str, text: str, request: str = REQUEST) -> str:
    """A line that a service of nova writes."""
    begin = f"2026-11-27 02:13:09.{len(text):03} 7 {level} {logger}"
    return f"{begin} [None {request} u p - - default default] {text}\n"


def queried(query: str, request: str = REQUEST, status: int = 200) -> str:
    """The line of Placement about a query."""
    return (
        "2026-11-27 02:13:09.022 9 INFO placement.requestlog"
        f" [{request} req-40f39f7b-8cc3-4302-b9a3-1b2880e3b543 u p - - default default] 10.0.0.1"
        f' "GET /allocation_candidates?{query}" status: {status} len: 53 microversion: 1.36\n'
    )


def filtered(*steps: tuple[str, int], request: str = REQUEST) -> str:
    """What nova-scheduler logs with debug about its filters, and the hosts that each left."""
    start, results = 2, []
    lines = [line("DEBUG", "nova.filters", "Starting with 2 host(s) x", request)]
    for name, end in steps:
        left = f"{end} host(s) get_filtered_objects" if end else "0 hosts"
        level = "DEBUG" if end else "INFO"
        lines.append(line(level, "nova.filters", f"Filter {name} returned {left}", request))
        results.append(f"'{name}: (start: {start}, end: {end})'")
        start = end
    if not start:
        removed = f"Filtering removed all hosts for the request with instance ID '{SERVER}'."
        text = f"{removed} Filter results: [{', '.join(results)}]"
        lines.append(line("INFO", "nova.filters", text, request))
    return "".join(lines)


def last_host(host: str, text: str) -> str:
    """What nova-conductor logs about a host, before it tries the next one."""
    exception = f"nova.exception.RescheduledException: Build of instance {SERVER} was re-scheduled"
    trace = "['Traceback (most recent call last):\\n', '  File \"x\", line 1, in y\\n', "
    return line(
        "ERROR",
        "nova.scheduler.utils",
        f"[instance: {SERVER}] Error from last host: {host} (node {host}): {trace}"
        f"'{exception}: {text}\\n']",
    )


QUERY = "limit=1000&resources=VCPU%3A3&root_required=%21COMPUTE_STATUS_DISABLED"
GPU = "limit=1000&resources=CUSTOM_GPU%3A1%2CVCPU%3A1"
LOGS = {
    "filters.log": filtered(("ComputeFilter", 1), ("ImagePropertiesFilter", 0)),
    "debug.log": filtered(("ComputeFilter", 2), ("ImagePropertiesFilter", 2)),
    "truncated.log": filtered(("ComputeFilter", 2)).splitlines()[1],
    "info.log": line("INFO", "nova.scheduler.manager", "something"),
    "none.log": line("INFO", "nova.scheduler.manager", "Got no allocation candidates from the"
                     " Placement API. This could be due to insufficient resources or a temporary"
                     " occurrence as compute nodes start up."),
    "placement.log": queried("resources=VCPU:1", OTHER) + queried(QUERY),
    "gpu.log": queried(GPU) * 2,
    "two.log": queried(GPU) + queried("resources=VCPU:1"),
    "refused.log": queried("resources=VCPU:x", status=400),
    "proxy.log": f'10.0.0.1 - - [27/Nov/2026:02:13:09 +0000] "GET /placement/allocation_candidates'
                 f'?{GPU} HTTP/1.1" 200 53 "-" "nova" {REQUEST}\n',
    "conductor.log": last_host("cmp-1", "Unable to bind") + last_host("cmp-2", "Can't bind"),
    "compute.log": line("ERROR", "nova.compute.manager", f"[instance: {SERVER}] Instance failed"
                        " to spawn: nova.exception.NovaException: Unable to bind"),
    "other.log": filtered(("ComputeFilter", 0), request=OTHER),
    "empty.log": "",
    "words.log": "hello\nworld\n",
    "longer.log": line("INFO", "nova.filters", "Filter X returned 0 hosts", f"{REQUEST}-2"),
}  # fmt: skip


STATES = {
    "no host": failed(NO_HOST, [BEGUN]),
    "no candidates": failed(NO_CANDIDATES, [BEGUN], files=LOGS),
    "filters": failed(NO_HOST, [BEGUN], files=LOGS),
    "other words": failed("No valid host was found. The host is not mapped", [BEGUN]),
    "builds": failed(BUILDS, [*TRIED, BEGUN], files=LOGS),
    "last": failed(LAST, TRIED),
    "quota": failed(QUOTA, files=LOGS),
    "later": failed(BUILDS, TRIED, later={"action": "delete", "request_id": OTHER,
                                          "start_time": "2026-11-27T02:20:00.0"}),
    "aborted": failed("Build of instance x aborted: Volume is gone", ABORTED),
    "purged": failed(BUILDS),
    "no right": failed(BUILDS)._replace(nova={ACTIONS: None}),
    "active again": failed(BUILDS, TRIED, status="ACTIVE", files=LOGS),
}  # fmt: skip
NEXT = "Next: the log of nova-compute"
LOG, ID = "--request-log", f"allocation candidate explain --request-id {REQUEST} --request-log"
NO_QUERY = "Not in the logs: the query to Placement: Placement's own log has it"
NO_FILTERS = (
    "Not in the logs: nova's filters and their counts of hosts: nova-scheduler's log has them;"
    " those of a search that finds a host only with debug = True in [DEFAULT] of its nova.conf"
)


def cause(kind: str, text: Any) -> dict[str, Any]:
    return {"first-cause": [{"reason": kind, "text": text}]}


# fmt: off
TABLE = [
    # By nova alone.
    Row(OF, "no host", 0,
        {"failed": [{"text": NO_HOST, "reason": "no-host", "source": REQUEST}], "attempt": None,
         **cause("unknown", "the log of nova-scheduler names the filter that refused the last hosts"
                            " (--request-log)")},
        (f"web failed at 2026-11-27T02:13:44Z in create ({REQUEST}): the scheduler found no host;"
         " this answer is about now", Absent(NEXT))),
    Row(OF, "no candidates", 0,
        {"failed": [{"reason": "no-candidates"}],
         **cause("unknown", "Placement has hosts for the request (now): the cloud was another one"
                            " then; a snapshot of that time shows it (--at)")},
        "Placement had no candidate"),
    Row(OF, "other words", 0, {"failed": [{"reason": "no-host"}]}),
    Row(OF, "builds", 0,
        {"failed": [{"text": BUILDS, "reason": "builds"}],
         "attempt": [{"host": "cmp-1", "text": "nova shows no text"},
                     {"host": "cmp-2", "text": "nova shows no text"}],
         **cause("unknown", "nova shows no error of the builds; the log of nova-conductor has them"
                            " (--request-log)")},
        ("the scheduler found hosts, and each build failed on cmp-1, cmp-2. The number of hosts now"
         " does not explain it", f"{NEXT} on cmp-1, cmp-2 with {REQUEST} has the cause")),
    Row(OF, "last", 0,
        {"attempt": [{"host": "cmp-1"}, {"host": "cmp-2", "text": "Unable to bind"}],
         **cause("builds", "Unable to bind (on cmp-2)")}),
    Row(OF, "quota", 0, {"failed": [{"reason": "other"}], **cause("other", QUOTA)}),
    Row(OF, "later", 0, {"failed": [{"reason": "builds", "source": REQUEST}]}),
    Row(OF, "aborted", 0,
        {"failed": [{"reason": "aborted"}],
         "attempt": [{"host": "cmp-1", "text": "Failed to bind port"}],
         **cause("aborted", "Failed to bind port (on cmp-1)")},
        "nova-compute gave up the build on cmp-1"),
    Row(OF, "aborted", 0, ("Hosts that were tried", "cmp-1", "Failed to bind port")),
    Row(OF, "purged", 0, {"failed": [{"reason": "builds", "source": None}]},
        ("each build failed. ",
         "Not checked: which hosts were tried: nova has no actions of the server")),
    Row(OF, "no right", 0, {"failed": [{"reason": "builds"}]},
        "Not checked: which hosts were tried"),
    Row(OF, "active again", 0, {"failed": None, "first-cause": None}, Absent("failed at")),
    # The question about a move is not about the failure.
    Row(f"{OF} --for evacuate", "builds", 1, says=Absent("failed at")),
    # The logs of a server that failed.
    Row(f"{OF} {LOG} filters.log", "filters", 0,
        {**cause("no-host", "ImagePropertiesFilter refused the last 1 host, after ComputeFilter"
                            " refused 1"),
         "logged-filter": [
             {"reason": "ComputeFilter", "hosts": 1, "text": "left 1 of 2 hosts"},
             {"reason": "ImagePropertiesFilter", "hosts": 0, "text": "left 0 of 1 host"}],
         "not-logged": [{"text": ...}]},
        (NO_QUERY, Absent(NO_FILTERS))),
    Row(f"{OF} {LOG} filters.log", "filters", 0, ("Filters in the logs", "ImagePropertiesFilter")),
    Row(f"{OF} {LOG} debug.log", "filters", 0,
        cause("unknown", "the filters accepted hosts: another server may have taken their room")),
    Row(f"{OF} {LOG} truncated.log", "filters", 0,
        {"logged-filter": [{"hosts": 2, "text": "left 2 of 2 hosts"}]}),
    Row(f"{OF} {LOG} info.log {LOG} placement.log", "filters", 0,
        cause("unknown", "the log of nova-scheduler names the filter that refused the last hosts"
                         " (--request-log)"), (NO_FILTERS, Absent(NO_QUERY))),
    Row(f"{OF} {LOG} conductor.log", "builds", 0,
        {**cause("builds", "Unable to bind (on cmp-1); Can't bind (on cmp-2)"),
         "attempt": [{"host": "cmp-1", "text": "Unable to bind"},
                     {"host": "cmp-2", "text": "Can't bind"}]}),
    Row(f"{OF} {LOG} compute.log", "builds", 0,
        cause("builds", "Instance failed to spawn: Unable to bind")),
    # The query that nova sent then is another one than it would send now.
    Row(f"{OF} {LOG} gpu.log {LOG} none.log", "no candidates", 3,
        {"query": [{"text": "resources=CUSTOM_GPU:1,VCPU:1&limit=1000"}],
         **cause("no-candidates", ...)},
        ("Cause: Placement refuses the request: ", "CUSTOM_GPU")),
    Row(f"{OF} {LOG} gpu.log", "quota", 0, {"not-logged": [{}], **cause("other", QUOTA)},
        "Not in the logs: which request failed (--request-id): nova has no actions of the server"),
    Row(f"{OF} --request-id {REQUEST} {LOG} gpu.log", "quota", 3, cause("other", QUOTA)),
    # A request without its server.
    Row(f"{ID} placement.log", "filters", 0,
        {"query": [{"text": "resources=VCPU:3&root_required=!COMPUTE_STATUS_DISABLED&limit=1000"}],
         **cause("unknown", "the logs have no failure of the request; see that of nova-scheduler")},
        ("2 of 2 hosts can serve", NO_FILTERS)),
    Row(f"{ID} placement.log {LOG} filters.log", "filters", 0,
        cause("no-host", "ImagePropertiesFilter refused the last 1 host, after ComputeFilter"
                         " refused 1")),
    Row(f"{ID} proxy.log {LOG} none.log", "filters", 3,
        cause("no-candidates", ...), "CUSTOM_GPU"),
    Row(f"{ID} two.log", "filters", 0, {"logged-query": [{"hosts": 2}]},
        "can serve the request of another query of the logs"),
    Row(f"{ID} filters.log", "filters", 4,
        {"query": None, "logged-filter": [{}, {}], **cause("no-host", ...)}, NO_QUERY),
    Row(f"{ID} none.log", "filters", 4,
        cause("unknown", "the query that nova sent is not known"), NO_QUERY),
    Row(f"{ID} conductor.log", "filters", 4,
        {"attempt": [{"host": "cmp-1"}, {"host": "cmp-2"}],
         **cause("builds", "Unable to bind (on cmp-1); Can't bind (on cmp-2)")}),
    Row(f"{ID} filters.log {LOG} other.log", "filters", 4, cause("no-host", ...),
        f"Not in the logs: other.log has no line of {REQUEST}: 3 lines from 2026-11-27 02:13:09 to"
        " 2026-11-27 02:13:09"),
    # What is wrong with the logs, or with the question.
    Row(f"{ID} other.log", "filters", 1, says=f"other.log has no line of {REQUEST}: 3 lines from"),
    Row(f"{ID} longer.log", "filters", 1, says="longer.log has no line of"),
    Row(f"{ID} empty.log", "filters", 1, says="empty.log is empty"),
    Row(f"{ID} words.log", "filters", 1, says="2 lines without times"),
    Row(f"{ID} missing.log", "filters", 1, says="missing.log cannot be read: No such file"),
    Row(f"{ID} refused.log", "filters", 1, says="VCPU"),
    Row(f"{OF} {LOG} other.log", "builds", 1, says=f"other.log has no line of {REQUEST}"),
    Row(f"{OF} {LOG} gpu.log", "active again", 1, says="the server is not in ERROR: --request-id"),
    *(Row(f"allocation candidate explain {words}", "filters", 2, says=text) for words, text in {
        f"--request-id {REQUEST}": "--request-id: needs --request-log",
        "--request-log gpu.log --flavor x":
            "--request-log: needs --request-id or --server",
        f"--request-id {REQUEST} --request-log gpu.log --flavor x":
            "--request-id: not allowed with argument --flavor",
        f"--request-id {REQUEST} --request-log gpu.log --resource VCPU=1":
            "--request-id: not allowed with options of a query",
        f"--request-id {REQUEST} --request-log gpu.log --query resources=VCPU:1":
            "--request-id: not allowed with options of a query",
        f"--server {SERVER} --for evacuate --request-log gpu.log":
            "--request-log: not allowed with argument --for",
        f"--server {SERVER} --for evacuate --at gpu.log": "--at: not allowed with argument --for",
        f"--server {SERVER} --no-nova --request-log gpu.log":
            "--request-log: needs --request-id, as --no-nova reads no failure of --server",
    }.items()),
]
# fmt: on

test_a_failure_that_happened_is_told_before_the_answer_about_now = checked(TABLE, STATES)


def test_a_log_may_be_compressed(openstack: OpenStack) -> None:
    """The whole way; the other forms are in the unit tests."""
    STATES["filters"].arrange(openstack)
    pathlib.Path("a.log.gz").write_bytes(gzip.compress(LOGS["filters.log"].encode()))
    outcome = openstack.run(f"{ID} a.log.gz")
    assert (outcome.code, "ImagePropertiesFilter refused" in outcome.stderr) == (4, True)


QUERIED = "allocation candidate explain --resource VCPU=3 --at then.sqlite"
SAVE = "placement snapshot save then.sqlite"


def full(cloud: testing.Cloud, *names: str) -> testing.Cloud:
    """A consumer on each of these hosts has all VCPU."""
    for name in names:
        cloud.server(f"on {name}", {name: {"VCPU": 8}})
    return cloud


def since(then: Sequence[str] = (), now: Sequence[str] = ()) -> State:
    """The hosts a and b: a snapshot without nova and with these full hosts, and those of now."""
    saved = testing.Cloud().host("a", VCPU=8, MEMORY_MB=64).host("b", VCPU=8, MEMORY_MB=64)
    state = failed(NO_CANDIDATES, [BEGUN], files=LOGS)
    full(state.cloud, *now)
    return state._replace(first=State(full(saved, *then), before=[SAVE]))


def since_with_nova(**services: Mapping[str, str]) -> State:
    first = State(hosts("a", "b", **services), before=[f"{SAVE} --with-nova"])
    return since()._replace(first=first)


SINCE = {
    "was full": since(then=("a", "b")),
    "one is full now": since(now=("a",)),
    "a was down": since_with_nova(a={"state": "down"}),
    "equal": since_with_nova(),
    "a new host": State(hosts("a", "b", "c"), files=LOGS, first=since().first),
    "another cloud": State(hosts("c"), files=LOGS, first=since().first),
}

# fmt: off
OF_SINCE = [
    Row(f"{OF} --at then.sqlite", "was full", 0,
        {"then": [{"hosts": 0, "names": []}],
         "changed-host": [
             {"host": host, "verdict": "only now",
              "text": "then: VCPU: 0 free, 3 requested (total 8, ratio 1, used 8)"}
             for host in ("a", "b")],
         "first-cause": [{"reason": "no-candidates"}], "candidate": [{}, {}]},
        ("On then.sqlite, saved 20", "0 of 2 hosts could serve the request; 2 hosts changed since",
         "Cause: no host has room with resources=VCPU:3 (at 20")),
    Row(f"{OF} --at then.sqlite", "was full", 0, ("Hosts that changed", "only now")),
    Row(QUERIED, "one is full now", 0,
        {"then": [{"hosts": 2, "names": ["a", "b"]}],
         "changed-host": [
             {"host": "a", "verdict": "only then",
              "text": "now: VCPU: 0 free, 3 requested (total 8, ratio 1, used 8)"}],
         "first-cause": None, "not-checked": [..., {"text": ...}]},
        "Not checked: on then.sqlite: compute services of that time: the snapshot was saved"),
    Row(f"{ID} placement.log --at then.sqlite", "one is full now", 0,
        {"changed-host": [{"host": "a"}], "first-cause": [{"reason": "unknown"}]}),
    Row(QUERIED, "a was down", 0,
        {"then": [{"hosts": 1}],
         "changed-host": [
             {"host": "a", "verdict": "only now", "text": "then: nova-compute down"}]}),
    Row(f"{OF} --at then.sqlite", "equal", 0, {"then": [{"hosts": 2}], "changed-host": None},
        "2 of 2 hosts could serve the request; the same as now"),
    Row(QUERIED, "a new host", 0,
        {"changed-host": [{"host": "c", "verdict": "only now", "text": "then: it is not there"}]}),
    Row(QUERIED, "another cloud", 1, says="then.sqlite is a snapshot of another cloud than"),
    Row(QUERIED.replace("then", "gpu").replace("sqlite", "log"), "equal", 1, says="gpu.log"),
    Row(QUERIED.replace("then", "none"), "equal", 1, says="none.sqlite"),
]
# fmt: on

test_what_changed_since_a_snapshot = checked(OF_SINCE, SINCE)
