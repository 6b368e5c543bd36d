# SPDX-License-Identifier: Apache-2.0
"""Sources of settings, and errors of a broken server."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.support import raw_server, versions
from tests.support.peer import fixtures, shell, target as targets
from tests.support.peer.target import run_at

LIST = ["resource", "provider", "list", "-f", "csv"]
FLAT = '"uuid","name","generation"'
PAGE = b"<html>\n<head><title>502 Bad Gateway</title></head>\n</html>\n"
NESTED = f'{FLAT},"root_provider_uuid","parent_provider_uuid"'


REFUSED = "argument --os-placement-workers: 0 is less than 1"
AT = "--os-placement-api-version"
VERSION, RATE = "OS_PLACEMENT_API_VERSION", "OS_PLACEMENT_RATE"


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(
    ("setting", "environment", "options", "code", "text"),
    [
        ("", {}, "", 0, NESTED),
        ("placement_api_version: '1.13'", {}, "", 0, FLAT),
        ("placement_api_version: 1.13", {}, "", 0, FLAT),
        ("placement_api_version: '1.14'", {}, "", 0, NESTED),
        ("placement_api_version: latest", {}, "", 0, NESTED),
        ("placement_api_version: 1", {}, "", 0, NESTED),
        # An option overrides the environment, and that clouds.yaml.
        ("placement_api_version: '1.20'", {VERSION: "1.5"}, "", 0, FLAT),
        ("placement_api_version: '1.2'", {VERSION: "1.5"}, f"{AT} 1.20", 0, NESTED),
        ("placement_api_version: 1.30", {}, "", 1, 'placement_api_version: "1.30"'),
        ("placement_api_version: newest", {}, "", 1, versions.RANGE),
        ("placement_workers: 4, placement_rate: 50", {}, "", 0, NESTED),
        ("placement_workers: 0", {}, "", 2, REFUSED),
        ("placement_workers: 0", {}, "--os-placement-workers 3", 0, NESTED),
        ("", {RATE: "many"}, "", 2, "--os-placement-rate: invalid int value: 'many'"),
        ("", {RATE: "many"}, "--os-placement-rate 20", 0, NESTED),
    ],
)
def test_clouds_yaml_the_environment_and_options_set_the_version_and_the_limits(
    target: targets.Target,
    openstack: shell.OpenStack,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    setting: str,
    environment: dict[str, str],
    options: str,
    code: int,
    text: str,
) -> None:
    openstack.do("resource provider create", "node")
    entry = f"placement_database: {target.options[1]}" + (f", {setting}" if setting else "")
    (tmp_path / "clouds.yaml").write_text(f"clouds: {{it: {{{entry}}}}}\n")
    # The SDK looks for the file's usual places once per process.
    where = {"OS_CLOUD": "it", "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}
    for name, value in {**where, **environment}.items():
        monkeypatch.setenv(name, value)
    outcome = shell.run([*options.split(), *LIST])
    assert outcome.code == code, outcome
    if code:
        assert text in outcome.stderr
    else:
        assert (outcome.stdout.splitlines()[0], outcome.messages) == (text, "")


def test_the_environment_names_the_database(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSC_PLACEMENT_DATABASE", str(tmp_path / "cloud.db"))
    assert shell.run(["resource", "provider", "create", "node"]).code == 0
    assert len(shell.run(LIST).stdout.splitlines()) == 2


def test_a_named_cloud_overrides_the_database_of_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSC_PLACEMENT_DATABASE", str(tmp_path / "cloud.db"))
    outcome = run_at("http://127.0.0.1:1", "resource provider create node")
    assert outcome.code == 1
    assert "127.0.0.1:1" in outcome.stderr
    assert not (tmp_path / "cloud.db").exists()


def test_a_database_and_a_named_cloud_are_a_usage_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clouds.yaml").write_text("clouds: {prod: {auth_type: none}}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    outcome = shell.run(["--os-placement-database", "cloud.db", "--os-cloud", "prod", *LIST])
    assert outcome.code == 2
    assert "--os-placement-database and --os-cloud name two targets" in outcome.stderr


@pytest.mark.parametrize(
    "command",
    [
        LIST,
        ["trait", "show", "CUSTOM_A"],
        ["placement", "status", "show"],
        ["placement", "allocation", "audit", "--os-nova-recording", "12-hosts"],
        ["resource", "provider", "trait", "add", "--trait", "CUSTOM_A", "--dry-run", "node"],
    ],
    ids=lambda words: "-".join(words[:3]),
)
def test_a_command_that_only_reads_does_not_create_the_database(
    tmp_path: pathlib.Path, command: list[str]
) -> None:
    database = tmp_path / "cloud.db"
    outcome = shell.run(["--os-placement-database", str(database), *command])
    assert outcome.code == 1
    assert f"{database} does not exist" in outcome.stderr
    assert not database.exists()


def test_a_command_names_its_database_on_stderr_unless_quiet(tmp_path: pathlib.Path) -> None:
    options = ["--os-placement-database", str(tmp_path / "cloud.db")]
    created = shell.run([*options, "resource", "provider", "create", "node", "-f", "json"])
    assert json.loads(created.stdout)["name"] == "node"
    assert created.stderr == f"Database file: {tmp_path / 'cloud.db'}\n"
    assert shell.run([*options, "-q", *LIST]).stderr == ""


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (502, PAGE, "502 Bad Gateway (HTTP 502)"),
        (200, b"<html><body>Sign in</body></html>", "not JSON but: Sign in"),
        (200, b"[]", "not Placement's version document"),
    ],
)
def test_a_foreign_response_is_reported_in_one_line(status: int, body: bytes, message: str) -> None:
    head = f"HTTP/1.1 {status} Status\r\nContent-Length: {len(body)}\r\n\r\n"
    with raw_server.listening(head.encode() + body) as (url, _):
        outcome = run_at(url, "", *LIST)
    assert outcome.code == 1
    assert message in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1


def test_help_needs_no_cloud_and_sends_nothing() -> None:
    outcome = shell.run(["allocation", "candidate", "list", "--help"])
    assert outcome.code == 0
    assert "Needs Placement API 1.10 or later." in outcome.stdout


@fixtures.ON_ONE_TARGET
def test_the_help_of_openstack_lists_the_commands(openstack: shell.OpenStack) -> None:
    listed = openstack.run("--help").stdout
    assert "placement recipe vgpu" in listed
    assert "placement query replay" in listed
    assert "reshape recipe" not in listed


@pytest.mark.parametrize("command", ["resource provider list", "placement health show"])
def test_the_login_of_openstack_sends_no_password_to_another_port(command: str) -> None:
    moved = (
        b"HTTP/1.1 307 Moved\r\nLocation: %s/v3\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    user = (
        "--os-username op --os-password s3cret --os-user-domain-id default --os-auth-type password"
    )
    with (
        raw_server.listening(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, stolen),
        raw_server.listening(moved % other.encode()) as (keystone, _),
    ):
        outcome = shell.run([*f"--os-auth-url {keystone}/v3 {user} {command}".split()])
    assert (outcome.code, stolen) == (1, [])
    assert f"{keystone}/v3: the server redirects to {other}/v3" in outcome.stderr
