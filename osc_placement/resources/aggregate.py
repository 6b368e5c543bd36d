# SPDX-License-Identifier: Apache-2.0
"""``resource provider aggregate``, as in osc-placement 4."""

from osc_placement.v1.resources.provider_aggregate import (
    ListAggregate as ListAggregate,
    SetAggregate as SetAggregate,
)

BASE_URL = "/resource_providers/{uuid}/aggregates"
FIELDS = ("uuid",)
