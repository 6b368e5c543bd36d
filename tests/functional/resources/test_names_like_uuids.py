# SPDX-License-Identifier: Apache-2.0
"""Providers whose name looks like a UUID: a UUID comes first, then the name."""

from __future__ import annotations

import json

import pytest

from tests.support.peer.shell import OpenStack

NAME = "5f0e9d7c-1b2a-4c3d-8e4f-a5b6c7d8e9f0"
UUID = "11111111-2222-4333-8444-555555555555"
CHILD = "11111111-2222-4333-8444-666666666666"
AGGREGATE = "11111111-2222-4333-8444-777777777777"
CONSUMER = "11111111-2222-4333-8444-888888888888"

#: Commands that show or change the provider with the argument ``NAME``.
COMMANDS = (
    f"resource provider inventory set {NAME} --resource VCPU=8 --resource DISK_GB=9",
    f"resource provider inventory class set {NAME} VCPU --total 8",
    f"resource provider inventory list {NAME}",
    f"resource provider inventory show {NAME} VCPU",
    f"resource provider inventory amend {NAME} --resource VCPU:total=9",
    f"resource provider inventory amend --in-tree {NAME} --resource VCPU:total=8",
    f"resource provider usage show {NAME}",
    f"resource provider trait set {NAME} --trait CUSTOM_A",
    f"resource provider trait list {NAME}",
    f"resource provider aggregate set {NAME} --aggregate {AGGREGATE} --generation {{generation}}",
    f"resource provider aggregate list {NAME}",
    f"resource provider show {NAME}",
    f"resource provider set {NAME} --name {NAME}",
    f"resource provider tree show {NAME}",
    f"resource provider list --in-tree {NAME}",
    f"allocation candidate list --resource VCPU=1 --in-tree {NAME}",
    f"resource provider allocation set {CONSUMER} --allocation rp={NAME},VCPU=1,DISK_GB=1"
    " --project-id p --user-id u --consumer-type INSTANCE",
    f"resource provider allocation amend {CONSUMER} --allocation rp={NAME},VCPU=2",
    f"resource provider allocation unset {CONSUMER} --provider {NAME} --resource-class VCPU",
)
WITHOUT_OUTPUT = (
    f"resource provider allocation delete {CONSUMER}",
    f"resource provider inventory delete {NAME} --resource-class VCPU",
    f"resource provider inventory delete {NAME}",
    f"resource provider trait delete {NAME}",
)


@pytest.fixture(autouse=True)
def provider(openstack: OpenStack) -> None:
    openstack("resource provider create", NAME, "--uuid", UUID)
    openstack.do("trait create CUSTOM_A")


def test_every_command_finds_a_provider_by_a_name_that_looks_like_a_uuid(
    openstack: OpenStack,
) -> None:
    for command in COMMANDS:
        generation = openstack("resource provider show", UUID)["generation"]
        words = command.format(generation=generation)
        assert json.loads(openstack.do(words, "-f", "json", version="1.38")), command
    for command in WITHOUT_OUTPUT:
        openstack.do(command, version="1.38")
    created = openstack("resource provider create child --uuid", CHILD, "--parent-provider", NAME)
    assert created["parent_provider_uuid"] == UUID
    openstack.do("resource provider delete", CHILD, NAME)
    assert openstack("resource provider list") == []


def test_a_tree_is_shown_by_a_name_in_another_form_of_a_uuid(openstack: OpenStack) -> None:
    other_form = NAME.replace("-", "").upper()
    openstack("resource provider create", other_form, "--uuid", CHILD)
    for command in ("resource provider tree show", "resource provider list --in-tree"):
        assert [row["name"] for row in openstack(command, other_form)] == [other_form], command


def test_a_tree_is_deleted_by_a_name_that_looks_like_a_uuid(openstack: OpenStack) -> None:
    openstack("resource provider create child --parent-provider", UUID)
    openstack.do("resource provider delete --tree", NAME)
    assert openstack("resource provider list") == []


def test_the_uuid_of_a_provider_comes_before_the_name_of_another(openstack: OpenStack) -> None:
    openstack("resource provider create", "real", "--uuid", NAME)
    assert openstack("resource provider show", NAME)["name"] == "real"
    code, message = openstack.fails(
        "resource provider inventory delete --resource-class VGPU", NAME
    )
    assert (code, "VGPU" in message) == (1, True)
    openstack.do("resource provider delete", NAME)
    assert openstack("resource provider show", NAME)["uuid"] == UUID
