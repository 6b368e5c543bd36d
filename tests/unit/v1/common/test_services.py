# SPDX-License-Identifier: Apache-2.0
"""Where a command learns whether nova's user has the role service."""

from __future__ import annotations

import json
import pathlib
import types
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import api
from osc_placement.v1.common import services

DOMAIN = {"id": "default", "name": "Default"}
ASSIGNMENT = {
    "user": {"name": "nova", "domain": DOMAIN},
    "scope": {"project": {"name": "service", "domain": DOMAIN}},
}
ANSWERS = {
    "/roles": {"roles": [{"id": "r"}]},
    "/role_assignments": {"role_assignments": [ASSIGNMENT]},
}


class Cloud:
    """A command on a cloud whose keystone has these answers, and what was asked."""

    def __init__(self, nova: object) -> None:
        self.sent: list[str] = []
        connection = types.SimpleNamespace(identity=self)
        manager = types.SimpleNamespace(sdk_connection=connection)
        command: Any = types.SimpleNamespace(app=types.SimpleNamespace(client_manager=manager))
        self.services = services.NovaServices(command)
        vars(self.services)["nova"] = nova

    def request(self, path: str, method: str, **_: object) -> object:
        self.sent.append(f"{method} {path.partition('?')[0]}")
        content = json.dumps(ANSWERS[path.partition("?")[0]]).encode()
        return types.SimpleNamespace(status_code=200, content=content, headers={}, reason="")


def conf(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "nova.conf"
    path.write_text("[placement]\nusername = nova\nproject_name = service\n")
    return path


def test_keystone_is_asked_about_the_login_of_nova_conf(tmp_path: pathlib.Path) -> None:
    cloud = Cloud(object())
    assert cloud.services.has_service_role(conf(tmp_path))
    assert cloud.sent == ["GET /roles", "GET /role_assignments"]


@pytest.mark.parametrize(
    ("nova", "text"),
    [
        (api.RecordedNova({}, "day.json"), "a recording of nova has no role assignments"),
        (object(), "--nova-conf names the nova.conf"),
    ],
)
def test_without_a_cloud_or_a_login_nothing_is_asked(nova: object, text: str) -> None:
    cloud = Cloud(nova)
    with pytest.raises(errors.PlacementError, match=text):
        cloud.services.has_service_role(None)
    assert cloud.sent == []
