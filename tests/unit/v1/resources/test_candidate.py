# SPDX-License-Identifier: Apache-2.0
"""The options of a candidates query: names of host aggregates become UUIDs."""

from __future__ import annotations

import argparse

import pytest

from osc_placement import errors
from osc_placement.v1.resources import candidate
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
from tests.support import embedded
from tests.support.host_aggregates import FakeNova

AZ1, SSD = embedded.uuid_of("az1"), embedded.uuid_of("ssd")


def parsed(*words: str) -> candidate.CandidateOptions:
    parser = argparse.ArgumentParser()
    parser.set_defaults(request_options=None)
    candidate.add_options(parser)
    return candidate.given(parser.parse_args(["--resource", "VCPU=1", *words]))


def names(*said: list[str]) -> NamedAggregates:
    nova = FakeNova({"az1": ["h0", "h1"], "ssd": []}, ["h0", "h1"])
    return NamedAggregates(lambda: nova, *(item.append for item in said))


def test_host_aggregates_are_named_by_name_id_or_uuid() -> None:
    words = ("--member-of", f"az1,{SSD}", "--not-member-of", "2")
    (group,) = candidate.read(embedded.Client(), parsed(*words), names()).groups
    assert group.member_of == (frozenset({AZ1, SSD}),)
    assert group.forbidden_aggregates == {SSD}


def test_nova_is_not_asked_for_uuids() -> None:
    (group,) = candidate.read(embedded.Client(), parsed("--member-of", AZ1), None).groups
    assert group.member_of == (frozenset({AZ1}),)


def test_unknown_names_are_errors() -> None:
    with pytest.raises(errors.InvalidInput, match="no nova host aggregate has the name or id 'x'"):
        candidate.read(embedded.Client(), parsed("--member-of", "x"), names())
    with pytest.raises(errors.InvalidInput, match="without a compute service"):
        candidate.read(embedded.Client(), parsed("--member-of", "az1"), None)


@pytest.mark.parametrize("option", ["--member-of", "--not-member-of"])
@pytest.mark.parametrize("first", [[], ["--group", "1", "--resource", "VCPU=1"]])
def test_a_query_says_that_nova_has_other_hosts(option: str, first: list[str]) -> None:
    said: list[str] = []
    client = embedded.Client([embedded.Host("h0.", aggregates=(AZ1,)), embedded.Host("h1.")])
    candidate.read(client, parsed(*first, option, "az1"), names(said))
    assert said == [
        "Note: az1 has 2 hosts in nova, 1 of them in Placement: 'openstack placement aggregate"
        " mirror --host-aggregate=az1' adds h1"
    ]
