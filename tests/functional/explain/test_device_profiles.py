# SPDX-License-Identifier: Apache-2.0
"""Flavors with a device profile: nova requests a group for each group that Cyborg has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osc_placement.nova import api
from osc_placement.testing import uuid_of
from tests.support.peer.shell import OpenStack
from tests.support.rows import State, hosts

DEVICE = {"resources:FPGA": "1", "trait:CUSTOM_FPGA_A": "required"}
EXPLAIN = "allocation candidate explain --flavor accelerated"


def with_profiles(profiles: list[dict[str, Any]] | None) -> State:
    """A host with a device, and a flavor; Cyborg with these profiles, None without Cyborg."""
    cloud = hosts().compute("host", VCPU=8, MEMORY_MB=64, traits=["COMPUTE_ACCELERATORS"])
    cloud.child("host", "device", FPGA=1)
    cloud.flavor("accelerated", ram=16, extra_specs={"accel:device_profile": "dp1"})
    catalog = [{"type": "accelerator"}] if profiles is not None else []
    answers = {
        api.LOGIN: {"token": {"catalog": catalog}},
        "GET /v2/device_profiles": None if profiles is None else {"device_profiles": profiles},
    }
    return State(cloud, answers)


@pytest.mark.parametrize(
    ("profiles", "trait", "code", "words"),
    [
        ([{"name": "dp1", "groups": [DEVICE]}], "CUSTOM_FPGA_A", 0, ""),
        ([{"name": "dp1", "groups": [DEVICE, DEVICE]}], "CUSTOM_FPGA_A", 1, "no group_policy"),
        ([{"name": "dp1", "groups": [DEVICE]}], "CUSTOM_FPGA_B", 3, "CUSTOM_FPGA_A"),
        ([], "CUSTOM_FPGA_A", 1, "Cyborg has no device profile dp1"),
        (None, "CUSTOM_FPGA_A", 4, "the cloud's catalog has no Cyborg"),
    ],
    ids=["fits", "two-devices", "another-device", "no-profile", "no-cyborg"],
)
def test_a_device_profile_is_a_part_of_the_request(
    profiles: list[dict[str, Any]] | None,
    trait: str,
    code: int,
    words: str,
    openstack: OpenStack,
) -> None:
    state = with_profiles(profiles)
    state.arrange(openstack)
    for name in ("CUSTOM_FPGA_A", "CUSTOM_FPGA_B"):
        openstack.do("trait create", name)
    openstack.do("resource provider trait set", uuid_of("device"), "--trait", trait)
    ended = state.run(openstack, EXPLAIN)
    assert ended.code == code, ended
    assert words in ended.stdout + ended.messages
    audited = state.run(openstack, "placement flavor audit -f json")
    assert words in audited.stdout
    assert (json.loads(audited.stdout)[0]["code"] == "one-host") is (code in (0, 4))
