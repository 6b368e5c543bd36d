"""``set AGGREGATE --aggregate``: upstream's rows and texts, with the batch operations.

Used by ``inventory_set`` and ``provider_trait``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider
    from osc_placement.plan.plan import ObservedPlan


def members(client: api.Client, aggregate_uuid: str) -> list[provider.Provider]:
    """The members of an aggregate, in the server's order. Raises PlacementError if empty."""
    found = client.list_providers(member_of=[aggregate_uuid])
    if not found:
        raise errors.PlacementError(
            f"No resource providers found in aggregate with uuid {aggregate_uuid}."
        )
    return found


def apply_each(
    client: api.Client,
    providers: Sequence[provider.Provider],
    action: str,
    planned: ObservedPlan,
    rows_of: Callable[[Any], list[rows.Row]],
) -> list[rows.Row]:
    """Apply a plan; the rows of every provider after it, with its UUID as the first column.

    A failure does not stop the changes of other providers. Raises InvalidInput with one line
    per failure and their number.
    """
    from osc_placement.plan import apply, change, journal

    options = apply.Options(journal=journal.MemoryJournal())
    report = apply.apply_plan(client, planned.stamped(client), options)
    results = {item.subject.uuid: item for item in report.results}
    ordered = [results[item.uuid] for item in providers]
    failed = [item for item in ordered if not item.succeeded]
    _check(
        [_failure(action, item.subject.uuid, item.reason) for item in failed], action, len(ordered)
    )
    data: list[rows.Row] = []
    for item in ordered:
        found = item.found
        if found is None:
            found = planned.known[change.key(item.kind, item.subject)].state
        data += [(item.subject.uuid, *row) for row in rows_of(found)]
    return data


def preview_each(
    providers: Iterable[provider.Provider], action: str, preview: Callable[[str], list[rows.Row]]
) -> list[rows.Row]:
    """The rows of ``preview(uuid)`` for every provider; errors as in ``apply_each``."""
    from osc_placement.plan import workers

    def preview_one(item: provider.Provider) -> list[rows.Row] | str:
        try:
            return [(item.uuid, *row) for row in preview(item.uuid)]
        except errors.PlacementError as error:
            return _failure(action, item.uuid, str(error))

    found = list(workers.each(preview_one, providers))
    _check([item for item in found if isinstance(item, str)], action, len(found))
    return [row for item in found if isinstance(item, list) for row in item]


def _failure(action: str, uuid: str, reason: str) -> str:
    return f"Failed to {action} for resource provider {uuid}: {reason}."


def _check(failures: Sequence[str], action: str, total: int) -> None:
    if failures:
        summary = f"Failed to {action} for {len(failures)} of {total} resource providers."
        raise errors.InvalidInput([*failures, summary])
