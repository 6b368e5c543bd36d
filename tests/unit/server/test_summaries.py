# SPDX-License-Identifier: Apache-2.0
"""The provider summaries of allocation candidates."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement import server
from osc_placement.engine import record
from osc_placement.model.inventory import Inventory
from tests.support.candidates.clouds import cloud, provider
from tests.support.in_process import ask

BASE = cloud(
    provider("host", VCPU=Inventory(10, reserved=2, allocation_ratio=1.5), MEMORY_MB=64),
    provider("gpu", "host", VGPU=1),
    provider("other", VCPU=4),
    used={"host": {"VCPU": 3}},
)
VCPU = {"capacity": 12, "used": 3}
WHOLE_HOST = {"VCPU": VCPU, "MEMORY_MB": {"capacity": 64, "used": 0}}


def summaries(query: str, version: str) -> dict[str, Any]:
    """``{provider: resources}`` of an answer at this microversion."""
    app = server.create_app()
    app.repository.load(record.Changes(dict(BASE.providers), dict(BASE.consumers)))
    headers = {"openstack_api_version": f"placement {version}"}
    answer = ask(app, f"/allocation_candidates?{query}", **headers)
    return {uuid: shown["resources"] for uuid, shown in answer.json["provider_summaries"].items()}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.26", {"host": {"VCPU": VCPU}}),
        ("1.27", {"host": WHOLE_HOST}),
        ("1.29", {"host": WHOLE_HOST, "gpu": {"VGPU": {"capacity": 1, "used": 0}}}),
    ],
)
def test_a_summary_has_the_capacity_and_the_usage_that_its_microversion_shows(
    version: str, expected: dict[str, Any]
) -> None:
    assert summaries("resources=VCPU:5", version) == expected


def test_with_nesting_the_whole_tree_of_a_child_is_summarized() -> None:
    assert list(summaries("resources=VGPU:1", "1.29")) == ["host", "gpu"]
