# SPDX-License-Identifier: Apache-2.0
"""The snapshot commands, against the reference server and openstack-placement."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from osc_placement import server
from tests.support import plain_reading
from tests.support.peer import shell, target as targets
from tests.support.reshape import cloud_builder

CLOUD = "cloud.sqlite"
ON_FILE = ["--os-placement-database", CLOUD]
HOST = "cmp-0001.lab.example.org"
AMEND = ("resource provider inventory amend", "--resource", "VCPU:allocation_ratio=3", HOST)


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
    assert sample.state() == cloud_builder.without_generations(expected)

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

    openstack.do(*AMEND)
    outcome = openstack.run("placement snapshot diff", CLOUD, "live", "-f", "json")
    (row,) = json.loads(outcome.stdout)
    assert outcome.code == 3
    assert (row["kind"], row["name"], row["change"]) == ("provider", HOST, "changed")
    assert row["after"] == {"VCPU:allocation_ratio": 3.0}
    shown = openstack.run("placement snapshot diff", CLOUD, "live", "-f", "table")
    assert "VCPU:allocation_ratio=3.0" in shown.stdout

    pathlib.Path(CLOUD).unlink()
    openstack.do("placement snapshot save", CLOUD)
    assert openstack.run("placement snapshot diff", "live", CLOUD).code == 0
    assert saved() == plain(sample)


def ratio(target: targets.Target) -> float:
    uuid = target.ask("GET", f"/resource_providers?name={HOST}")["resource_providers"][0]["uuid"]
    path = f"/resource_providers/{uuid}/inventories"
    shown: float = target.ask("GET", path)["inventories"]["VCPU"]["allocation_ratio"]
    return shown


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


def test_two_clouds_are_compared_by_the_names_of_their_providers(
    openstack: shell.OpenStack,
) -> None:
    for name, hosts in (("east.sqlite", ("one", "two")), ("west.sqlite", ("one", "three"))):
        for host in hosts:
            shell.run(["--os-placement-database", name, "resource", "provider", "create", host])
    amend = ["--os-placement-database", "west.sqlite", *["resource", "provider", "inventory"]]
    assert shell.run([*amend, "amend", "one", "--resource", "VCPU:total=4", "--create"]).code == 0
    outcome = openstack.run("placement snapshot diff", "east.sqlite", "west.sqlite", "-f", "json")
    shown = [(row["name"], row["change"]) for row in json.loads(outcome.stdout)]
    assert shown == [("one", "changed"), ("three", "added"), ("two", "removed")]
    assert json.loads(outcome.stdout)[0]["after"]["VCPU:total"] == 4
    assert outcome.code == 3
    assert "These are two clouds: providers are compared by name" in outcome.stderr
