# SPDX-License-Identifier: Apache-2.0
"""The sample clouds that ship."""

from __future__ import annotations

import pytest

from osc_placement import testing


def test_the_names_are_sorted_by_size() -> None:
    assert testing.sample_cloud_names() == ["12-hosts", "200-hosts"]


@pytest.mark.parametrize(("name", "providers"), [("12-hosts", 22), ("200-hosts", 210)])
def test_references_in_a_cloud_exist(name: str, providers: int) -> None:
    cloud = testing.sample_cloud(name)
    assert len(cloud["providers"]) == providers
    uuids = set(cloud["providers"])
    assert {entry["parent"] for entry in cloud["providers"].values()} - {None} <= uuids
    assert {
        provider for entry in cloud["consumers"].values() for provider in entry["allocations"]
    } <= uuids


def test_each_call_returns_a_new_document() -> None:
    testing.sample_cloud("12-hosts")["providers"].clear()
    assert testing.sample_cloud("12-hosts")["providers"]


def test_nova_has_the_same_hosts() -> None:
    hypervisors = testing.sample_nova("12-hosts")["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    assert {entry["id"] for entry in hypervisors} & set(
        testing.sample_cloud("12-hosts")["providers"]
    )


def test_an_unknown_name_is_an_error_with_the_known_names() -> None:
    with pytest.raises(testing.UnknownSample, match=r"unknown sample cloud '13-hosts'.*12-hosts"):
        testing.sample_cloud("13-hosts")
