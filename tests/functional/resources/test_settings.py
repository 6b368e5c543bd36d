# SPDX-License-Identifier: Apache-2.0
"""Sources of settings, and errors of a broken server."""

from __future__ import annotations

import http.server
import json
import pathlib
import socket
import threading
from typing import Any

import pytest

from tests.support import raw_server, versions
from tests.support.peer import shell
from tests.support.peer.target import OverHttp, Target, run_at

LIST = ["resource", "provider", "list", "-f", "csv"]
FLAT = '"uuid","name","generation"'
NESTED = f'{FLAT},"root_provider_uuid","parent_provider_uuid"'


@pytest.fixture
def cloud(
    target: Target,
    openstack: shell.OpenStack,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> Any:
    """Run ``openstack`` with a clouds.yaml that has these lines for its cloud, ``it``."""
    if isinstance(target, OverHttp):
        reach = f"auth_type: admin_token, auth: {{endpoint: '{target.url}', token: admin}}"
    else:
        option, file = target.options
        reach = f"{option.removeprefix('--os-').replace('-', '_')}: {file}"
    openstack.do("resource provider create", "node")
    monkeypatch.setenv("OS_CLOUD", "it")
    # The SDK looks for the file's usual places once per process.
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))

    def run(setting: str, *arguments: str) -> shell.Outcome:
        entry = f"{reach}, {setting}" if setting else reach
        (tmp_path / "clouds.yaml").write_text(f"clouds: {{it: {{{entry}}}}}\n")
        return shell.run([*arguments, *LIST])

    return run


@pytest.mark.parametrize(
    ("setting", "heading"),
    [
        ("", NESTED),
        ("placement_api_version: '1.13'", FLAT),
        ("placement_api_version: 1.13", FLAT),
        ("placement_api_version: '1.14'", NESTED),
        ("placement_api_version: latest", NESTED),
        ("placement_api_version: 1", NESTED),
    ],
)
def test_clouds_yaml_pins_the_version(cloud: Any, setting: str, heading: str) -> None:
    outcome = cloud(setting)
    assert (outcome.code, outcome.messages) == (0, ""), outcome
    assert outcome.stdout.splitlines()[0] == heading


def test_options_override_the_environment_and_clouds_yaml(
    cloud: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_PLACEMENT_API_VERSION", "1.5")
    assert cloud("placement_api_version: '1.20'").stdout.splitlines()[0] == FLAT
    pinned = cloud("placement_api_version: '1.2'", "--os-placement-api-version", "1.20")
    assert pinned.stdout.splitlines()[0] == NESTED


def test_a_version_that_yaml_shortened_is_refused(cloud: Any) -> None:
    outcome = cloud("placement_api_version: 1.30")
    assert outcome.code == 1
    assert 'placement_api_version: "1.30"' in outcome.stderr


def test_an_invalid_version_in_clouds_yaml_is_reported(cloud: Any) -> None:
    outcome = cloud("placement_api_version: newest")
    assert (outcome.code, versions.RANGE in outcome.stderr) == (1, True)


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


class Page(http.server.BaseHTTPRequestHandler):
    """Answers as a proxy without a backend."""

    body = b"<html>\n<head><title>502 Bad Gateway</title></head>\n</html>\n"
    status = 502

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (502, Page.body, "502 Bad Gateway (HTTP 502)"),
        (503, b"", "HTTP 503"),
        (200, b"<html><body>Sign in</body></html>", "not JSON but: Sign in"),
        (200, b"", "not Placement's version document"),
        (200, b"[]", "not Placement's version document"),
        (404, b'{"error": "gone"}', "HTTP 404"),
    ],
)
def test_a_foreign_response_is_reported_in_one_line(status: int, body: bytes, message: str) -> None:
    handler = type("Handler", (Page,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        outcome = run_at(f"http://127.0.0.1:{server.server_port}", "", *LIST)
        server.shutdown()
    assert outcome.code == 1
    assert message in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1


def test_an_unreachable_server_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for pinned in ([], ["--os-placement-api-version", "1.20"]):
        outcome = run_at(f"http://127.0.0.1:{port}", "", *pinned, "trait", "create", "CUSTOM_A")
        assert outcome.code == 1
        assert "Connection refused" in outcome.stderr
        assert len(outcome.stderr.strip().splitlines()) == 1


def test_help_needs_no_cloud_and_sends_nothing() -> None:
    outcome = shell.run(["allocation", "candidate", "list", "--help"])
    assert outcome.code == 0
    assert "Needs Placement API 1.10 or later." in outcome.stdout


def test_requests_are_limited_by_option_environment_and_clouds_yaml(
    cloud: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "argument --os-placement-workers: 0 is less than 1"
    assert cloud("placement_workers: 4, placement_rate: 50").code == 0
    outcome = cloud("placement_workers: 0")
    assert (outcome.code, refused in outcome.stderr) == (2, True), outcome
    assert cloud("placement_workers: 0", "--os-placement-workers", "3").code == 0
    monkeypatch.setenv("OS_PLACEMENT_RATE", "many")
    outcome = cloud("")
    assert (outcome.code, "--os-placement-rate: invalid int value: 'many'" in outcome.stderr) == (
        2,
        True,
    ), outcome
    assert cloud("", "--os-placement-rate", "20").code == 0


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
