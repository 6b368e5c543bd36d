# SPDX-License-Identifier: Apache-2.0
"""The answers of nova's filters about hosts on stdin, from nova's own classes.

Run this with the lab's Python: ``filters.py < CASES.json``, a list of ``{specs, image, flavor,
project, aggregates, servers}``. It needs no service and no database. For each case it prints
``{filter: whether it accepts the host}``; None for a filter that fails.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from nova import config, context, objects
from nova.scheduler import host_manager
from nova.scheduler.filters import (
    aggregate_image_properties_isolation,
    aggregate_instance_extra_specs,
    aggregate_multitenancy_isolation,
    num_instances_filter,
    type_filter,
)

FILTERS = {
    "AggregateInstanceExtraSpecsFilter": (
        aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter
    ),
    "AggregateImagePropertiesIsolation": (
        aggregate_image_properties_isolation.AggregateImagePropertiesIsolation
    ),
    "AggregateMultiTenancyIsolation": (
        aggregate_multitenancy_isolation.AggregateMultiTenancyIsolation
    ),
    "AggregateTypeAffinityFilter": type_filter.AggregateTypeAffinityFilter,
    "AggregateNumInstancesFilter": num_instances_filter.AggregateNumInstancesFilter,
    "NumInstancesFilter": num_instances_filter.NumInstancesFilter,
}


def answers(admin: Any, case: Mapping[str, Any]) -> dict[str, bool | None]:
    """The answer of each filter."""
    host = host_manager.HostState("host", "node", "cell")
    host.aggregates = [
        objects.Aggregate(admin, metadata=dict(metadata)) for metadata in case["aggregates"]
    ]
    host.num_instances = case["servers"]
    spec = objects.RequestSpec(
        admin,
        flavor=objects.Flavor(admin, name=case["flavor"], extra_specs=dict(case["specs"])),
        image=objects.ImageMeta.from_dict({"name": "i", "properties": case["image"]}),
        project_id=case["project"],
        num_instances=1,
    )
    verdicts: dict[str, bool | None] = {}
    for name, read in FILTERS.items():
        try:
            verdicts[name] = bool(read().host_passes(host, spec))
        # Nova fails for some values of extra specs, and refuses the whole request.
        except Exception:  # noqa: BLE001
            verdicts[name] = None
    return verdicts


def main() -> None:
    config.parse_args(["filters"], default_config_files=[])
    logging.disable(logging.CRITICAL)
    objects.register_all()
    admin = context.get_admin_context()
    json.dump([answers(admin, case) for case in json.load(sys.stdin)], sys.stdout)


main()
