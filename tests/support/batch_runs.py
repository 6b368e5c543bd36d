"""Runs of inventory changes on a fake Placement."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from osc_placement.client import api_errors
from osc_placement.plan import apply, executor, plan, result
from osc_placement.workflows import selector
from osc_placement.workflows.batch import plan as batch_plan
from tests.support import fake_placement, plans

IN_AGGREGATE = selector.Selector(member_of=(fake_placement.AGGREGATE,))


def amend(client: Any, *texts: str, allow: Sequence[str] = (), **options: Any) -> result.RunReport:
    """Amend the inventories of all hosts in the aggregate."""
    planned = batch_plan.plan_amend(client, IN_AGGREGATE, texts, allow=allow)
    return run(client, planned, **options)


def run(client: Any, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
    """Apply a new plan; limits are options too."""
    limits = {
        name: options.pop(name)
        for name in ("workers", "max_count", "stop_on_error")
        if name in options
    }
    options["limits"] = executor.Limits(**limits)
    return plans.apply_new(client, planned, "a test", apply.Options(**options))


def ratios(client: fake_placement.FakeClient) -> set[float]:
    """The allocation ratios of VCPU on all hosts."""
    return {item.inventories["VCPU"].allocation_ratio for item in client.stored.values()}


def statuses(report: result.RunReport) -> dict[str, int]:
    """The number of results by status."""
    return dict(collections.Counter(str(item.status) for item in report.results))


def once_each(error: Callable[[], Exception]) -> Callable[[str, str], None]:
    """Raise at the first write of each provider."""
    seen: set[str] = set()

    def trouble(method: str, uuid: str) -> None:
        if uuid not in seen:
            seen.add(uuid)
            raise error()

    return trouble


def lost() -> Exception:
    """The error of a write without a response."""
    return api_errors.OutcomeUnknown(502, "PUT: <html>Bad gateway</html>", method="PUT", url="/x")
