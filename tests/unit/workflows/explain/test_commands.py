# SPDX-License-Identifier: Apache-2.0
"""The commands that ``allocation candidate explain`` prints for its changes."""

from __future__ import annotations

from typing import Any

import os_traits
import pytest

from osc_placement.workflows.explain import commands
from osc_placement.workflows.explain.changes import Action, SmallestChange, Step
from osc_placement.workflows.explain.explain import Explanation

UUID = "7d2590ae-fb85-4080-9306-058b4c915e3f"


def command_for(step: Step, **fields: Any) -> str:
    """The command that is printed for a step on the provider UUID."""
    explanation = Explanation(1, (), (), (), {}, (), (), uuids={step.provider: UUID}, **fields)
    (command,) = commands.commands(SmallestChange(1, (step,)), explanation, {})
    return command


@pytest.mark.parametrize("trait", ["CUSTOM_A", *sorted(os_traits.get_traits())[::40]])
def test_the_command_that_removes_a_trait_passes_its_own_guard(trait: str) -> None:
    step = Step("cmp 1", Action.REMOVE_TRAIT, trait)
    allowed = "" if trait.startswith("CUSTOM_") else " --allow=standard-traits"
    assert command_for(step) == (
        f"openstack resource provider trait remove --trait={trait}{allowed} {UUID}"
    )


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
    assert f" --resource=MEMORY_MB:{field}={printed} " in command_for(step)
