# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate list``."""

from __future__ import annotations

import pytest

from tests.support.functional_cloud import AGGREGATE, OTHER_AGGREGATE, create
from tests.support.peer.shell import OpenStack

LIST = "allocation candidate list"
COLUMNS = ["#", "allocation", "resource provider", "inventory used/capacity"]


@pytest.fixture
def nodes(openstack: OpenStack) -> dict[str, str]:
    """``{name: uuid}`` of two trees: big with a network child, small alone."""
    uuids = {
        "big": create(openstack, "big", VCPU=8, MEMORY_MB=64),
        "small": create(openstack, "small", VCPU=2, MEMORY_MB=64),
    }
    uuids["nic"] = create(openstack, "nic", parent="big", SRIOV_NET_VF=4)
    traits = {"big": ["HW_CPU_X86_AVX"], "nic": ["HW_NIC_SRIOV"], "small": []}
    for name, given in traits.items():
        openstack("resource provider trait set", name, *(f"--trait={item}" for item in given))
    for name, aggregates in {"big": [AGGREGATE], "small": [AGGREGATE, OTHER_AGGREGATE]}.items():
        given = [f"--aggregate={item}" for item in aggregates]
        openstack("resource provider aggregate set", name, *given, version="1.18")
    return uuids


def found(openstack: OpenStack, *arguments: str, version: str | None = None) -> set[str]:
    rows = openstack(LIST, *arguments, version=version)
    return {row["resource provider"] for row in rows}


def test_name_globs_select_the_roots_and_the_limit_counts_what_matches(
    openstack: OpenStack, nodes: dict[str, str]
) -> None:
    request = ("--resource", "VCPU=1")
    assert found(openstack, *request, "--name-glob", "sm*") == {nodes["small"]}
    assert found(openstack, *request, "--name-glob", "SM*") == set()
    both = (*request, "--name-glob", "s*", "--name-glob", "big")
    assert found(openstack, *both) == {nodes["big"], nodes["small"]}
    assert found(openstack, *request, "--name-glob", "small", "--limit", "1") == {nodes["small"]}
    nic = ("--resource", "SRIOV_NET_VF=1", "--name-glob", "big")
    assert found(openstack, *nic, version="1.29") == {nodes["nic"]}
    query = ("--query", "resources=VCPU:1", "--name-glob", "small")
    assert found(openstack, *query) == {nodes["small"]}


def test_every_option_filters_candidates(openstack: OpenStack, nodes: dict[str, str]) -> None:
    big, small = nodes["big"], nodes["small"]
    one = ("--resource", "VCPU=1")
    assert found(openstack, *one) == {big, small}
    assert len(openstack(LIST, *one, "--limit", "1")) == 1
    assert found(openstack, *one, "--required", "HW_CPU_X86_AVX") == {big}
    assert found(openstack, *one, "--forbidden", "HW_CPU_X86_AVX") == {small}
    assert found(openstack, *one, "--required", "HW_CPU_X86_AVX,HW_CPU_X86_SSE") == {big}
    assert found(openstack, *one, "--member-of", OTHER_AGGREGATE) == {small}
    assert found(openstack, *one, "--member-of", f"{AGGREGATE},{OTHER_AGGREGATE}") == {big, small}
    assert found(openstack, *one, "--member-of", AGGREGATE, "--member-of", OTHER_AGGREGATE) == {
        small
    }
    assert found(openstack, *one, "--not-member-of", OTHER_AGGREGATE) == {big}
    assert found(openstack, *one, "--in-tree", "small") == {small}
    assert found(openstack, *one, "--root-required", "HW_CPU_X86_AVX") == {big}
    assert found(openstack, *one, "--root-required", "!HW_CPU_X86_AVX") == {small}


def test_options_after_a_group_belong_to_it(openstack: OpenStack, nodes: dict[str, str]) -> None:
    query = ("--resource", "VCPU=1", "--group", "1", "--resource", "SRIOV_NET_VF=1")
    rows = openstack(LIST, *query, "--required", "HW_NIC_SRIOV", version="1.29")
    assert {(row["#"], row["allocation"], row["resource provider"]) for row in rows} == {
        (1, "VCPU=1", nodes["big"]),
        (1, "SRIOV_NET_VF=1", nodes["nic"]),
    }
    two = ("--group", "1", "--resource", "VCPU=1", "--group", "2", "--resource", "MEMORY_MB=1")
    assert len({row["#"] for row in openstack(LIST, *two)}) == 2
    assert openstack(LIST, *two, "--group-policy", "isolate") == []


def test_groups_have_names_and_subtrees(openstack: OpenStack, nodes: dict[str, str]) -> None:
    query = (
        "--group", "_CPU", "--resource", "VCPU=1",
        "--group", "_NET", "--resource", "SRIOV_NET_VF=1", "--in-tree", "big",
        "--group", "_HOST", "--required", "HW_CPU_X86_AVX",
        "--same-subtree", "_CPU,_NET,_HOST",
    )  # fmt: skip
    rows = openstack(LIST, *query, "--long")
    assert {row["allocation"] for row in rows} == {"VCPU=1", "SRIOV_NET_VF=1"}
    mappings = {"_CPU": [nodes["big"]], "_NET": [nodes["nic"]], "_HOST": [nodes["big"]]}
    assert rows[0]["mappings"] == mappings
    by_provider = {row["resource provider"]: row for row in rows}
    assert by_provider[nodes["nic"]]["parent_provider_uuid"] == nodes["big"]
    code, text = openstack.fails(LIST, *query, version="1.32")
    assert code == 1
    assert "requires at least version 1.33" in text
    assert "requires at least version 1.36" in text


def test_a_query_is_sent_unchanged(openstack: OpenStack, nodes: dict[str, str]) -> None:
    query = (
        "GET /placement/allocation_candidates?limit=1000&resources=VCPU%3A1"
        f"&root_required=%21HW_CPU_X86_AVX&member_of=in%3A{AGGREGATE}%2C{OTHER_AGGREGATE} HTTP/1.1"
    )
    assert found(openstack, "--query", query) == {nodes["small"]}
    assert found(openstack, "--query", "resources=VCPU:1,MEMORY_MB:1&limit=5") == {
        nodes["big"],
        nodes["small"],
    }
    code, text = openstack.fails(LIST, "--query", query, version="1.34")
    assert (code, "requires at least version 1.35" in text) == (1, True)
    code, text = openstack.fails(LIST, "--query", "VCPU:1")
    assert (code, "contains no name=value" in text) == (1, True)
    code, text = openstack.fails(LIST, "--query", "resources=VCPU:1", "--resource", "VCPU=1")
    assert (code, "--query: not allowed" in text) == (2, True)


@pytest.mark.parametrize(
    "command", [f"{LIST} --resource VCPU=1 -c", "resource provider list --name small -c"]
)
def test_the_old_aggregate_option_works_with_a_warning(
    openstack: OpenStack, nodes: dict[str, str], command: str
) -> None:
    column = "resource provider" if command.startswith(LIST) else "uuid"
    old = ("--aggregate-uuid", OTHER_AGGREGATE, "-f", "value")
    outcome = openstack.run(command, column, *old)
    assert (outcome.code, outcome.stdout.strip()) == (0, nodes["small"])
    warning = "The --aggregate-uuid option is deprecated, please use --member-of instead."
    assert outcome.messages.strip() == warning


def test_names_of_providers_and_mappings_are_shown_on_request(
    openstack: OpenStack, nodes: dict[str, str]
) -> None:
    query = (LIST, "--resource", "VCPU=4")
    assert list(openstack(*query, version="1.39")[0]) == [*COLUMNS, "traits"]
    (row,) = openstack(*query, "-c", "mappings", version="1.39")
    assert row == {"mappings": {"": [nodes["big"]]}}
    (row,) = openstack(*query, "--long")
    assert list(row)[-1] == "provider_name"
    assert row["provider_name"] == "big"
    assert openstack.do(*query, "-c", "provider_name", "-f", "value").split() == ["big"]
