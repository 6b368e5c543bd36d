# SPDX-License-Identifier: Apache-2.0
"""The commands that ``allocation candidate explain`` prints for its changes."""

from __future__ import annotations

import os_traits
import pytest

from osc_placement.v1.answers import explain
from osc_placement.workflows.answers.explain.changes import Action, SmallestChange, Step


@pytest.mark.parametrize("trait", ["CUSTOM_A", *sorted(os_traits.get_traits())[::40]])
def test_the_command_that_removes_a_trait_passes_its_own_guard(trait: str) -> None:
    step = Step("cmp 1", Action.REMOVE_TRAIT, trait)
    (command,) = explain.commands(SmallestChange(1, (step,)), {}, {})
    expected = f"openstack resource provider trait remove 'cmp 1' --trait {trait}"
    allowed = "" if trait.startswith("CUSTOM_") else " --allow standard-traits"
    assert command == expected + allowed


@pytest.mark.parametrize(
    ("field", "value", "printed"),
    [
        ("total", 2097153, "2097153"),
        ("total", 2**31 - 1, "2147483647"),
        ("allocation_ratio", 16.0, "16"),
        ("allocation_ratio", 1.25, "1.25"),
        ("allocation_ratio", 123456.78, "123456.78"),
    ],
)
def test_the_command_that_raises_a_capacity_has_every_digit(
    field: str, value: float, printed: str
) -> None:
    step = Step("cmp", Action.RAISE, "MEMORY_MB", field, 1, value)
    (command,) = explain.commands(SmallestChange(1, (step,)), {}, {})
    assert command.endswith(f"--resource MEMORY_MB:{field}={printed}")
