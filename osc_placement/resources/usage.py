# SPDX-License-Identifier: Apache-2.0
"""``resource usage show`` and ``resource provider usage show``, as in osc-placement 4."""

from osc_placement.v1.resources import provider

ShowUsage, ResourceShowUsage = provider.ShowProviderUsage, provider.ShowUsage

BASE_URL = "/resource_providers/{uuid}/usages"
USAGES_URL = "/usages"
FIELDS = ("resource_class", "usage")
