# SPDX-License-Identifier: Apache-2.0
"""What every reading command keeps: it stops at a Placement that fails; its errors are short."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import pytest

from osc_placement import testing
from osc_placement.client import retry
from osc_placement.testing import service, traffic
from tests.support.peer import fixtures, shell, target as targets

NOVA = testing.sample_nova("12-hosts")
SERVERS = NOVA["GET /v2.1/servers/detail?all_tenants=1"]["servers"]
SERVER = next(server["id"] for server in SERVERS if server["name"] == "vm-00002")
COMMANDS = {
    "audit": "placement allocation audit",
    "roll": "placement host roll --all --timeout 5",
    "balance": "placement capacity balance --timeout 5",
    "capacity": "placement capacity show --flavor m1.small",
    "check": "placement host check cmp-0001",
    "drain": "placement host drain cmp-0001",
    "explain": "allocation candidate explain --flavor m1.small",
    "explain a move": f"allocation candidate explain --server {SERVER} --for live-migrate",
    "health": "placement health show",
    "make room": "placement capacity make-room --flavor m1.small",
    "metrics": "placement metrics write --textfile m.prom --projects",
    "provider audit": "placement provider audit",
    "report": "placement report write --output report.html",
}


@pytest.mark.parametrize("command", COMMANDS)
@fixtures.ON_ONE_TARGET
def test_a_placement_that_fails_is_not_read_on_and_on(
    command: str, openstack: shell.OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = traffic.refuse(500, "the database is gone")
    with service.LoopbackPlacement(load="12-hosts") as placement:
        placement.before(
            lambda sent: failing(sent) if sent.template.startswith("GET /resource_prov") else None
        )
        options = [*targets.admin_options(placement.url), "--os-nova-recording", "12-hosts"]
        outcome = shell.run([*options, *COMMANDS[command].split()])
        paths = collections.Counter(sent.path for sent in placement.requests)
    assert outcome.code != 0
    assert "the database is gone" in outcome.stderr + outcome.stdout
    assert "keeps what was read" not in outcome.stderr
    failed = [path for path in paths if path.startswith("/resource_providers")]
    assert 0 < len(failed) < retry.MOST_FAILURES + retry.MOST
    assert max(paths.values()) <= 2 * retry.READS


@pytest.mark.parametrize("command", COMMANDS)
@fixtures.ON_ONE_TARGET
def test_no_message_of_a_command_is_long(
    command: str, sample: targets.Target, openstack: shell.OpenStack
) -> None:
    """With names of nova that have 100,000 characters each."""
    answers = json.loads(json.dumps(NOVA))
    for server in answers["GET /v2.1/servers/detail?all_tenants=1"]["servers"]:
        server["name"] += "x" * 100_000
    for flavor in answers["GET /v2.1/flavors/detail?is_public=None"]["flavors"]:
        flavor["description"] = "x" * 100_000
    for aggregate in answers["GET /v2.1/os-aggregates"]["aggregates"]:
        aggregate["name"] += "x" * 100_000
    pathlib.Path("nova.json").write_text(json.dumps(answers))
    outcome = openstack.run(COMMANDS[command], "--os-nova-recording", "nova.json")
    assert outcome.code in (0, 3, 4, 6), outcome.stderr[:2000]
    assert "Traceback" not in outcome.stderr
    assert max(map(len, outcome.stderr.splitlines()), default=0) < 10_000


#: A command of a noun that only ``openstack`` has, with what stands before it.
PRINTED = re.compile(
    r"(\S+) (?:placement (?:allocation|provider|host|plan|aggregate|flavor|capacity) [a-z]+"
    r"|resource provider (?:delete|set|inventory|trait|allocation|aggregate)"
    r"|server (?:evacuate|migrate|resize|start|stop) [0-9a-f]|compute service set) "
)


@pytest.mark.parametrize("command", COMMANDS)
@fixtures.ON_ONE_TARGET
def test_each_command_in_an_answer_begins_with_openstack(
    command: str, sample: targets.Target, openstack: shell.OpenStack
) -> None:
    words = COMMANDS[command].split()
    words += [] if "write" in words else ["-f", "json"]
    ended = openstack.run("", *words, "--os-nova-recording", "12-hosts")
    said = (ended.stdout + ended.stderr).replace(r"\n", " ").replace('"', " ")
    before = [match[1] for match in PRINTED.finditer(said)]
    assert {word.strip("'(") for word in before} <= {"openstack"}, said
