# SPDX-License-Identifier: Apache-2.0
"""Runs of inventory changes on a reference server."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from osc_placement.plan import apply, executor, plan, result
from osc_placement.workflows.batch import batch
from osc_placement.workflows.cloud import selector
from tests.support import embedded, plans

IN_AGGREGATE = selector.Selector(member_of=(embedded.AGGREGATE,))


def amend(
    client: embedded.Client, *texts: str, allow: Sequence[str] = (), **options: Any
) -> result.RunReport:
    """Amend the inventories of all hosts in the aggregate."""
    planned = batch.plan_amend(client, IN_AGGREGATE, texts, allow=allow)
    return run(client, planned, **options)


def run(client: embedded.Client, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
    """Apply a new plan; limits are options too."""
    limits = {
        name: options.pop(name)
        for name in ("workers", "max_count", "stop_on_error")
        if name in options
    }
    options["limits"] = executor.RunLimits(**limits)
    return plans.apply_new(client, planned, "a test", apply.Options(**options))


def ratios(client: embedded.Client) -> set[float]:
    """The allocation ratios of VCPU on all hosts."""
    return {item.inventories["VCPU"].allocation_ratio for item in client.all_stored()}


def statuses(report: result.RunReport) -> dict[str, int]:
    """The number of results by status."""
    return dict(collections.Counter(str(item.status) for item in report.results))
