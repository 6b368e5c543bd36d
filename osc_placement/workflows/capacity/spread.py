# SPDX-License-Identifier: Apache-2.0
"""How even hosts are used: the whole cloud, each availability zone and each host aggregate.

``show`` sends the requests; ``spreads`` is pure.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.nova.values import HostAggregate
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import named_aggregates, servers, source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import evenness


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """The use of a class on hosts: all (``kind`` cloud), or those of a zone or an aggregate.

    ``hosts`` has the least used one first. ``at_least``: fewer moves do not bring the spread within
    the limit, whichever servers move; None if no moves do.
    """

    kind: str
    part: str
    name: str
    hosts: Sequence[evenness.HostShare]
    at_least: int | None

    @property
    def spread(self) -> float:
        """The highest share less the lowest."""
        return evenness.spread(self.hosts)

    @property
    def mean(self) -> float:
        """What is used on all hosts together, divided by what may be used."""
        return evenness.mean(self.hosts)


@dataclasses.dataclass(frozen=True, slots=True)
class ShownSpreads:
    """The spreads, nova's names of hosts by root UUID, and what was not checked or counted."""

    rows: Sequence[Spread]
    names: Mapping[str, str]
    caveats: Caveats


def show(
    client: api.Client,
    context: ReadContext,
    compute: ServerHosts,
    aggregates: Sequence[HostAggregate],
    within: float,
) -> ShownSpreads:
    """The spreads of a cloud. Requests: those of ``source.everything``. Errors: PlacementError."""
    with source.of(client, context).everything(()) as base:
        names = {}
        for root in hosts_of(base):
            node = compute.node(root)
            names[root] = node.host if node else base.providers[root].name
        rows = list(spreads(base, compute, aggregates, within))
        counting = {host.root for row in rows for host in row.hosts}
        refused = compute.refused(names)
        default = "it lacks the class that most hosts have"
        why = {names[root]: refused.get(root, default) for root in names if root not in counting}
        return ShownSpreads(rows, names, Caveats(compute.not_checked, not_counted=why))


def spreads(
    base: state.CloudState,
    compute: ServerHosts,
    aggregates: Iterable[HostAggregate],
    within: float,
) -> Iterator[Spread]:
    """A row for each part of the cloud with two hosts that take servers and have a class."""
    refused = compute.refused(hosts_of(base))
    usable = [root for root in hosts_of(base) if root not in refused]
    by_host = named_aggregates.hosts_in_nova(usable, compute)

    def roots_of(hosts: Iterable[str]) -> list[str]:
        return sorted({root for host in hosts for root in by_host.get(host, ())})

    aggregates = list(aggregates)
    zones = named_aggregates.hosts_by_zone(aggregates, compute)
    parts = [
        ("cloud", "", usable),
        *(("zone", zone, roots_of(hosts)) for zone, hosts in sorted(zones.items())),
        *(
            ("aggregate", item.name, roots_of(item.hosts))
            for item in sorted(aggregates, key=lambda item: item.name)
        ),
    ]
    for kind, part, roots in parts:
        name, roots = _class_of(base, roots)
        if len(roots) > 1:
            hosts = _shares(base, roots, name)
            at_least = evenness.least_moves(hosts, within)
            if evenness.least_spread(hosts) > within + evenness.TOLERANCE:
                at_least = evenness.NEVER
            yield Spread(kind, part, name, hosts, None if at_least >= evenness.NEVER else at_least)


def _class_of(base: state.CloudState, roots: Collection[str]) -> tuple[str, list[str]]:
    """The class that most of the hosts have, of these the scarcest; and the hosts that have it."""
    having = {
        name: [root for root in roots if evenness.capacity_of(base, root, name)]
        for name in evenness.ORDINARY
    }
    most = max(map(len, having.values()))
    scarcest = {
        evenness.scarcest(base, several): several
        for several in having.values()
        if len(several) == most > 1
    }
    return next(iter(scarcest.items()), ("", []))


def _shares(base: state.CloudState, roots: Sequence[str], name: str) -> list[evenness.HostShare]:
    """The hosts, the least used one first; each server of one of them may come to each other."""
    own = {
        root: collections.Counter(
            sum(
                base.consumers[uuid].allocations.get(place, {}).get(name, 0)
                for place in base.tree[root]
            )
            for uuid in servers.consumers_on(base, root)
        )
        for root in roots
    }
    total = sum(own.values(), collections.Counter[int]())
    hosts = (
        evenness.HostShare(
            root,
            evenness.used_of(base, root, name),
            evenness.capacity_of(base, root, name),
            _sizes(own[root]),
            _sizes(total - own[root]),
        )
        for root in roots
    )
    return sorted(hosts, key=lambda host: host.share)


def _sizes(numbers: Mapping[int, int]) -> evenness.Sizes:
    return sorted(((size, number) for size, number in numbers.items() if size), reverse=True)
