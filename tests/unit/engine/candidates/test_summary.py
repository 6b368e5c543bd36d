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


def test_only_the_providers_of_the_requests_are_summarized_without_nesting():
    found = summaries.summary_providers(BASE, ["gpu", "gpu"], whole_trees=False)
    assert list(found) == ["gpu"]


def test_with_nesting_their_whole_trees_are():
    found = summaries.summary_providers(BASE, ["gpu"], whole_trees=True)
    assert list(found) == ["host", "gpu"]


def test_a_summary_tells_capacity_and_what_is_used():
    summary = summaries.summarize(BASE, "host")
    assert summary.resources == {"VCPU": (12, 3), "MEMORY_MB": (64, 0)}
    assert summary.provider is BASE.providers["host"]


def test_a_summary_can_be_kept_to_the_classes_asked_for():
    assert summaries.summarize(BASE, "host", {"VCPU"}).resources == {"VCPU": (12, 3)}
