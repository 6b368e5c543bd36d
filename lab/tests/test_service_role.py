# SPDX-License-Identifier: Apache-2.0
"""The role ``service`` of nova's user, as a real keystone shows it."""

from __future__ import annotations

import pathlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import openstack as openstacksdk
import pytest

from lab import identity, place
from osc_placement.nova import roles

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def connect(lab: place.Place, cloud: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An openstacksdk connection of a user of the lab."""
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(lab.path("clouds.yaml")))
    return openstacksdk.connect(cloud=cloud)


class Users:
    """New users of one project, each with the role in another way."""

    def __init__(self, lab: place.Place) -> None:
        self.keystone = identity.Keystone(lab)
        self.suffix = secrets.token_hex(4)
        self.role = self._id("roles", "service")
        self.project = self._id("projects", "service")

    def _id(self, kind: str, name: str) -> str:
        (item,) = self.keystone.get(f"/{kind}?name={name}")[kind]
        return str(item["id"])

    def new(self, kind: str, **facts: object) -> str:
        """The ID of a new user, group or role."""
        name = f"{kind}-{self.suffix}-{secrets.token_hex(4)}"
        where = {} if kind == "role" else {"domain_id": "default"}
        made = self.keystone.post(f"/{kind}s", kind, name=name, **where, **facts)
        return str(made["id"])

    def give(self, who: str, role: str, scope: str) -> None:
        self.keystone.put(f"{scope}/{who}/roles/{role}")

    def none(self) -> str:
        return self.new("user")

    def direct(self) -> str:
        user = self.new("user")
        self.give(f"users/{user}", self.role, f"/projects/{self.project}")
        return user

    def by_group(self) -> str:
        user, group = self.new("user"), self.new("group")
        self.keystone.put(f"/groups/{group}/users/{user}")
        self.give(f"groups/{group}", self.role, f"/projects/{self.project}")
        return user

    def inherited(self) -> str:
        """Of the domain, for its projects."""
        user = self.new("user")
        path = f"/OS-INHERIT/domains/default/users/{user}/roles/{self.role}"
        self.keystone.put(f"{path}/inherited_to_projects")
        return user

    def implied(self) -> str:
        """By another role."""
        user, prior = self.new("user"), self.new("role")
        self.keystone.put(f"/roles/{prior}/implies/{self.role}")
        self.give(f"users/{user}", prior, f"/projects/{self.project}")
        return user

    def of_domain(self) -> str:
        """In the domain itself, which no token for a project has."""
        user = self.new("user")
        self.give(f"users/{user}", self.role, "/domains/default")
        return user

    def of_other_project(self) -> str:
        user = self.new("user")
        self.give(f"users/{user}", self.role, f"/projects/{self._id('projects', 'acme')}")
        return user

    def of_other_role(self) -> str:
        user = self.new("user")
        self.give(f"users/{user}", self._id("roles", "admin"), f"/projects/{self.project}")
        return user

    def name(self, user: str) -> str:
        return str(self.keystone.get(f"/users/{user}")["user"]["name"])


WAYS: Mapping[Callable[[Users], str], bool] = {
    Users.none: False,
    Users.direct: True,
    Users.by_group: True,
    Users.inherited: True,
    Users.implied: True,
    Users.of_domain: False,
    Users.of_other_project: False,
    Users.of_other_role: False,
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_to_the_role_counts(
    lab: place.Place, monkeypatch: pytest.MonkeyPatch, way: Callable[[Users], str]
) -> None:
    """The answer is also that of a token: whether the user's own one has the role."""
    users = Users(lab)
    user = way(users)
    login = roles.PlacementLogin(users.name(user), "Default", "service", "default")
    connection = connect(lab, "lab", monkeypatch)
    assert roles.has_service_role(connection, login) is WAYS[way]
    effective = users.keystone.get(
        f"/role_assignments?user.id={user}&scope.project.id={users.project}&effective"
    )["role_assignments"]
    assert (users.role in {item["role"]["id"] for item in effective}) is WAYS[way]
    renamed = roles.PlacementLogin(login.user, "other", "service", "default")
    assert not roles.has_service_role(connection, renamed)


@pytest.mark.parametrize("cloud", ["lab-member", "lab-reader", "lab-service"])
def test_who_may_not_list_assignments_gets_an_error(
    lab: place.Place, monkeypatch: pytest.MonkeyPatch, cloud: str
) -> None:
    login = roles.PlacementLogin("nova", "Default", "service", "Default")
    with pytest.raises(roles.KeystoneRefused, match="not authorized"):
        roles.has_service_role(connect(lab, cloud, monkeypatch), login)


def test_the_login_of_the_labs_nova_has_the_role(
    lab: place.Place, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "nova.conf"
    lines = "username = placement", "project_name = service", "user_domain_name = Default"
    path.write_text("\n".join(["[placement]", *lines, "project_domain_name = Default", ""]))
    assert roles.has_service_role(connect(lab, "lab", monkeypatch), roles.read_login(path))
