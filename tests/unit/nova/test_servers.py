# SPDX-License-Identifier: Apache-2.0
"""Servers of nova's listing."""

from __future__ import annotations

import dataclasses
import json

from osc_placement.nova import api, servers
from tests.support.clouds import large


def test_equal_values_of_servers_are_one_object() -> None:
    cloud = large.LargeCloud(1, 0, 100)
    # Only parsed JSON has an object for each value.
    nova = api.RecordedNova(json.loads(json.dumps(cloud.nova())), "recorded")
    found = servers.servers(nova)
    for field in ("project_id", "user_id", "host", "node", "status", "flavor", "flavor_name"):
        each = [getattr(one, field) for one in found]
        assert len(set(map(id, each))) == len(set(map(str, each))), field
    assert len({id(one.image_properties) for one in found}) == 1


def test_flavors_with_different_extra_specs_stay_different() -> None:
    answers = json.loads(json.dumps(large.LargeCloud(1, 0, 2).nova()))
    listed = answers["GET /v2.1/servers/detail?all_tenants=1"]["servers"]
    listed[1]["flavor"] = listed[0]["flavor"] | {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    one, other = servers.servers(api.RecordedNova(answers, "recorded"))
    assert one.flavor is not None
    assert not one.flavor.extra_specs
    assert other.flavor == dataclasses.replace(
        one.flavor, extra_specs={"hw:cpu_policy": "dedicated"}
    )
