# SPDX-License-Identifier: Apache-2.0
"""Hosts that may be bought: empty copies of the tree of a host, in the same aggregates. Pure."""

from __future__ import annotations

import collections
import dataclasses
import uuid
from collections.abc import Iterable

from osc_placement.engine import record, state
from osc_placement.workflows.cloud import servers


@dataclasses.dataclass(frozen=True, slots=True)
class AddedHosts:
    """``number`` more hosts ``like`` one (nova's name, or the name or UUID of a provider)."""

    like: str
    number: int


def with_added(
    base: state.CloudState, added: Iterable[tuple[str, int]]
) -> tuple[state.CloudState, dict[str, str]]:
    """The state with more hosts, and ``{root UUID of a new host: that of the one it is like}``.

    ``added`` are root UUIDs, each with a number of hosts. A new host has the inventories, the
    traits and the aggregates of each provider of the tree, no allocations, and a nova-compute that
    is enabled.
    """
    providers: dict[str, record.ProviderRecord] = {}
    like: dict[str, str] = {}
    numbers = collections.Counter[str]()
    for root, number in added:
        for _ in range(number):
            numbers[root] += 1
            own = {
                each: str(uuid.uuid5(uuid.NAMESPACE_OID, f"{each} {numbers[root]}"))
                for each in base.tree[root]
            }
            like[own[root]] = root
            for each in base.tree[root]:
                before = base.providers[each]
                providers[own[each]] = dataclasses.replace(
                    before,
                    uuid=own[each],
                    name=f"{before.name} (new {numbers[root]})",
                    root_uuid=own[root],
                    parent_uuid=own.get(before.parent_uuid or ""),
                    traits=before.traits - {servers.DISABLED},
                )
    after = base.copy()
    after.apply(record.Changes(providers))
    return after, like
