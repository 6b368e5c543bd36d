# SPDX-License-Identifier: Apache-2.0
"""Plan files: what is refused, and that a refusal sends no request."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement import testing
from tests.functional.batch.test_undo import AMEND, HOSTS
from tests.support.peer import chaos, fixtures, shell, target as targets

pytestmark = fixtures.ON_ONE_TARGET

Damage = Callable[[str], str]


def changed(**fields: Any) -> Damage:
    def damage(text: str) -> str:
        return json.dumps(json.loads(text) | fields)

    return damage


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[chaos.Proxy, str]]:
    """A proxy before the sample cloud, and the text of a plan that was made through it."""
    loopback = targets.Loopback(7)
    loopback.load("12-hosts")
    path = tmp_path_factory.mktemp("plan") / "plan"
    with chaos.between(loopback.url) as proxy:
        plan = (AMEND, *HOSTS, "--resource", "VCPU:total=99", "--dry-run", "--plan-out", str(path))
        assert targets.run_at(proxy.url, *plan).code == 0
        yield proxy, path.read_text()
    loopback.stop()


@pytest.fixture
def proxy(made: tuple[chaos.Proxy, str], openstack: shell.OpenStack) -> chaos.Proxy:
    """The proxy, which counts requests; the plan is in the working folder."""
    proxy, text = made
    pathlib.Path("plan").write_text(text)
    proxy.requests.clear()
    return proxy


@pytest.mark.parametrize("command", ["show", "apply", "undo", "apply --dry-run"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "[" * 100000, "not a plan file"),
        (changed(target="http://elsewhere"), "its digest does not match"),
    ],
)
def test_a_damaged_plan_file_is_refused_before_any_request(
    proxy: chaos.Proxy, command: str, damage: Damage, message: str
) -> None:
    path = pathlib.Path("plan")
    path.write_text(damage(path.read_text()))
    outcome = targets.run_at(proxy.url, f"placement plan {command}", "plan")
    assert outcome.code == 1
    assert outcome.stderr.startswith("plan: ")
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not proxy.requests


@pytest.mark.parametrize("command", ["apply", "undo", "apply --dry-run"])
def test_a_plan_of_another_cloud_is_refused_before_any_request(
    proxy: chaos.Proxy, command: str
) -> None:
    with chaos.between(proxy.url) as other:
        outcome = targets.run_at(other.url, f"placement plan {command}", "plan")
        assert outcome.code == 1
        assert f"made for {proxy.url}" in outcome.stderr
        assert other.url in outcome.stderr
    assert not proxy.requests


def test_no_file_and_no_output_has_the_password_of_the_endpoint(
    proxy: chaos.Proxy, tmp_path: pathlib.Path
) -> None:
    where = targets.admin_options(proxy.url.replace("//", "//me:s3cret@"))
    where[-1] = "admin:s3cret"
    amend = (*where, *AMEND.split(), HOSTS[0], "--resource")
    runs = [
        shell.run([*amend, "VCPU:reserved+=2", "--plan-out", "own.json"]),
        shell.run([*where, "placement", "plan", "apply", "own.json"]),
        shell.run([*where, "placement", "plan", "undo", "own.json"]),
        shell.run([*where, "placement", "plan", "list", "-f", "json"]),
        shell.run([*amend, "VCPU:total=0"]),
    ]
    assert [outcome.code for outcome in runs[:-1]] == [0, 0, 0, 0], runs
    assert [outcome for outcome in runs if "s3cret" in outcome.stdout + outcome.stderr] == []
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert [path for path in kept if b"s3cret" in path.read_bytes()] == []
    logged = shell.run(["--debug", *amend, "VCPU:total=98"]).stderr.splitlines()
    # The shell itself logs its command line and options.
    of_requests = [line for line in logged if "resource_providers" in line]
    assert of_requests
    assert [line for line in of_requests if "s3cret" in line] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{AMEND} --all --resource VCPU:total=98 -c nmae", "unknown column nmae"),
        ("placement plan apply plan -c name -c x", "unknown column x"),
    ],
)
def test_wrong_columns_are_refused_before_any_request(
    proxy: chaos.Proxy, line: str, message: str
) -> None:
    outcome = targets.run_at(proxy.url, line)
    assert (outcome.code, message in outcome.stderr) == (2, True), outcome
    assert not proxy.requests


def test_a_dry_run_writes_the_plan_to_standard_output(openstack: shell.OpenStack) -> None:
    openstack.target.load(testing.Cloud().host("rp-0", VCPU=4).document())
    command = (AMEND, "rp-0", "--resource", "VCPU:total=99", "--plan-out", "-")
    ended = openstack.run(*command, "--dry-run")
    assert [item["subject"]["name"] for item in json.loads(ended.stdout)["changes"]] == ["rp-0"]
    assert "1 planned" in ended.stderr
    pathlib.Path("plan").write_text(ended.stdout)
    assert openstack.run("placement plan apply", "plan").code == 0
    code, text = openstack.fails(*command)
    assert (code, "argument --plan-out: - needs --dry-run" in text) == (2, True)
    assert not pathlib.Path("-").exists()
