"""What is asked of nova about its services. See ``compute``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osc_placement.nova import api, values

#: The compute API microversions to ask at: services of a cell that is down are told from 2.69.
_CELLS, _LEAST = "2.69", "2.53"

_PATH = "/os-services?binary=nova-compute"


def services(asked: api.Nova) -> list[values.ComputeService]:
    """Every nova-compute. Cost: one request.

    Errors: as ``ask``, and PlacementError for a nova before 2.53.
    """
    try:
        answer = asked.ask(_PATH, _CELLS)
    except api.NovaRefused as error:
        if error.status != 406:
            raise
        answer = api.ask_or_unsupported(asked, _PATH, _LEAST)
    with api.parsing(_PATH):
        return [_service(item) for item in answer["services"] if item["binary"] == "nova-compute"]


def _service(item: Mapping[str, Any]) -> values.ComputeService:
    if item["status"] == "UNKNOWN":
        return values.ComputeService(item["host"], is_reachable=False)
    return values.ComputeService(
        item["host"],
        is_up=item["state"] == "up" and not item.get("forced_down"),
        is_enabled=item["status"] == "enabled",
    )
