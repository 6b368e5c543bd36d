# SPDX-License-Identifier: Apache-2.0
"""The guards of a change of inventories."""

from __future__ import annotations

import pytest

from osc_placement.model.inventory import Inventory
from osc_placement.plan.kinds import inventories
from osc_placement.plan.reasons import Code


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (Inventory(4), Inventory(4, reserved=5), True),
        (Inventory(4), Inventory(4, reserved=4), False),
        (Inventory(4, reserved=4), Inventory(3, reserved=4), True),
        # It was so before: the change does not make it worse.
        (Inventory(4, reserved=5), Inventory(4, reserved=5), False),
        (None, Inventory(4, reserved=5), True),
    ],
)
def test_a_change_to_more_reserved_than_there_is_needs_a_permission(
    before: Inventory | None, after: Inventory, refused: bool
) -> None:
    old = {} if before is None else {"VCPU": before}
    reasons = inventories.refusals(old, {"VCPU": after}, {}, (Code.NOTHING_LEFT,))
    assert [reason.code for reason in reasons] == [Code.RESERVED_ABOVE_TOTAL] * refused
    assert (
        inventories.refusals(
            old, {"VCPU": after}, {}, [Code.RESERVED_ABOVE_TOTAL, Code.NOTHING_LEFT]
        )
        == []
    )
