# SPDX-License-Identifier: Apache-2.0
"""``trait`` and ``resource provider trait``, as in osc-placement 4."""

from osc_placement.v1.resources.provider_trait import (
    DeleteResourceProviderTrait as DeleteResourceProviderTrait,
    ListResourceProviderTrait as ListResourceProviderTrait,
    SetResourceProviderTrait as SetResourceProviderTrait,
)
from osc_placement.v1.resources.trait import (
    CreateTrait as CreateTrait,
    DeleteTrait as DeleteTrait,
    ListTrait as ListTrait,
    ShowTrait as ShowTrait,
)

BASE_URL = "/traits"
RP_BASE_URL = "/resource_providers/{uuid}"
RP_TRAITS_URL = "/resource_providers/{uuid}/traits"
FIELDS = ("name",)
