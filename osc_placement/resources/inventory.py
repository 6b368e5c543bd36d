# SPDX-License-Identifier: Apache-2.0
"""``resource provider inventory``, as in osc-placement 4."""

from osc_placement.v1.resources.inventory import (
    DeleteInventory as DeleteInventory,
    ListInventory as ListInventory,
    SetClassInventory as SetClassInventory,
    SetInventory as SetInventory,
    ShowInventory as ShowInventory,
)

RP_BASE_URL = "/resource_providers"
BASE_URL = "/resource_providers/{uuid}/inventories"
PER_CLASS_URL = "/resource_providers/{uuid}/inventories/{resource_class}"
USAGES_BASE_URL = "/resource_providers/{uuid}/usages"
FIELDS = ("allocation_ratio", "min_unit", "max_unit", "reserved", "step_size", "total")
