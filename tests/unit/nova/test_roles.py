# SPDX-License-Identifier: Apache-2.0
"""The login of nova's user, and its role service in keystone's answers."""

from __future__ import annotations

import json
import pathlib
import types
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import roles

DEFAULT = {"id": "default", "name": "Default"}
OTHER = {"id": "d2", "name": "Other"}
LOGIN = roles.PlacementLogin("nova", "Default", "service", "default")


class Connection:
    """An openstacksdk connection with these answers of keystone."""

    def __init__(self, answers: Mapping[str, Any], status: int = 200) -> None:
        self.identity, self.sent = self, list[str]()
        self._answers, self._status = answers, status

    def request(self, path: str, method: str, **_: Any) -> Any:
        self.sent.append(f"{method} {path}")
        body = self._answers[path.partition("?")[0]]
        return types.SimpleNamespace(
            status_code=self._status, content=json.dumps(body).encode(), headers={}, reason="no"
        )


def assigned(user: str, domain: object = DEFAULT, **scope: object) -> dict[str, Any]:
    return {"user": {"id": "u", "name": user, "domain": domain}, "scope": scope}


def project(name: str, domain: object = DEFAULT) -> dict[str, object]:
    return {"id": "p", "name": name, "domain": domain}


@pytest.mark.parametrize(
    ("assignments", "has_role"),
    [
        ([assigned("nova", project=project("service"))], True),
        ([assigned("cinder", project=project("service"))], False),
        ([assigned("nova", project=project("admin"))], False),
        ([assigned("nova", OTHER, project=project("service"))], False),
        ([assigned("nova", project=project("service", OTHER))], False),
        ([assigned("nova", system={"all": True}), assigned("nova", domain=DEFAULT)], False),
        ([], False),
    ],
)
def test_the_role_counts_for_the_user_in_its_project_alone(
    assignments: list[dict[str, Any]], has_role: bool
) -> None:
    connection = Connection(
        {"/roles": {"roles": [{"id": "r"}]}, "/role_assignments": {"role_assignments": assignments}}
    )
    assert roles.has_service_role(connection, LOGIN) is has_role
    assert connection.sent == [
        "GET /roles?name=service",
        "GET /role_assignments?role.id=r&effective=1&include_names=1",
    ]


def test_nobody_has_a_role_that_is_not_there() -> None:
    assert not roles.has_service_role(Connection({"/roles": {"roles": []}}), LOGIN)


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ({"error": {"message": "You are not authorized"}}, 403, "missing permission in keystone"),
        ({"rolls": []}, 200, "lacks a field"),
        ({"roles": None}, 200, "lacks a field"),
    ],
)
def test_what_keystone_does_not_tell_is_an_error(answer: object, status: int, text: str) -> None:
    with pytest.raises(errors.PlacementError, match=text):
        roles.has_service_role(Connection({"/roles": answer}, status), LOGIN)


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (("username = nova", "project_name = service"), ("nova", "default", "service", "default")),
        (
            ("username = n", "project_name = s", "user_domain_name = A", "project_domain_id = b"),
            ("n", "A", "s", "b"),
        ),
        (("user_name = nova", "tenant_name = s"), ("nova", "default", "s", "default")),
        (("project_name = service",), "has no [placement]username"),
        ((), "has no [placement]username and no [placement]project_name"),
    ],
)
def test_the_login_is_that_of_nova_conf(
    tmp_path: pathlib.Path, lines: tuple[str, ...], answer: tuple[str, ...] | str
) -> None:
    path = tmp_path / "nova.conf"
    path.write_text("\n".join(["[placement]", *lines, ""]))
    if isinstance(answer, str):
        with pytest.raises(errors.PlacementError) as raised:
            roles.read_login(path)
        assert answer in str(raised.value)
    else:
        assert roles.read_login(path) == roles.PlacementLogin(*answer)
