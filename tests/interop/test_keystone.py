"""The real ``openstack`` command with real tokens: what the catalog says, and who may what."""

from __future__ import annotations

import pathlib

import pytest

from tests.interop import conftest
from tests.support.lab import identity, place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def test_the_catalog_leads_to_placement(openstack: conftest.OpenStack) -> None:
    made = openstack("resource provider create host")
    rows = openstack("resource provider list")
    assert [row["uuid"] for row in rows] == [made["uuid"]]
    assert openstack("resource provider show host")["name"] == "host"


def test_the_microversion_is_negotiated(openstack: conftest.OpenStack) -> None:
    status = openstack("placement status")
    assert status["microversion"] == "1.39"
    assert status["microversion_is"] == "negotiated"
    assert openstack.url in status["target"]


def test_a_microversion_can_be_pinned(openstack: conftest.OpenStack) -> None:
    pinned = openstack("--os-placement-api-version 1.10 placement status")
    assert pinned["microversion"] == "1.10"


def test_a_batch_tells_which_cloud_it_was_about(openstack: conftest.OpenStack) -> None:
    for name in ("one", "two"):
        openstack(f"resource provider create {name}")
    batch = "resource provider trait add --create --trait CUSTOM_A --all"
    outcome = openstack.run(f"{batch} -f json")
    assert outcome.returncode == 0, outcome.stderr
    assert f"cloud {openstack.where}" in outcome.stderr
    assert len(openstack("resource provider list --required CUSTOM_A")) == 2
    assert {row["status"] for row in openstack(batch)} == {"unchanged"}


@pytest.mark.parametrize("who", ["-member", "-reader"])
def test_who_lacks_a_role_is_told_which(openstack: conftest.OpenStack, who: str) -> None:
    told = openstack.refused("resource provider create host", who)
    assert "placement:resource_providers:create" in told
    assert "admin or service" in told
    told = openstack.refused("resource provider trait add --trait CUSTOM_A --all", who)
    assert "placement:resource_providers:list" in told


@pytest.mark.parametrize("who", ["-system", "-domain"])
def test_who_is_of_no_project_is_told_so(openstack: conftest.OpenStack, who: str) -> None:
    told = openstack.refused("resource provider list", who)
    assert "placement:resource_providers:list needs a project-scoped token" in told


def test_a_service_needs_no_role_admin(openstack: conftest.OpenStack) -> None:
    assert openstack("resource provider list", "-service") == []


def test_a_token_that_is_none_is_refused(openstack: conftest.OpenStack) -> None:
    outcome = openstack.refused(
        "resource provider list",
        OS_CLOUD="",
        OS_AUTH_TYPE="admin_token",
        OS_ENDPOINT=openstack.url,
        OS_TOKEN="garbage",
    )
    assert outcome == "The request you have made requires authentication. (HTTP 401)"


def test_a_wrong_password_is_one_line(openstack: conftest.OpenStack) -> None:
    assert "HTTP 401" in openstack.refused("resource provider list", OS_PASSWORD="guessed")


def test_a_catalog_without_placement_is_told_so(lab: place.Place, tmp_path: pathlib.Path) -> None:
    openstack = conftest.OpenStack(lab, tmp_path, "empty")
    told = openstack.refused("resource provider list")
    assert told == f"public endpoint for placement service in {place.EMPTY_REGION} region not found"


def test_an_application_credential_with_rules_may_do_what_they_say(
    lab: place.Place, openstack: conftest.OpenStack
) -> None:
    admin = identity.Keystone(lab)
    path = f"/users/{admin.user_id}/application_credentials"
    rule = {"path": "/resource_providers", "method": "GET", "service": "placement"}
    made = admin.post(path, "application_credential", name=openstack.where, access_rules=[rule])
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
