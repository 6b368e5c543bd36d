# SPDX-License-Identifier: Apache-2.0
"""All kinds of change, by name. A new kind is a file in this folder and a line here."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from osc_placement.client import api
from osc_placement.plan import change
from osc_placement.plan.kinds import allocations, base, inventories, memberships, provider, reshape

CHANGE_TYPES: dict[str, base.ChangeType[Any]] = {
    item.name: item
    for item in (
        allocations.TYPE,
        allocations.BOUND_PORTS,
        inventories.TYPE,
        memberships.AGGREGATES,
        memberships.TRAITS,
        provider.TYPE,
        reshape.TYPE,
        memberships.TRAIT_EXISTENCE,
    )
}


def with_states(item: Mapping[str, Any]) -> dict[str, Any]:
    """A change or a skipped item of a plan file, with states in place of their form."""
    read = CHANGE_TYPES[item["kind"]].state.from_dict
    sides = {side: item[side] for side in ("before", "after") if item[side] is not None}
    return {**item, **{side: read(document) for side, document in sides.items()}}


def check_rights(client: api.Client, changes: Iterable[change.Change[Any]]) -> None:
    """Check before the first write what the server would refuse after some writes.

    Requests: one, if there is a reshape. Errors: UnsupportedVersion, Forbidden.
    """
    states = collections.defaultdict(list)
    for item in changes:
        states[item.kind].append((item.before, item.after))
    for kind, pairs in states.items():
        CHANGE_TYPES[kind].check_rights(client, pairs)


def facts(
    kind: str,
    before: change.State | None,
    after: change.State | None,
    names: change.Names = base.NO_NAMES,
) -> list[base.Fact]:
    """Every fact of both states; a state of None counts as equal to the other one."""
    if before is None and after is None:
        return []
    return CHANGE_TYPES[kind].facts(before or after, after or before, names)


def describe_change(
    kind: str,
    before: change.State | None,
    after: change.State | None,
    names: change.Names = base.NO_NAMES,
) -> list[str]:
    """What a change does, for rows that show no states; empty if a state is None."""
    if before is None or after is None:
        return []
    return CHANGE_TYPES[kind].describe_change(before, after, names)
