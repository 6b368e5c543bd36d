# SPDX-License-Identifier: Apache-2.0
"""What a command prints of passwords and tokens, at every verbosity.

``openstack`` prints its own command line and settings (``-v``, ``--debug``): see the page
"Security". Every other line, of this package and of the libraries, has no secret.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.support.peer import shell

pytestmark = pytest.mark.parametrize("target", ["loopback"], indirect=True)

SECRET = "s3cretPW"
LIST = "resource provider list"
#: How the lines begin in which openstack itself shows its command line and settings.
OF_OPENSTACK = (
    "START with options: ",
    "options: ",
    "auth_config_hook(): ",
    "cloud cfg: ",
    "Using parameters ",
)
DATABASES = {
    "user": f"postgresql+psycopg2://u:{SECRET}@127.0.0.1:9/p",
    "parameter": f"postgresql+psycopg2://u@127.0.0.1:9/p?password={SECRET}",
    "odbc": f"mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3D{SECRET}",
    "dollar": f"mysql+pymysql://u:a${SECRET}@127.0.0.1:9/p",
}


def at(url: str, token: str = "admin") -> list[str]:
    return ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", token]


@pytest.mark.parametrize("verbosity", ["-q", "-v", "-vv", "--debug"])
@pytest.mark.parametrize(
    "place", ["endpoint", "query", "token", "wrong endpoint", "no server", "proxy", *DATABASES]
)
def test_no_line_of_a_command_has_a_secret(
    place: str,
    verbosity: str,
    openstack: shell.OpenStack,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = str(openstack.target.url)  # type: ignore[attr-defined]
    port = url.rpartition(":")[2]
    options = at(url)
    if place in DATABASES:
        configuration = tmp_path / "placement.conf"
        configuration.write_text(f"[placement_database]\nconnection = {DATABASES[place]}\n")
        options = ["--os-placement-config", str(configuration)]
    elif place == "proxy":
        monkeypatch.setenv("http_proxy", f"http://op:{SECRET}@127.0.0.1:9")
        options = at("http://placement.example")
    elif place == "token":
        options = at(url, f"admin:{SECRET}")
    else:
        addresses = {
            "endpoint": f"http://op:{SECRET}@127.0.0.1:{port}",
            "query": f"{url}/?token={SECRET}",
            "wrong endpoint": f"http:/op:{SECRET}@127.0.0.1:{port}",
            "no server": f"http://op:{SECRET}@127.0.0.1:9",
        }
        options = at(addresses[place])
    monkeypatch.setenv("no_proxy", "")
    outcome = shell.run([verbosity, *options, *LIST.split()])
    assert outcome.code == (0 if place in ("endpoint", "token") else 1), outcome
    lines = [*outcome.stderr.splitlines(), *outcome.stdout.splitlines()]
    own = [line for line in lines if not line.startswith(OF_OPENSTACK)]
    assert len(own) > (20 if verbosity == "--debug" else 0)
    assert [line for line in own if SECRET in line] == []
