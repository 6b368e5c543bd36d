# SPDX-License-Identifier: Apache-2.0
"""A robot with the policy files of ``examples/policies`` reads what an admin reads, and no more.

keystone, Placement and nova are the real ones. The neutron of the lab has no policy.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lab import configure, identity, place
from lab.tests.conftest import OpenStack
from lab.tests.test_heal import reset

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

POLICIES = place.ROOT / "examples" / "policies"
ROLE, USER = "auditor", "robby"

#: Commands that read.
READS = (
    "placement health show",
    "placement allocation audit",
    "placement allocation heal --dry-run",
    "placement provider audit",
    "placement flavor audit",
    "placement aggregate mirror --dry-run",
    "allocation candidate explain --flavor m1.large",
    "placement capacity show --flavor m1.large",
    "placement host check cmp-0004",
    "placement host drain cmp-0008",
    "placement status show --check",
    "placement migration list",
    "resource provider list --long",
    "resource provider consumer list cmp-0007.lab.example.org",
    "allocation candidate list --resource VCPU=1",
    "trait list",
    "resource class list",
)
#: Exit codes of findings, warnings, unknown answers and refused changes.
ANSWERED = {0, 1, 3, 4, 6}
#: What differs from run to run.
AGE = re.compile(r'"age": \d+')
#: Changes, which Placement and nova refuse.
WRITES = (
    "resource provider inventory amend --resource VCPU:allocation_ratio=2 cmp-0008.lab.example.org",
    "resource provider trait add --trait CUSTOM_X --create cmp-0008.lab.example.org",
    "resource provider delete cmp-gone.lab.example.org",
    "resource class create CUSTOM_X",
    "trait create CUSTOM_X",
    "placement allocation audit --repair",
    "placement allocation heal",
    "placement aggregate mirror",
)


@pytest.fixture(scope="module")
def robot(seeded_lab: place.Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenStack]:
    """``openstack`` of a user with the role ``auditor`` in one project."""
    reset(seeded_lab)
    admin = identity.Keystone(seeded_lab)
    (project,) = admin.get("/projects?name=service")["projects"]
    role = admin.post("/roles", "role", name=ROLE)
    user = admin.post("/users", "user", name=USER, domain_id="default", password=place.PASSWORD)
    admin.put(f"/projects/{project['id']}/users/{user['id']}/roles/{role['id']}")
    files = {name: seeded_lab.path("etc", name, "policy.yaml") for name in ("placement", "nova")}
    for name, path in files.items():
        shutil.copy(POLICIES / f"{name}.yaml", path)
    folder = tmp_path_factory.mktemp("robot")
    cloud = configure.CLOUD.format(
        name="lab",
        region=place.REGION,
        keystone=seeded_lab.url("keystone"),
        user=USER,
        password=place.PASSWORD,
        scope=configure.IN_PROJECT.format("service"),
    )
    (folder / "clouds.yaml").write_text(f"clouds:\n{cloud}")
    yield Robot(seeded_lab, folder, "lab")
    for path in files.values():
        # A removed file leaves its rules in the services.
        path.write_text("{}\n")
    reset(seeded_lab)


class Robot(OpenStack):
    """``openstack`` of the robot, or of the admin of the lab, both with the cloud ``lab``."""

    def run(self, command: str, user: str = "", **environment: str) -> Any:
        if user != "admin":
            environment["OS_CLIENT_CONFIG_FILE"] = str(self.folder / "clouds.yaml")
        return super().run(command, **environment)


@pytest.mark.parametrize("command", READS)
def test_the_robot_reads_what_an_admin_reads(robot: Robot, command: str) -> None:
    read = robot.run(f"{command} -f json")
    of_admin = robot.run(f"{command} -f json", "admin")
    assert read.returncode in ANSWERED, read.stderr
    assert read.returncode == of_admin.returncode
    assert json.loads(read.stdout)
    assert AGE.sub("", read.stdout) == AGE.sub("", of_admin.stdout)


def test_the_robot_saves_a_snapshot_and_writes_the_report_and_the_metrics(
    robot: Robot,
) -> None:
    outputs = {}
    for user in ("", "admin"):
        name = user or "robot"
        for command in (
            f"placement snapshot save --with-nova {name}.sqlite",
            f"placement report write --output {name}.html",
            f"placement metrics write --textfile {name}.prom",
        ):
            ended = robot.run(command, user)
            assert ended.returncode == 0, ended.stderr
        text = (robot.folder / f"{name}.prom").read_text()
        outputs[name] = [line for line in text.splitlines() if "timestamp" not in line]
    assert outputs["robot"] == outputs["admin"]
    compared = robot.run("placement snapshot diff robot.sqlite admin.sqlite -f json")
    assert json.loads(compared.stdout) == []


def test_the_robot_changes_nothing(robot: Robot) -> None:
    before = state(robot)
    for command in WRITES:
        refused = robot.run(command)
        assert refused.returncode != 0, command
        assert "403" in refused.stdout + refused.stderr, (command, refused)
    assert state(robot) == before


def state(robot: Robot) -> list[Any]:
    """What an admin sees in Placement."""
    commands = ("resource provider list --long", "trait list", "resource class list")
    return [json.loads(robot.run(f"{command} -f json", "admin").stdout) for command in commands]


#: Prints the rules that let the robot do something to an object of another project.
GRANTED = """
import sys
from oslo_config import cfg
from oslo_policy import policy
from {service} import policies
conf = cfg.ConfigOpts()
conf([])
enforcer = policy.Enforcer(conf, policy_file=sys.argv[1])
enforcer.register_defaults(policies.list_rules())
robot = {{"roles": ["auditor"], "is_admin": True, "project_id": "p", "user_id": "u"}}
target = {{"project_id": "other", "user_id": "other"}}
for rule in policies.list_rules():
    if enforcer.enforce(rule.name, target, robot):
        print(rule.name)
"""
#: The last words of rules that read.
READING = re.compile(
    r"(:|-)(index|list|show|detail|details|get|limits|defaults|statistics|search|servers|events"
    r"|extensions|pools|usages|access|attributes|specs|get_all_tenants|allow_all_filters"
    r"|all_projects|host|host_status|unknown-only|images)$|^(context_is_admin|project_reader_or_admin)$"
)


@pytest.mark.parametrize("service", ["placement", "nova"])
def test_every_rule_of_a_service_that_the_robot_meets_only_reads(
    seeded_lab: place.Place, service: str
) -> None:
    program = GRANTED.format(service=service)
    path = str(POLICIES / f"{service}.yaml")
    granted = subprocess.run(
        [seeded_lab.program("python"), "-c", program, path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(granted) > 10
    assert [rule for rule in granted if not READING.search(rule)] == []
    assert not any("password" in rule or "console" in rule for rule in granted)
