# SPDX-License-Identifier: Apache-2.0
"""Applies plans and reads their facts, in the forms that tests use."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

from osc_placement.client import api
from osc_placement.plan import apply, change, journal, plan, result
from osc_placement.plan.kinds import registry
from osc_placement.workflows.cloud import rehearsal
from osc_placement.workflows.cloud.context import ReadContext

DEFAULTS = apply.Options()


def text_of(made: plan.Plan) -> str:
    """The text of a plan file."""
    return "".join(made.json_parts())


def apply_new(
    client: api.Client,
    planned: plan.ObservedPlan,
    command: str = "a test",
    options: apply.Options = DEFAULTS,
) -> result.RunReport:
    """Apply a new plan, as a command does."""
    return apply.apply_plan(client, planned.stamped(client, command), options)


def apply_in_memory(client: Any, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
    """Apply a new plan and keep nothing on disk."""
    options = {"journal": journal.MemoryJournal(), **options}
    return apply_new(client, planned, "", apply.Options(**options))


def apply_file(
    client: api.Client,
    made: plan.Plan,
    path: pathlib.Path,
    options: apply.Options = DEFAULTS,
) -> result.RunReport:
    """Apply the plan of a file, as ``plan apply`` does."""
    options = dataclasses.replace(
        options, copy=functools.partial(rehearsal.concerned, client, ReadContext())
    )
    return apply.apply_plan(client, plan.ObservedPlan(made), options, path=path)


def undo_file(
    client: api.Client, made: plan.Plan, path: pathlib.Path, options: apply.Options = DEFAULTS
) -> result.RunReport:
    """Undo the plan of a file, as ``plan undo`` does."""
    return apply.undo_plan(client, made, options, path)


Item = change.Change | change.Skipped | result.ChangeResult


def before(item: Item) -> dict[str, change.Value]:
    """The facts before a change, as JSON rows show them."""
    return {fact.key: fact.before for fact in registry.facts(item.kind, item.before, item.after)}


def after(item: Item) -> dict[str, change.Value]:
    """The facts after a change, as JSON rows show them."""
    return {fact.key: fact.after for fact in registry.facts(item.kind, item.before, item.after)}


def amounts(item: Item, names: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """``{provider: {class: amount}}`` after a change of allocations; ``names`` are by UUID."""
    by_provider: dict[str, dict[str, Any]] = {}
    for key, value in after(item).items():
        uuid, _, resource_class = key.rpartition(":")
        if isinstance(value, int) and uuid:
            provider = names[uuid] if names else uuid
            by_provider.setdefault(provider, {})[resource_class] = value
    return by_provider
