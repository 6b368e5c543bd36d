# SPDX-License-Identifier: Apache-2.0
"""The options of a candidates query: names of host aggregates become UUIDs."""

from __future__ import annotations

import argparse

import pytest

from osc_placement import errors
from osc_placement.nova import values
from osc_placement.v1.resources import candidate
from tests.support import embedded

AZ1, SSD = embedded.uuid_of("az1"), embedded.uuid_of("ssd")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    candidate.add_options(parser)
    return parser.parse_args(["--resource", "VCPU=1", *words])


def host_aggregates() -> list[values.HostAggregate]:
    return [values.HostAggregate("7", "az1", AZ1), values.HostAggregate("8", "ssd", SSD)]


def test_host_aggregates_are_named_by_name_id_or_uuid() -> None:
    words = ("--member-of", f"az1,{SSD}", "--not-member-of", "8")
    (group,) = candidate.read(embedded.Client(), parsed(*words), host_aggregates).groups
    assert group.member_of == (frozenset({AZ1, SSD}),)
    assert group.forbidden_aggregates == {SSD}


def test_nova_is_not_asked_for_uuids() -> None:
    (group,) = candidate.read(embedded.Client(), parsed("--member-of", AZ1), None).groups
    assert group.member_of == (frozenset({AZ1}),)


def test_unknown_names_are_errors() -> None:
    with pytest.raises(errors.InvalidInput, match="no nova host aggregate has the name or id 'x'"):
        candidate.read(embedded.Client(), parsed("--member-of", "x"), host_aggregates)
    with pytest.raises(errors.InvalidInput, match="without a compute service"):
        candidate.read(embedded.Client(), parsed("--member-of", "az1"), None)
