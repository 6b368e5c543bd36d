from __future__ import annotations

from osc_placement.engine.candidates import summary as summaries
from osc_placement.model.inventory import Inventory
from tests.support.candidates.clouds import cloud, provider

BASE = cloud(
    provider("host", VCPU=Inventory(10, reserved=2, allocation_ratio=1.5), MEMORY_MB=64),
    provider("gpu", "host", VGPU=1),
    provider("other", VCPU=4),
    used={"host": {"VCPU": 3}},
)


def test_without_nesting_only_providers_of_requests_are_summarized():
    found = summaries.summary_providers(BASE, ["gpu", "gpu"], whole_trees=False)
    assert list(found) == ["gpu"]


def test_with_nesting_whole_trees_are_summarized():
    found = summaries.summary_providers(BASE, ["gpu"], whole_trees=True)
    assert list(found) == ["host", "gpu"]


def test_a_summary_has_capacity_and_usage():
    summary = summaries.summarize(BASE, "host")
    assert summary.resources == {
        "VCPU": {"capacity": 12, "used": 3},
        "MEMORY_MB": {"capacity": 64, "used": 0},
    }
    assert summary.provider is BASE.providers["host"]


def test_a_summary_can_be_limited_to_the_requested_classes():
    summary = summaries.summarize(BASE, "host", {"VCPU"})
    assert summary.resources == {"VCPU": {"capacity": 12, "used": 3}}
