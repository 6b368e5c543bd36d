# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate list``, as in osc-placement 4."""

from osc_placement.v1.resources.candidate import (
    ListAllocationCandidate as ListAllocationCandidate,
)

BASE_URL = "/allocation_candidates"
