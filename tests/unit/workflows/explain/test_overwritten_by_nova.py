# SPDX-License-Identifier: Apache-2.0
"""What the notes say of changes that nova-compute sets back."""

from __future__ import annotations

import pytest

from osc_placement.workflows.explain import overwritten_by_nova
from osc_placement.workflows.explain.changes import Action, SmallestChange, Step

RATIO = "allocation_ratio"


@pytest.mark.parametrize(
    ("action", "name", "field", "expected"),
    [
        (Action.RAISE, "VCPU", RATIO, "if nova.conf has cpu_allocation_ratio: change it there"),
        (Action.RAISE, "MEMORY_MB", "reserved", "change reserved_host_memory_mb in nova.conf"),
        (Action.RAISE, "PCPU", "total", "change [compute]cpu_dedicated_set in nova.conf"),
        (Action.RAISE, "MEMORY_MB", "total", "no option sets it, the host itself decides"),
        (Action.AMEND, "VCPU", "max_unit", "no option sets it, the host itself decides"),
        (Action.RAISE, "CUSTOM_GPU", "total", "if its provider.yaml names it: change it there"),
        (Action.ADD_TRAIT, "HW_CPU_X86_AVX", "", "cpu_model_extra_flags in nova.conf"),
        (Action.REMOVE_TRAIT, "HW_CPU_HYPERTHREADING", "", "cpu_model_extra_flags in nova.conf"),
        (Action.REMOVE_TRAIT, "COMPUTE_STATUS_DISABLED", "", ""),
        (Action.ADD_TRAIT, "OWNER_NOVA", "", ""),
        (Action.ADD_TRAIT, "COMPUTE_NODE", "", "the driver reports it"),
        (Action.ADD_TRAIT, "CUSTOM_FAST", "", ""),
        (Action.FREE, "VCPU", "", ""),
        (Action.JOIN, "VCPU", "", ""),
    ],
)
def test_a_change_that_does_not_last_says_where_to_change_it_instead(
    action: Action, name: str, field: str, expected: str
) -> None:
    change = SmallestChange(1, (Step("cmp", action, name, field, 1, 2.0),))
    lines = overwritten_by_nova.notes([change] * 2)
    assert len(lines) == bool(expected)
    assert all(line.startswith("nova-compute sets back ") for line in lines)
    assert all(name in line and expected in line for line in lines)
    assert overwritten_by_nova.lasts(change) is (not expected or expected.startswith("if "))
