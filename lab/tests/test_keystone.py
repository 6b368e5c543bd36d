# SPDX-License-Identifier: Apache-2.0
"""The real ``openstack`` command with real tokens: the catalog, and rights of users."""

from __future__ import annotations

import pathlib
import re

import pytest

from lab import identity, place
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def test_catalog_has_placement(openstack: conftest.OpenStack) -> None:
    made = openstack("resource provider create host")
    rows = openstack("resource provider list")
    assert [row["uuid"] for row in rows] == [made["uuid"]]
    assert openstack("resource provider show host")["name"] == "host"


def test_microversion_is_negotiated(openstack: conftest.OpenStack) -> None:
    status = openstack("placement status show")
    assert status["microversion"] == "1.39"
    assert status["microversion_is"] == "negotiated"
    assert openstack.url in status["target"]


@pytest.mark.parametrize("user", ["-member", "-reader"])
def test_user_without_role_gets_the_missing_role(openstack: conftest.OpenStack, user: str) -> None:
    message = openstack.refused("resource provider create host", user)
    assert "placement:resource_providers:create" in message
    assert "admin or service" in message
    message = openstack.refused("resource provider trait add --trait CUSTOM_A --all", user)
    assert "placement:resource_providers:list" in message


@pytest.mark.parametrize("user", ["-system", "-domain"])
def test_token_without_project_is_refused(openstack: conftest.OpenStack, user: str) -> None:
    message = openstack.refused("resource provider list", user)
    assert message.startswith("placement:resource_providers:list (HTTP 403)")
    assert "this needs a project-scoped token" in message


def test_service_user_needs_no_admin_role(openstack: conftest.OpenStack) -> None:
    assert openstack("resource provider list", "-service") == []


def test_invalid_token_is_refused(openstack: conftest.OpenStack) -> None:
    outcome = openstack.refused(
        "resource provider list",
        OS_CLOUD="",
        OS_AUTH_TYPE="admin_token",
        OS_ENDPOINT=openstack.url,
        OS_TOKEN="garbage",
    )
    message, _, rest = outcome.partition(" (HTTP 401)")
    assert message == "The request you have made requires authentication."
    assert re.fullmatch(r"( \(Request-ID: req-[0-9a-f-]+\))?", rest)


def test_wrong_password_gives_one_line(openstack: conftest.OpenStack) -> None:
    assert "HTTP 401" in openstack.refused("resource provider list", OS_PASSWORD="guessed")


def test_catalog_without_placement_is_reported(lab: place.Place, tmp_path: pathlib.Path) -> None:
    openstack = conftest.OpenStack(lab, tmp_path, "empty")
    message = openstack.refused("resource provider list")
    assert (
        message == f"public endpoint for placement service in {place.EMPTY_REGION} region not found"
    )


def test_application_credential_may_do_what_its_rules_allow(
    lab: place.Place, openstack: conftest.OpenStack
) -> None:
    admin = identity.Keystone(lab)
    path = f"/users/{admin.user_id}/application_credentials"
    rule = {"path": "/resource_providers", "method": "GET", "service": "placement"}
    made = admin.post(path, "application_credential", name=openstack.cloud, access_rules=[rule])
    try:
        token = identity.Keystone.by_credential(lab, made["id"], made["secret"]).token
        session = {
            "OS_CLOUD": "",
            "OS_AUTH_TYPE": "admin_token",
            "OS_ENDPOINT": openstack.url,
            "OS_TOKEN": token,
        }
        assert openstack.run("resource provider list", **session).returncode == 0
        assert "HTTP 401" in openstack.refused("trait list", **session)
    finally:
        admin.delete(f"{path}/{made['id']}")
