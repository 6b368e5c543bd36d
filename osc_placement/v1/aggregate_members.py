"""``set AGGREGATE --aggregate``: upstream's rows and texts, on the engine of the batches.

Used by ``inventory_set`` and ``provider_trait``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1 import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider
    from osc_placement.plan import change, plan, result


def members(client: api.Client, aggregate_uuid: str) -> list[provider.Provider]:
    """The providers of an aggregate, in the server's order. Raises PlacementError for none."""
    found = client.list_providers(member_of=[aggregate_uuid])
    if not found:
        raise errors.PlacementError(
            f"No resource providers found in aggregate with uuid {aggregate_uuid}."
        )
    return found


def settle(
    client: api.Client,
    about: Sequence[provider.Provider],
    what: str,
    planned: plan.ObservedPlan,
    rows_of: Callable[[change.Facts], list[rows.Row]],
) -> list[rows.Row]:
    """Do what was planned; the rows of every provider as it is then, its UUID first.

    A refusal does not keep the others back. Raises InvalidInput with one line per
    provider that failed, and how many did.
    """
    from osc_placement.plan import apply, change, result

    report = apply.at_once(client, planned)
    ended = {item.subject.uuid: item for item in report.outcomes}
    good = {result.Status.APPLIED, result.Status.UNCHANGED}
    _check(what, [ended[item.uuid] for item in about], good)
    data: list[rows.Row] = []
    for item in about:
        end = ended[item.uuid]
        facts = end.found
        if facts is None:
            facts = planned.known[change.key(end.kind, end.subject)].facts
        data += [(item.uuid, *row) for row in rows_of(facts)]
    return data


def foretell(
    about: Iterable[provider.Provider], what: str, work: Callable[[str], list[rows.Row]]
) -> list[rows.Row]:
    """What ``work`` tells of every provider, some at a time; errors as those of ``settle``."""
    from osc_placement.plan import guards, workers

    def told(item: provider.Provider) -> list[rows.Row] | str:
        try:
            return [(item.uuid, *row) for row in work(item.uuid)]
        except errors.PlacementError as error:
            return _failure(what, item.uuid, str(error))

    found = list(workers.each(told, about, guards.WORKERS))
    _raise([item for item in found if isinstance(item, str)], what, len(found))
    return [row for item in found if isinstance(item, list) for row in item]


def _check(what: str, ended: Sequence[result.ChangeResult], good: Iterable[result.Status]) -> None:
    bad = [item for item in ended if item.status not in good]
    _raise([_failure(what, item.subject.uuid, item.reason) for item in bad], what, len(ended))


def _failure(what: str, uuid: str, reason: str) -> str:
    return f"Failed to {what} for resource provider {uuid}: {reason}."


def _raise(failed: Sequence[str], what: str, total: int) -> None:
    if failed:
        summary = f"Failed to {what} for {len(failed)} of {total} resource providers."
        raise errors.InvalidInput([*failed, summary])
