# SPDX-License-Identifier: Apache-2.0
"""The snapshot commands, against the embedded server and openstack-placement."""

from __future__ import annotations

import json
import pathlib
import random
import threading
from typing import Any

import pytest

from osc_placement import server
from tests.support import plain_reading
from tests.support.peer import shell, target as targets

CLOUD = "cloud.sqlite"
ON_FILE = ["--os-placement-database", CLOUD]


def plain(target: targets.Target) -> dict[str, Any]:
    return plain_reading.comparable(plain_reading.read(target.ask))


def saved(path: str = CLOUD) -> dict[str, Any]:
    app = server.create_app(path)
    try:
        return plain_reading.comparable(app.export())
    finally:
        app.close()


def on_file(*words: str) -> shell.Outcome:
    return shell.run([*ON_FILE, *words])


def test_a_snapshot_equals_a_plain_reading(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    report = openstack("placement snapshot save", CLOUD)
    expected = plain(sample)
    assert report["resource_providers"] == len(expected["providers"]) == 22
    assert report["notes"] == []
    assert saved() == expected

    shown = openstack("placement snapshot show", CLOUD)
    assert shown["unchanged"] is True
    assert shown["consumers"] == len(expected["consumers"])
    assert shown["source"] == report["source"]
    assert pathlib.Path(CLOUD).stat().st_mode & 0o777 == 0o600


def test_the_cloud_equals_its_snapshot_until_it_changes(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    openstack("placement snapshot save", CLOUD)
    outcome = openstack.run("placement snapshot diff", CLOUD, "live", "-f", "json")
    assert (outcome.code, json.loads(outcome.stdout)) == (0, [])
    assert "The states are equal" in outcome.stderr

    host = "cmp-0001.lab.example.org"
    amend = ("--resource", "VCPU:allocation_ratio=3", host)
    openstack.do("resource provider inventory amend", *amend)
    outcome = openstack.run("placement snapshot diff", CLOUD, "live", "-f", "json")
    (row,) = json.loads(outcome.stdout)
    assert outcome.code == 3
    assert (row["kind"], row["name"], row["change"]) == ("provider", host, "changed")
    assert row["after"] == {"VCPU:allocation_ratio": 3.0}

    openstack.do("placement snapshot save", CLOUD, "--refresh")
    assert openstack.run("placement snapshot diff", "live", CLOUD).code == 0
    assert saved() == plain(sample)


def test_commands_run_on_a_snapshot(openstack: shell.OpenStack, sample: targets.Target) -> None:
    openstack("placement snapshot save", CLOUD)
    for command in (
        "resource provider list",
        "allocation candidate list --resource VCPU=1 -c allocation",
        "trait list --name startswith:CUSTOM_",
    ):
        there = json.loads(on_file(*command.split(), "-f", "json").stdout)
        here = openstack(command)
        assert sorted(map(json.dumps, there)) == sorted(map(json.dumps, here)), command


HOST = "cmp-0001.lab.example.org"
AMEND = ("resource provider inventory amend", "--resource", "VCPU:allocation_ratio=3", HOST)


def ratio(target: targets.Target) -> float:
    uuid = target.ask("GET", f"/resource_providers?name={HOST}")["resource_providers"][0]["uuid"]
    path = f"/resource_providers/{uuid}/inventories"
    found: float = target.ask("GET", path)["inventories"]["VCPU"]["allocation_ratio"]
    return found


def test_a_plan_of_the_cloud_is_rehearsed_on_its_snapshot_and_then_applied(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    openstack("placement snapshot save", CLOUD)
    before = ratio(sample)
    openstack.do(*AMEND, "--dry-run", "--plan-out", "plan.json")
    rehearsed = on_file("placement", "plan", "apply", "plan.json", "-f", "json")
    assert [row["status"] for row in json.loads(rehearsed.stdout)] == ["applied"]
    assert openstack("placement snapshot show", CLOUD)["unchanged"] is False
    assert ratio(sample) == before

    applied = openstack("placement plan apply", "plan.json")
    assert [row["status"] for row in applied] == ["applied"]
    assert ratio(sample) == 3.0
    undone = on_file("placement", "plan", "undo", "plan.json", "-f", "json")
    assert [row["status"] for row in json.loads(undone.stdout)] == ["applied"]
    assert ratio(sample) == 3.0


def test_a_plan_of_a_snapshot_is_applied_to_the_cloud(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    openstack("placement snapshot save", CLOUD)
    command, *arguments = AMEND
    on_file(*command.split(), *arguments, "--dry-run", "--plan-out", "plan.json")
    shown = shell.run(["placement", "plan", "show", "plan.json"])
    assert "(a snapshot of " in shown.stderr
    applied = openstack("placement plan apply", "plan.json")
    assert [row["status"] for row in applied] == ["applied"]
    assert ratio(sample) == 3.0


class Writer(threading.Thread):
    """Changes inventories and aggregates of all providers, and records every state of each."""

    def __init__(self, target: targets.Target) -> None:
        super().__init__(daemon=True)
        self.target = target
        self.chance = random.Random(7)
        self.stopping = threading.Event()
        #: ``{uuid: {generation: (inventories, aggregates)}}``
        self.history: dict[str, dict[int, Any]] = {}
        for item in target.ask("GET", "/resource_providers")["resource_providers"]:
            self.history[item["uuid"]] = {}
            self.record(item["uuid"])
        self.writes = 0

    def record(self, uuid: str) -> None:
        path = f"/resource_providers/{uuid}"
        inventories = self.target.ask("GET", f"{path}/inventories")
        aggregates = self.target.ask("GET", f"{path}/aggregates")
        generation = inventories["resource_provider_generation"]
        self.history[uuid][generation] = (
            inventories["inventories"],
            sorted(aggregates["aggregates"]),
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            uuid = self.chance.choice([*self.history])
            path = f"/resource_providers/{uuid}"
            kind = self.chance.choice(["inventories", "aggregates"])
            body = self.target.ask("GET", f"{path}/{kind}")
            if kind == "aggregates":
                known = self.chance.choice([*self.history])
                body["aggregates"] = [known]
            else:
                for fields in body["inventories"].values():
                    fields["allocation_ratio"] = fields["allocation_ratio"] + 0.5
            self.target.request("PUT", f"{path}/{kind}", body)
            self.record(uuid)
            self.writes += 1


@pytest.mark.parametrize("target", ["loopback", "placement"], indirect=True)
def test_each_provider_is_a_state_that_existed_while_others_write(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    writer = Writer(sample)
    writer.start()
    try:
        report = openstack("placement snapshot save", CLOUD, "--os-placement-workers", "2")
    finally:
        writer.stopping.set()
        writer.join()
    assert writer.writes > 5
    unstable = {note["uuid"] for note in report["notes"] if "never stable" in note["text"]}
    found = saved()["providers"]
    for uuid, states in writer.history.items():
        if uuid not in unstable:
            provider = found[uuid]
            expected = states[provider["generation"]]
            assert (provider["inventories"], provider["aggregates"]) == expected
    listed = {note["uuid"] for note in report["notes"]}
    current = plain(sample)["providers"]
    quiet = [uuid for uuid in found if uuid not in listed and len(writer.history[uuid]) == 1]
    for uuid in quiet:
        assert found[uuid] == current[uuid]
    assert listed


def test_a_file_of_another_cloud_is_refused(
    openstack: shell.OpenStack, sample: targets.Target
) -> None:
    openstack("placement snapshot save", CLOUD)
    other = ["--os-placement-database", "other.sqlite"]
    shell.run([*other, "resource", "provider", "create", "one"])
    outcome = shell.run([*other, "placement", "snapshot", "save", CLOUD, "--refresh"])
    assert outcome.code == 1
    assert f"{CLOUD} is a snapshot of" in outcome.stderr
    assert "nothing was changed" in outcome.stderr


def test_a_database_is_compared_like_a_snapshot(openstack: shell.OpenStack) -> None:
    for name in ("a.sqlite", "b.sqlite"):
        shell.run(["--os-placement-database", name, "trait", "create", "CUSTOM_A"])
    shell.run(["--os-placement-database", "b.sqlite", "trait", "create", "CUSTOM_B"])
    outcome = openstack.run("placement snapshot diff", "a.sqlite", "b.sqlite", "-f", "json")
    (row,) = json.loads(outcome.stdout)
    assert (outcome.code, row["kind"], row["name"]) == (3, "trait", "CUSTOM_B")
