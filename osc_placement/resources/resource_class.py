# SPDX-License-Identifier: Apache-2.0
"""``resource class``, as in osc-placement 4."""

from osc_placement.v1.resources.trait import (
    CreateResourceClass as CreateResourceClass,
    DeleteResourceClass as DeleteResourceClass,
    ListResourceClass as ListResourceClass,
    SetResourceClass as SetResourceClass,
    ShowResourceClass as ShowResourceClass,
)

BASE_URL = "/resource_classes"
PER_CLASS_URL = "/resource_classes/{name}"
FIELDS = ("name",)
