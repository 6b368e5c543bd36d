# SPDX-License-Identifier: Apache-2.0
"""The words for devices on the command line."""

from __future__ import annotations

import pytest

from osc_placement.workflows.reshape import device_recipes


@pytest.mark.parametrize(
    ("text", "name"),
    [("10de:1eb8", "CUSTOM_PCI_10DE_1EB8"), ("CUSTOM_GPU", "CUSTOM_GPU"), ("VGPU", "VGPU")],
)
def test_a_vendor_and_a_product_become_the_class_of_nova(text: str, name: str) -> None:
    assert device_recipes.class_name(text) == name
