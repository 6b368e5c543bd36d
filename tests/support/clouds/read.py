# SPDX-License-Identifier: Apache-2.0
"""What the product reads of a cloud of the kit: tests of pure functions use no other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import testing
from osc_placement.client import api
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.testing import service
from osc_placement.workflows.cloud import source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair.allocations import audit

#: The time of all recordings, in nova's clock.
NOW = "2026-01-01T00:00:00+00:00"


def reading(
    kit: testing.Cloud,
    client: api.Client | None = None,
    *,
    recorded: Mapping[str, Any] | None = None,
    version: str = "1.39",
    services: Sequence[str] = ("compute",),
    ports: Sequence[Mapping[str, Any]] = (),
    **request: Any,
) -> audit.AuditReading:
    """The audit's reading of a cloud, a minute after all changes that count as old.

    ``client``: of another Placement than the cloud's. ``recorded``: more of nova's answers.
    ``services`` are those of the catalog, ``ports`` neutron's.
    """
    catalog = [{"type": name} for name in services]
    answers = {
        **kit.nova(),
        **(recorded or {}),
        nova_api.LOGIN: {"token": {"issued_at": NOW, "catalog": catalog}},
        "GET /v2.0/ports": {"ports": [*ports]},
    }
    return audit.read_cloud(
        client or service.InProcessPlacement(load=kit).start().client(version),
        nova_api.RecordedNova(answers, "the kit"),
        audit.AuditRequest(**{"min_age": 60.0, **request}),
        neutron=neutron_api.RecordedNeutron(answers, ""),
    )


def read(kit: testing.Cloud, client: api.Client | None = None, **more: Any) -> Cloud:
    """Everything that the audit and heal read of a cloud."""
    return reading(kit, client, **more).snapshot


def hosts(kit: testing.Cloud) -> Cloud:
    """Nova's hosts and host aggregates, and all providers; other facts of these when asked for."""
    client = service.InProcessPlacement(load=kit).start().client()
    return source.read(client, nova_api.RecordedNova(kit.nova(), ""), with_aggregates=True)
