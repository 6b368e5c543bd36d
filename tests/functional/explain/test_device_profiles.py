# SPDX-License-Identifier: Apache-2.0
"""Flavors with a device profile: nova requests a group for each group that Cyborg has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osc_placement.nova import api
from tests.support.functional_cloud import compute_hosts, create, flavor, nova_recording
from tests.support.peer.shell import OpenStack

DEVICE = {"resources:FPGA": "1", "trait:CUSTOM_FPGA_A": "required"}
CATALOG = {"token": {"catalog": [{"type": "accelerator"}]}}
EXPLAIN = "allocation candidate explain --flavor accelerated"


def answers(uuid: str, profiles: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Nova with one host, and a flavor; Cyborg with these profiles, None without Cyborg."""
    listed = {"GET /v2/device_profiles": {"device_profiles": profiles}}
    accelerated = flavor("accelerated", 1, accel__device_profile="dp1")
    return {
        **compute_hosts({"host": uuid}),
        "GET /v2.1/flavors/detail": {"flavors": [accelerated]},
        api.LOGIN: CATALOG if profiles is not None else {"token": {"catalog": []}},
        **(listed if profiles is not None else {}),
    }


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
    host = create(openstack, "host", VCPU=8, MEMORY_MB=64)
    device = create(openstack, "device", "host", FPGA=1)
    for name in ("CUSTOM_FPGA_A", "CUSTOM_FPGA_B"):
        openstack.do("trait create", name)
    openstack.do("resource provider trait set", device, "--trait", trait)
    openstack.do("resource provider trait set", host, "--trait", "COMPUTE_ACCELERATORS")
    nova = nova_recording(answers(host, profiles))
    ended = openstack.run(EXPLAIN, *nova)
    assert ended.code == code, ended
    assert words in ended.stdout + ended.messages
    audited = openstack.run("placement flavor audit", *nova, "-f", "json")
    assert words in audited.stdout
    assert (json.loads(audited.stdout)[0]["code"] == "one-host") is (code in (0, 4))
