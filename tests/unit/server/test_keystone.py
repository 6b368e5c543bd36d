# SPDX-License-Identifier: Apache-2.0
"""Keystone tokens: the real keystonemiddleware with a keystone that is a table."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import webob
from keystonemiddleware import auth_token

from osc_placement import errors, server
from osc_placement.server import auth, run

URL = "http://keystone.example.com/v3"
CONFIGURATION = f"""\
[keystone_authtoken]
auth_type = none
www_authenticate_uri = {URL}
"""
DOMAIN = {"id": "default", "name": "Default"}

#: Headers that only the middleware may set.
SMUGGLED = {
    "x-identity-status": "Confirmed",
    "x-user-id": "mallory",
    "x-project-id": "acme",
    "x-roles": "admin,service",
    "x-role": "admin",
    "x-service-roles": "admin,service",
    "x-is-admin-project": "True",
}


def project(name: str, *roles: str) -> dict[str, Any]:
    return token(roles, project={"id": name, "name": name, "domain": DOMAIN})


def token(roles: tuple[str, ...], **scope: Any) -> dict[str, Any]:
    """Keystone's response for a valid token."""
    now = datetime.datetime.now(datetime.UTC)
    form = "%Y-%m-%dT%H:%M:%S.%fZ"
    facts = {
        "user": {"id": "bob", "name": "bob", "domain": DOMAIN},
        "roles": [{"id": name, "name": name} for name in roles],
        "issued_at": now.strftime(form),
        "expires_at": (now + datetime.timedelta(hours=1)).strftime(form),
        "methods": ["password"],
        "catalog": [],
    }
    return {"token": {**facts, **scope}}


TOKENS = {
    "admin": project("admin", "admin"),
    "member": project("acme", "member", "reader"),
    "robot": project("service", "service"),
    "system": token(("admin",), system={"all": True}),
    "domain": token(("admin",), domain=DOMAIN),
}


@pytest.fixture
def validated_tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the middleware validates in keystone, which knows TOKENS."""
    requested: list[str] = []

    def fetch(protocol: Any, name: str, **_: Any) -> dict[str, Any]:
        requested.append(name)
        if name not in TOKENS:
            raise auth_token.InvalidToken("unknown")
        return TOKENS[name]

    monkeypatch.setattr(auth_token.AuthProtocol, "fetch_token", fetch)
    return requested


@pytest.fixture
def config_file(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "server.conf"
    path.write_text(CONFIGURATION)
    return str(path)


@pytest.fixture
def app(validated_tokens: list[str], config_file: str) -> Iterator[server.App]:
    with contextlib.closing(server.create_app(auth="keystone", config_file=config_file)) as created:
        yield created


def ask(app: server.App, path: str, name: str | None = None, **headers: str) -> webob.Response:
    sent = {"openstack-api-version": "placement 1.39", **headers}
    if name is not None:
        sent["x-auth-token"] = name
    return webob.Request.blank(path, headers=sent).get_response(app)


@pytest.mark.parametrize("name", [None, "garbage", ""])
def test_an_invalid_token_is_refused_with_the_keystone_url(
    app: server.App, name: str | None
) -> None:
    answer = ask(app, "/traits", name)
    assert answer.status_int == 401
    assert answer.headers["www-authenticate"] == f'Keystone uri="{URL}"'


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        *((name, "resource_providers", 200) for name in ("admin", "robot")),
        *((name, "resource_providers", 403) for name in ("member", "system", "domain")),
        *(("member", "usages?project_id=acme", 200), ("member", "usages?project_id=globex", 403)),
    ],
)
def test_roles_and_scope_of_a_token_are_enforced(
    app: server.App, name: str, path: str, status: int
) -> None:
    assert ask(app, f"/{path}", name).status_int == status


def test_the_root_needs_no_token_and_no_keystone(
    app: server.App, validated_tokens: list[str]
) -> None:
    for name in (None, "garbage", "admin"):
        assert ask(app, "/", name).status_int == 200
    assert validated_tokens == []


@pytest.mark.parametrize(
    ("name", "headers", "status"),
    [
        (None, SMUGGLED, 401),
        ("garbage", SMUGGLED, 401),
        ("member", SMUGGLED, 403),
        ("admin", {"openstack-system-scope": "all", "x-domain-id": "default"}, 200),
    ],
)
def test_a_client_cannot_confirm_itself_or_change_its_roles_and_scope(
    app: server.App, name: str | None, headers: dict[str, str], status: int
) -> None:
    assert ask(app, "/traits", name, **headers).status_int == status


@pytest.mark.parametrize("status", [None, "Invalid", "confirmed", ""])
def test_only_a_confirmed_identity_counts(status: str | None) -> None:
    environ = {"HTTP_X_USER_ID": "u", "HTTP_X_ROLES": "admin"}
    if status is not None:
        environ["HTTP_X_IDENTITY_STATUS"] = status
    assert auth.keystone(environ) is None


def test_the_identity_comes_from_the_middleware() -> None:
    environ = {
        "HTTP_X_IDENTITY_STATUS": "Confirmed",
        "HTTP_X_USER_ID": "u",
        "HTTP_X_PROJECT_ID": None,
        "HTTP_X_ROLES": "admin, reader",
        "HTTP_OPENSTACK_SYSTEM_SCOPE": "all",
        "HTTP_X_DOMAIN_ID": None,
    }
    assert auth.keystone(environ) == auth.RequestIdentity(
        "u", None, ("admin", "reader"), "all", None
    )


def test_a_cors_preflight_needs_no_token(validated_tokens: list[str], config_file: str) -> None:
    origin = "http://dashboard.example.com"
    app = server.create_app(auth="keystone", config_file=config_file, cors_allowed_origins=[origin])
    headers = {"origin": origin, "access-control-request-method": "GET"}
    request = webob.Request.blank("/traits", method="OPTIONS", headers=headers)
    assert request.get_response(app).headers["access-control-allow-origin"] == origin


def test_an_unreachable_keystone_is_reported_as_unavailable(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(
        "[keystone_authtoken]\nauth_type = v3token\nauth_url = http://127.0.0.1:1\ntoken = x\n"
        "http_request_max_retries = 0\n"
    )
    app = server.create_app(auth="keystone", config_file=str(path))
    assert ask(app, "/traits", "admin").status_int == 503
    assert ask(app, "/").status_int == 200


def test_a_failing_plugin_confirms_no_token(
    app: server.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise LookupError("secret details")

    monkeypatch.setattr(auth_token.AuthProtocol, "fetch_token", fail)
    answer = ask(app, "/traits", "admin")
    assert answer.status_int == 503
    assert "secret" not in answer.text


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """The options that the middleware receives from a file."""
    answers: list[Any] = []

    def stand_in(app: Any, options: dict[str, Any]) -> Any:
        answers.append(options["oslo_config_config"])
        return app

    def read(path: str) -> Any:
        auth.keystone_middleware(lambda *_: [], path)
        return answers[-1].keystone_authtoken

    monkeypatch.setattr(auth_token, "AuthProtocol", stand_in)
    return read


def test_requests_to_keystone_have_a_timeout_by_default(
    settings: Callable[[str], Any], config_file: str
) -> None:
    assert settings(config_file).http_connect_timeout == 10
    assert settings(config_file).service_type == "placement"
    path = pathlib.Path(config_file)
    path.write_text(f"{CONFIGURATION}http_connect_timeout = 3\n")
    assert settings(config_file).http_connect_timeout == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "server.conf: .*No such file"),
        ("", r"\[keystone_authtoken\] has no auth_type"),
        ("[keystone_authtoken]\nauth_type = nonsense\n", "nonsense"),
        ("[keystone_authtoken]\nauth_type = password\n", "auth_url"),
        ("[keystone_authtoken]\ntoken_cache_time = soon\n", "token_cache_time"),
        ("nothing\n", "server.conf"),
    ],
)
def test_an_unusable_config_file_is_refused_with_the_reason(
    tmp_path: pathlib.Path, text: str | None, reason: str
) -> None:
    path = tmp_path / "server.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(auth.AuthConfigInvalid, match=reason):
        server.create_app(auth="keystone", config_file=str(path))


def test_without_the_middleware_the_error_names_the_extra(
    config_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keystonemiddleware", None)
    with pytest.raises(errors.MissingPackage, match=r"'osc-placement\[keystone\]'"):
        server.create_app(auth="keystone", config_file=config_file)


@pytest.mark.parametrize(
    "options", [{"auth": "keystone"}, {"config_file": "x"}, {"auth": "noauth", "config_file": "x"}]
)
def test_contradicting_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(auth.AuthConfigInvalid):
        server.create_app(**options)


def test_with_keystone_any_address_is_accepted(
    config_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[Any, ...]] = []

    def start(app: Any, *where: Any) -> Any:
        started.append(where[:3])
        return types.SimpleNamespace(url="http://x", stop_on_signals=lambda: None, run=lambda: None)

    monkeypatch.setattr(run, "HttpServer", start)
    assert run.main(["--auth", "keystone", "--config-file", config_file, "--host", "0.0.0.0"]) == 0
    assert started == [("0.0.0.0", 8778, 8)]
    assert "warning" not in capsys.readouterr().err


def test_keystonemiddleware_is_imported_only_with_keystone() -> None:
    code = "import sys, osc_placement.server.run; print('keystonemiddleware' in sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert outcome.stdout == "False\n"
