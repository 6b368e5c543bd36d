# SPDX-License-Identifier: Apache-2.0
"""``resource provider``, as in osc-placement 4."""

from osc_placement.v1.resources.provider import (
    CreateResourceProvider as CreateResourceProvider,
    DeleteResourceProvider as DeleteResourceProvider,
    ListResourceProvider as ListResourceProvider,
    SetResourceProvider as SetResourceProvider,
    ShowResourceProvider as ShowResourceProvider,
)

BASE_URL = "/resource_providers"
ALLOCATIONS_URL = "/resource_providers/{uuid}/allocations"
