# SPDX-License-Identifier: Apache-2.0
"""Which traits can be deleted."""

from __future__ import annotations

import pytest

from osc_placement import testing


@pytest.mark.parametrize(
    ("name", "status"),
    [("CUSTOM_FREE", 204), ("CUSTOM_USED", 409), ("HW_CPU_X86_AVX", 400), ("CUSTOM_NONE", 404)],
)
def test_only_a_custom_trait_without_providers_is_deleted(name: str, status: int) -> None:
    with testing.InProcessPlacement() as placement:
        adapter = placement.adapter("1.39")
        uuid = adapter.post("/resource_providers", json={"name": "a"}).json()["uuid"]
        for trait in ("CUSTOM_FREE", "CUSTOM_USED"):
            adapter.put(f"/traits/{trait}")
        body = {"traits": ["CUSTOM_USED"], "resource_provider_generation": 0}
        adapter.put(f"/resource_providers/{uuid}/traits", json=body)
        assert adapter.delete(f"/traits/{name}", raise_exc=False).status_code == status
