# SPDX-License-Identifier: Apache-2.0
"""``placement host drain``."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from osc_placement.client import transport
from osc_placement.workflows.answers.drain import document
from tests.support.functional_cloud import allocate, compute_hosts, create, nova_recording, server
from tests.support.peer.shell import OpenStack

DRAIN = "placement host drain"
NAMES = {f"s{number}": f"00000000-0000-4000-8000-0000000000c{number}" for number in range(4)}

Drained = Callable[..., tuple[int, dict[str, Any]]]
Cloud = Callable[..., tuple[str, ...]]


@pytest.fixture
def hosts(openstack: OpenStack) -> dict[str, str]:
    """Three hosts with 8 VCPU each, and ``{name: UUID}`` of their providers."""
    return {name: create(openstack, name, VCPU=8) for name in ("old", "new", "last")}


@pytest.fixture
def cloud(openstack: OpenStack, hosts: dict[str, str]) -> Cloud:
    """A recording of nova with servers ``{name: (host, fields)}``; no flavors."""

    def recorded(
        servers: Mapping[str, tuple[str, Mapping[str, Any]]],
        migrations: list[dict[str, Any]] | None = None,
        services: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> tuple[str, ...]:
        listed = [server(NAMES[name], host, **fields) for name, (host, fields) in servers.items()]
        return nova_recording(
            {
                **compute_hosts(hosts, services),
                "GET /v2.1/flavors/detail": {"flavors": []},
                "GET /v2.1/os-migrations": {"migrations": migrations or []},
                "GET /v2.1/servers/detail": {"servers": listed},
            }
        )

    return recorded


@pytest.fixture
def drained(openstack: OpenStack) -> Drained:
    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        outcome = openstack.run(DRAIN, *arguments, "-f", "json")
        return outcome.code, json.loads(outcome.stdout)

    return run


def test_the_steps_are_spread_over_the_other_hosts(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name in ("s0", "s1"):
        allocate(openstack, "old", "VCPU=3", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("old", {"OS-EXT-STS:vm_state": "stopped"})})
    code, plan = drained("old", "--parallel", "2", *nova)
    assert (code, plan["complete"], plan["blocked"]) == (0, True, [])
    assert {(move["way"], move["wave"]) for move in plan["moves"]} == {("live", 1), ("cold", 1)}
    assert sorted(move["to"] for move in plan["moves"]) == ["nova-last", "nova-new"]
    code, plan = drained("old", "--avoid", "last", *nova)
    assert [move["to"] for move in plan["moves"]] == ["nova-new", "nova-new"]
    code, plan = drained("old", "--only-live", *nova)
    assert (code, [each["server"] for each in plan["blocked"]]) == (3, [NAMES["s1"]])


def test_a_plan_is_continued_with_its_options_and_with_new_ones(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name in ("s0", "s1"):
        allocate(openstack, "old", "VCPU=3", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("old", {"OS-EXT-STS:vm_state": "stopped"})})
    drained("old", "--plan-out", "plan.json", "--parallel", "2", *nova)

    def targets(*arguments: str) -> tuple[list[str], int, int]:
        _, plan = drained("--continue", *arguments, *nova)
        waves = {move["wave"] for move in plan["moves"]}
        return sorted(move["to"] for move in plan["moves"]), len(waves), len(plan["blocked"])

    assert targets("plan.json") == (["nova-last", "nova-new"], 1, 0)
    refused = ("--avoid", "last", "--plan-out", "rest.json")
    assert targets("plan.json", *refused) == (["nova-new", "nova-new"], 1, 0)
    assert targets("rest.json") == (["nova-new", "nova-new"], 1, 0)
    assert targets("rest.json", "--parallel", "1") == (["nova-new", "nova-new"], 2, 0)
    assert targets("rest.json", "--only-live") == (["nova-new"], 1, 1)
    assert targets("rest.json", "--avoid", "nova-new") == ([], 0, 2)
    for arguments, words in ((("--avoid", "gone"), "gone"), (("--keep", "2"), "--keep 2: there")):
        code, stderr = openstack.fails(DRAIN, "--continue", "rest.json", *arguments, *nova)
        assert (code, words in stderr) == (1, True)


def test_servers_that_nova_does_not_move_stay_with_the_reason(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name, amount in (("s0", 1), ("s1", 7), ("s2", 1)):
        allocate(openstack, "new" if name == "s2" else "old", f"VCPU={amount}", NAMES[name])
    allocate(openstack, "last", "VCPU=2", NAMES["s3"])
    nova = cloud(
        {
            "s0": ("old", {"OS-EXT-STS:task_state": "rebooting"}),
            "s1": ("old", {}),
            "s2": ("new", {}),
            "s3": ("last", {}),
        }
    )
    _, plan = drained("old", *nova)
    reasons = {each["server"]: each["reasons"] for each in plan["blocked"]}
    assert reasons[NAMES["s0"]] == ["nova does not migrate it while its task is rebooting"]
    assert [move["server"] for move in plan["moves"]] == [NAMES["s1"]]


def test_what_would_let_servers_move_is_named_and_the_most_hosts(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name, host in (("s0", "old"), ("s1", "new"), ("s2", "last")):
        allocate(openstack, host, "VCPU=4" if name != "s1" else "VCPU=6", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("new", {}), "s2": ("last", {})})
    code, plan = drained("old", "new", *nova)
    assert (code, plan["most"], plan["most_is_proven"]) == (3, ["nova-old"], True)
    (blocked,) = plan["blocked"]
    assert blocked["server"] == NAMES["s1"]
    assert [move["server"] for move in plan["moves"]] == [NAMES["s0"]]
    assert "free 6 VCPU on last" in blocked["changes"]
    assert any(text.startswith("raise the ratio of VCPU on last") for text in blocked["changes"])
    said = openstack.run("placement host drain", "old", "new", *nova).messages
    assert "sets back allocation_ratio of VCPU if nova.conf has cpu_allocation_ratio" in said


def test_what_is_kept_for_failed_hosts_is_no_room_for_servers(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name, host in (("s0", "old"), ("s1", "new"), ("s2", "last")):
        allocate(openstack, host, "VCPU=4", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("new", {}), "s2": ("last", {})})
    assert drained("old", *nova)[0] == 0
    code, plan = drained("old", "--keep", "1", "--plan-out", "plan.json", *nova)
    assert (code, plan["moves"]) == (3, [])
    assert plan["blocked"][0]["reasons"] == ["it has room, but what --keep reserves would be used"]
    # The plan has the option.
    assert drained("--continue", "plan.json", *nova)[0] == 3


def test_a_plan_is_followed_to_the_end(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name in ("s0", "s1"):
        allocate(openstack, "old", "VCPU=3", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("old", {})})
    _, plan = drained("old", "--plan-out", "plan.json", *nova)
    targets = {move["server"]: move["to"].removeprefix("nova-") for move in plan["moves"]}
    # One is where it was planned, a user deleted the other one.
    allocate(openstack, targets[NAMES["s0"]], "VCPU=3", NAMES["s0"])
    openstack.target.ask("DELETE", f"/allocations/{NAMES['s1']}")
    nova = cloud({"s0": (targets[NAMES["s0"]], {})})
    code, now = drained("--continue", "plan.json", *nova)
    assert code == 0
    states = {step["server"]: step["state"] for step in now["steps"]}
    assert states == {NAMES["s0"]: "done", NAMES["s1"]: "deleted"}
    code, now = drained("--continue", "plan.json", "--verify-empty", *nova)
    assert (code, [host["empty"] for host in now["hosts"]]) == (0, [True])
    # A leftover in Placement alone is not empty.
    allocate(openstack, "old", "VCPU=1", NAMES["s3"])
    code, now = drained("--continue", "plan.json", "--verify-empty", *nova)
    assert (code, now["hosts"][0]["consumers"]) == (3, [NAMES["s3"]])


def test_a_live_step_goes_to_no_older_hypervisor(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name in ("s0", "s1"):
        allocate(openstack, "old", "VCPU=3", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("old", {"OS-EXT-STS:vm_state": "stopped"})})
    recording = pathlib.Path("nova.json")
    answers = json.loads(recording.read_text())
    nodes = answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"]

    def targets(**versions: int) -> tuple[int, dict[str, str], list[Any]]:
        for node in nodes:
            version = versions[node["hypervisor_hostname"]]
            node.update(hypervisor_type="QEMU", hypervisor_version=version)
        recording.write_text(json.dumps(answers))
        code, plan = drained("old", *nova)
        return code, {move["server"]: move["to"] for move in plan["moves"]}, plan["blocked"]

    code, moved, _ = targets(old=8, new=6, last=8)
    assert (code, moved[NAMES["s0"]]) == (0, "nova-last")
    code, moved, blocked = targets(old=8, new=6, last=7)
    assert (code, moved.keys()) == (3, {NAMES["s1"]})
    assert blocked[0]["server"] == NAMES["s0"]
    assert "another or an older hypervisor" in blocked[0]["reasons"][0]
    assert blocked[0]["changes"] == []


@pytest.mark.parametrize("missing", ["GET /v2.1/os-migrations", "GET /v2.1/servers/detail"])
def test_a_nova_that_hides_servers_or_migrations_makes_no_host_look_empty(
    missing: str, openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    nova = cloud({})
    drained("old", "--plan-out", "plan.json", *nova)
    recording = pathlib.Path("nova.json")
    answers = json.loads(recording.read_text())
    del answers[missing]
    recording.write_text(json.dumps(answers))
    for arguments in (["old"], ["--continue", "plan.json", "--verify-empty"]):
        code, stderr = openstack.fails(DRAIN, *arguments, *nova)
        assert (code, "a drain plan needs nova" in stderr) == (1, True)


def test_a_server_without_allocations_on_its_host_is_named_with_the_command_that_helps(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    allocate(openstack, "new", "VCPU=1", NAMES["s0"])
    _, plan = drained("old", *cloud({"s0": ("old", {}), "s1": ("old", {})}))
    commands = {each["server"]: each["reasons"][0].split("'")[1] for each in plan["blocked"]}
    assert commands == {
        NAMES["s0"]: "openstack placement allocation audit",
        NAMES["s1"]: "openstack placement allocation heal",
    }


def test_a_host_that_is_named_twice_is_drained_once(
    hosts: dict[str, str], openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    allocate(openstack, "old", "VCPU=3", NAMES["s0"])
    nova = cloud({"s0": ("old", {})})
    code, plan = drained("old", "nova-old", hosts["old"], "old", *nova)
    assert (code, plan["hosts"], len(plan["moves"])) == (0, ["nova-old"], 1)


def test_a_plan_that_is_older_than_the_moves_says_what_changed(
    openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    for name in ("s0", "s1"):
        allocate(openstack, "old", "VCPU=3", NAMES[name])
    nova = cloud({"s0": ("old", {}), "s1": ("old", {})})
    _, plan = drained("old", "--plan-out", "plan.json", *nova)
    targets = {move["server"]: move["to"].removeprefix("nova-") for move in plan["moves"]}
    other = next(name for name in ("new", "last") if name != targets[NAMES["s0"]])
    # Somebody moved one elsewhere and filled the target of the other; a new server came.
    allocate(openstack, other, "VCPU=3", NAMES["s0"])
    taken = "VCPU=8" if targets[NAMES["s1"]] != other else "VCPU=5"
    allocate(openstack, targets[NAMES["s1"]], taken)
    allocate(openstack, "old", "VCPU=1", NAMES["s2"])
    nova = cloud({"s0": (other, {}), "s1": ("old", {}), "s2": ("old", {})})
    ended = openstack.run(DRAIN, "--continue", "plan.json", *nova, "-f", "json")
    now = json.loads(ended.stdout)
    assert {step["server"]: step["state"] for step in now["steps"]} == {
        NAMES["s0"]: "elsewhere", NAMES["s1"]: "waits"
    }  # fmt: skip
    moves = {move["server"]: move["to"].removeprefix("nova-") for move in now["moves"]}
    assert moves.keys() == {NAMES["s1"], NAMES["s2"]}
    assert moves[NAMES["s1"]] != targets[NAMES["s1"]]
    assert "Changed: c2: new, to" in ended.stderr
    assert f"instead of nova-{targets[NAMES['s1']]}" in " ".join(ended.stderr.split())


def migration(status: str) -> dict[str, Any]:
    return {
        "uuid": NAMES["s3"], "instance_uuid": NAMES["s0"], "migration_type": "live-migration",
        "status": status, "source_compute": "nova-old", "source_node": "old",
        "dest_compute": "nova-new", "dest_node": "new", "updated_at": "2026-11-01T12:00:00",
        "created_at": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "status", "state"),
    [
        ({"OS-EXT-STS:task_state": "migrating"}, "running", "moving"),
        ({"OS-EXT-STS:task_state": "migrating"}, "completed", "disagrees"),
        ({"OS-EXT-STS:vm_state": "error", "status": "ERROR"}, None, "error"),
        ({}, None, "waits"),
    ],
)
def test_each_end_of_a_step_has_its_own_word(
    fields: dict[str, Any],
    status: str | None,
    state: str,
    openstack: OpenStack,
    cloud: Cloud,
    drained: Drained,
) -> None:
    allocate(openstack, "old", "VCPU=3", NAMES["s0"])
    drained("old", "--plan-out", "plan.json", *cloud({"s0": ("old", {})}))
    if status:
        allocate(openstack, "old", "VCPU=3", NAMES["s3"])
        allocate(openstack, "new", "VCPU=3", NAMES["s0"])
    nova = cloud({"s0": ("old", fields)}, [migration(status)] if status else [])
    _, now = drained("--continue", "plan.json", *nova)
    assert [step["state"] for step in now["steps"]] == [state]
    if state == "disagrees":
        (step,), (blocked,) = now["steps"], now["blocked"]
        end = step["advice"].partition(": look for the guest on nova-new and nova-old ")[2]
        assert "in nova's database" in end
        assert blocked["reasons"][0].endswith(end)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nohost"], "nohost"),
        (["old", "new", "last"], "none is left as a target"),
        (["new"], "openstack server evacuate"),
        (["last"], "openstack server evacuate"),
        (["--continue", "damaged.json"], "is not a drain plan"),
        (["--continue", "edited.json"], "was changed or damaged"),
        (["--continue", "other.json"], "the plan is for http://other.example.org, and this is"),
        (["--continue", "gone.json"], "00000000-0000-4000-8000-0000000000c3"),
        (["old", "--keep", "2"], "--keep 2: there are only 2 other hosts, and one must not fail"),
    ],
)
def test_a_bad_input_is_named(
    arguments: list[str], words: str, openstack: OpenStack, cloud: Cloud, drained: Drained
) -> None:
    down = {"state": "down"}
    # Who empties a host has often disabled it before.
    nova = cloud({}, services={"new": down, "last": {**down, "status": "disabled"}})
    drained("old", "--plan-out", "plan.json", *nova)
    text = pathlib.Path("plan.json").read_text()
    pathlib.Path("edited.json").write_text(text.replace("nova-old", "nova-new"))
    pathlib.Path("damaged.json").write_text("[")
    plan = document.load(pathlib.Path("plan.json"))
    url = "http://other.example.org"
    other = dataclasses.replace(plan, identity=transport.Identity(url), target=url)
    document.write(pathlib.Path("other.json"), other)
    # The provider was deleted after the plan was made.
    gone = dataclasses.replace(plan, nodes=(NAMES["s3"],))
    document.write(pathlib.Path("gone.json"), gone)
    code, stderr = openstack.fails(DRAIN, *arguments, *nova)
    assert code == 1
    assert words in " ".join(stderr.split())
