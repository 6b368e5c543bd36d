# SPDX-License-Identifier: Apache-2.0
"""``resource provider allocation``, as in osc-placement 4."""

from osc_placement.v1.resources.allocation import (
    DeleteAllocation as DeleteAllocation,
    SetAllocation as SetAllocation,
    ShowAllocation as ShowAllocation,
    UnsetAllocation as UnsetAllocation,
)

BASE_URL = "/allocations"
