# SPDX-License-Identifier: Apache-2.0
"""Cyborg's device profiles: one read, and each way in which they are not known."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import api, device_profiles

PROFILE = {"name": "dp1", "groups": [{"resources:FPGA": "1", "trait:CUSTOM_A": "required"}]}
WITH_CYBORG = {api.LOGIN: {"token": {"catalog": [{"type": "accelerator"}]}}}
WITHOUT = {api.LOGIN: {"token": {"catalog": [{"type": "compute"}]}}}
LISTING = "GET /v2/device_profiles"


def profiles(recorded: dict[str, Any]) -> device_profiles.DeviceProfiles:
    return device_profiles.DeviceProfiles(api.RecordedNova(recorded, "a recording"))


def test_the_groups_are_those_of_cyborg() -> None:
    read = profiles({**WITH_CYBORG, LISTING: {"device_profiles": [PROFILE]}})
    assert read.groups("dp1") == PROFILE["groups"]
    with pytest.raises(errors.InvalidInput, match="Cyborg has no device profile dp2"):
        read.groups("dp2")


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        ({}, "a recording does not have the services of the catalog"),
        (WITHOUT, "the cloud's catalog has no Cyborg"),
        (WITH_CYBORG, "a recording holds no response to GET /device_profiles"),
        ({**WITH_CYBORG, LISTING: {}}, "lacks a field"),
        (
            {
                **WITH_CYBORG,
                LISTING: {"device_profiles": [{"name": "dp1", "groups": [{"resources:A": "x"}]}]},
            },
            "lacks a field",
        ),
    ],
    ids=["no-catalog", "no-cyborg", "not-recorded", "no-list", "no-number"],
)
def test_profiles_that_cannot_be_read_are_not_known(recorded: dict[str, Any], why: str) -> None:
    with pytest.raises(
        errors.NotKnown, match=r"only Cyborg knows the resources of the .* dp1"
    ) as e:
        profiles(recorded).groups("dp1")
    assert why in str(e.value)
