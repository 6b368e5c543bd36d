# SPDX-License-Identifier: Apache-2.0
"""``resource provider allocation …``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.functional_cloud import CONSUMER, OWNER, UNUSED_UUID, allocate, create
from tests.support.peer.shell import OpenStack
from tests.support.peer.target import Target

SET = "resource provider allocation set"
SHOW = "resource provider allocation show"
UNSET = "resource provider allocation unset"
AMEND = "resource provider allocation amend"

BARE = ["resource_provider", "generation", "resources"]
OWNED = [*BARE, "project_id", "user_id"]
TYPED = [*OWNED, "consumer_type"]


@pytest.fixture
def node(openstack: OpenStack) -> str:
    """A provider named node."""
    return create(openstack, "node", VCPU=8, MEMORY_MB=64)


@pytest.mark.parametrize(
    ("version", "options", "columns", "warnings"),
    [
        ("1.0", (), BARE, 0),
        ("1.0", OWNER, BARE, 1),
        ("1.8", OWNER, BARE, 0),
        ("1.12", OWNER, OWNED, 0),
        ("1.28", OWNER, OWNED, 0),
        (None, OWNER, OWNED, 0),
        (None, (*OWNER, "--consumer-type", "INSTANCE"), OWNED, 1),
        ("1.38", (*OWNER, "--consumer-type", "INSTANCE"), TYPED, 0),
    ],
)
def test_allocations_have_the_columns_of_the_version(
    openstack: OpenStack,
    node: str,
    version: str | None,
    options: tuple[str, ...],
    columns: list[str],
    warnings: int,
) -> None:
    given = ("--allocation", f"rp={node},VCPU=2", "--allocation", "rp=node,MEMORY_MB=5")
    outcome = openstack.run(SET, CONSUMER, *given, *options, "-f", "json", version=version)
    assert outcome.code == 0, outcome
    assert outcome.stderr.count("less than") == warnings
    rows = openstack(SHOW, CONSUMER, version=version)
    assert list(rows[0]) == columns
    assert rows[0]["resources"] == {"VCPU": 2, "MEMORY_MB": 5}
    assert rows[0]["resource_provider"] == node


def test_several_consumers_are_set_atomically(openstack: OpenStack, node: str) -> None:
    both = (SET, CONSUMER, UNUSED_UUID, *OWNER)
    rows = openstack(
        *both, "--allocation", f"rp={node},VCPU=1",
        "--allocation", f"consumer={UNUSED_UUID},rp={node},MEMORY_MB=4",
    )  # fmt: skip
    found = {row["consumer"]: row["resources"] for row in rows}
    assert found == {CONSUMER: {"VCPU": 1}, UNUSED_UUID: {"VCPU": 1, "MEMORY_MB": 4}}
    code, _ = openstack.fails(
        *both, "--allocation", f"consumer={CONSUMER},rp={node},VCPU=2",
        "--allocation", f"consumer={UNUSED_UUID},rp={node},VCPU=1000",
    )  # fmt: skip
    assert code == 1
    assert openstack(SHOW, CONSUMER)[0]["resources"] == {"VCPU": 1}


@pytest.mark.parametrize("version", ["1.12", "1.27", "1.28", "1.37", "1.38", "latest", None])
def test_removing_all_allocations_prints_an_empty_list(
    openstack: OpenStack, node: str, version: str | None
) -> None:
    allocate(openstack, node, "VCPU=2", CONSUMER)
    assert openstack(UNSET, CONSUMER, version=version) == []


def test_unset_keeps_the_consumer_type(openstack: OpenStack, target: Target, node: str) -> None:
    allocate(openstack, node, "VCPU=2,MEMORY_MB=1", CONSUMER)
    (row,) = openstack(UNSET, CONSUMER, "--resource-class", "VCPU", version="1.39")
    assert row["consumer_type"] == "unknown"
    given = ("--allocation", f"rp={node},VCPU=1,MEMORY_MB=1", "--consumer-type", "MIGRATION")
    openstack(SET, CONSUMER, *given, *OWNER, version="1.38")
    openstack(UNSET, CONSUMER, "--resource-class", "VCPU")
    assert target.ask("GET", f"/allocations/{CONSUMER}")["consumer_type"] == "MIGRATION"


def test_a_provider_is_unset_for_several_consumers_in_one_request(openstack: OpenStack) -> None:
    for name in ("one", "two"):
        create(openstack, name, VCPU=8)
    for consumer in (CONSUMER, UNUSED_UUID):
        given = ("--allocation", "rp=one,VCPU=1", "--allocation", "rp=two,VCPU=2")
        openstack(SET, consumer, *given, *OWNER)
    rows = openstack(UNSET, CONSUMER, UNUSED_UUID, "--provider", "one")
    assert [(row["consumer"], row["resources"]) for row in rows] == [
        (CONSUMER, {"VCPU": 2}),
        (UNUSED_UUID, {"VCPU": 2}),
    ]


def test_amend_changes_single_allocations(openstack: OpenStack, node: str) -> None:
    create(openstack, "other", VCPU=8)
    allocate(openstack, node, "VCPU=2,MEMORY_MB=5", CONSUMER)
    rows = openstack(
        AMEND, CONSUMER, "--allocation", "rp=node,VCPU=4", "--allocation", "rp=other,VCPU=1"
    )
    assert [row["resources"] for row in rows] == [{"VCPU": 4, "MEMORY_MB": 5}, {"VCPU": 1}]
    assert list(rows[0]) == OWNED
    rows = openstack(AMEND, CONSUMER, "--allocation", "rp=node,VCPU=0,MEMORY_MB=0")
    assert [row["resources"] for row in rows] == [{"VCPU": 1}]
    before = openstack("resource provider show", "other")
    openstack(AMEND, CONSUMER, "--allocation", "rp=other,VCPU=1")
    assert openstack("resource provider show", "other") == before


def test_amend_requires_existing_allocations_and_1_28(openstack: OpenStack, node: str) -> None:
    given = (AMEND, UNUSED_UUID, "--allocation", f"rp={node},VCPU=1")
    code, text = openstack.fails(*given)
    assert (code, "No allocations for consumer" in text) == (1, True)
    code, text = openstack.fails(*given, version="1.27")
    assert (code, "requires at least version 1.28" in text) == (1, True)
    code, text = openstack.fails(AMEND, UNUSED_UUID)
    assert (code, "At least one resource allocation" in text) == (1, True)


@pytest.mark.parametrize("form", [str.upper, lambda uuid: uuid.replace("-", "")])
def test_every_form_of_a_uuid_is_the_same_consumer(
    openstack: OpenStack, node: str, form: Callable[[str], str]
) -> None:
    consumer = "abcdef12-3456-4789-8abc-def012345678"
    given = form(consumer)
    pair = f"consumer={given},rp=node,VCPU=1"
    (row,) = openstack(SET, given, "--allocation", pair, *OWNER)
    assert row["resources"] == {"VCPU": 1}
    (row,) = openstack(SET, given, "--allocation", "rp=node,VCPU=2", *OWNER)
    assert openstack(SHOW, given) == openstack(SHOW, consumer) == [row]
    (row,) = openstack(AMEND, given, "--allocation", "rp=node,MEMORY_MB=2")
    assert row["resources"] == {"VCPU": 2, "MEMORY_MB": 2}
    (row,) = openstack(UNSET, given, "--resource-class", "VCPU")
    assert row["resources"] == {"MEMORY_MB": 2}
    openstack.do("resource provider allocation delete", given)
    assert openstack(SHOW, consumer) == []


def test_names_of_providers_are_shown_on_request(openstack: OpenStack) -> None:
    uuid = create(openstack, "cn1", VCPU=8)
    consumer = allocate(openstack, uuid, "VCPU=2")
    assert list(openstack(SHOW, consumer)[0]) == OWNED
    (row,) = openstack(SHOW, consumer, "-c", "provider_name")
    assert row == {"provider_name": "cn1"}
    (row,) = openstack(SHOW, consumer, "--long")
    assert (row["provider_name"], row["resources"]) == ("cn1", {"VCPU": 2})
