# SPDX-License-Identifier: Apache-2.0
"""How evenly hosts are used, and what no moves can better. Pure.

The share of a host is what is used of one resource class, divided by what may be used. The spread
of some hosts is their highest share less their lowest. After moves within a limit all shares are in
a range as wide as the limit: hosts above it lose servers, hosts below it get some::

    hosts a, b and c with 10 VCPU each; 8, 4 and 0 are used, by servers of 2; the limit is 20 %
    range from 40 % to 60 %: a must lose one server, c must get two: at least two moves
    range from 20 % to 40 %: a must lose two servers, c must get one: at least two moves
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from osc_placement.engine import standard, state

#: The classes of which the scarcest counts, if none is named.
ORDINARY = ("DISK_GB", "MEMORY_MB", "PCPU", "VCPU")
#: Shares that differ by less are equal.
TOLERANCE = 1e-9
#: More moves than any cloud has servers.
NEVER = 1 << 30

#: ``(amount of a server, how many servers)``, the largest amount first.
Sizes = Sequence[tuple[int, int]]


def sizes_of(amounts: Iterable[int]) -> Sizes:
    """How many servers have each amount; those without any do not count."""
    counts = collections.Counter(amount for amount in amounts if amount > 0)
    return sorted(counts.items(), reverse=True)


@dataclasses.dataclass(frozen=True, slots=True)
class HostShare:
    """What is used of a class on a host (root UUID), and may be.

    ``leaving`` are the amounts of its servers that may leave, ``coming`` those of servers of other
    hosts that may come.
    """

    root: str
    used: int
    capacity: int
    leaving: Sizes = ()
    coming: Sizes = ()

    @property
    def share(self) -> float:
        """The part that is used."""
        return self.used / self.capacity

    def departures(self, highest: float) -> int:
        """How many servers must leave at least, so that the share is not above ``highest``."""
        return _number(self.leaving, self.used - (highest + TOLERANCE) * self.capacity)

    def arrivals(self, lowest: float) -> int:
        """How many servers must come at least, so that the share is not below ``lowest``."""
        return _number(self.coming, (lowest - TOLERANCE) * self.capacity - self.used)


def _number(sizes: Sizes, amount: float) -> int:
    """How many of the largest servers have this amount together."""
    number = 0
    for size, count in sizes:
        if amount <= 0:
            return number
        needed = min(math.ceil(amount / size), count)
        number, amount = number + needed, amount - needed * size
    return number if amount <= 0 else NEVER


def spread(hosts: Iterable[HostShare]) -> float:
    """The highest share less the lowest."""
    shares = [host.share for host in hosts]
    return max(shares, default=0.0) - min(shares, default=0.0)


def mean(hosts: Collection[HostShare]) -> float:
    """What is used on all hosts together, divided by what may be used."""
    return sum(host.used for host in hosts) / max(sum(host.capacity for host in hosts), 1)


def least_moves(hosts: Sequence[HostShare], within: float) -> int:
    """Fewer moves do not bring the spread within a limit: each move leaves and reaches one host.

    With a higher range fewer servers must leave, and more must come. So the fewest moves are where
    both are equal, or next to it.
    """
    if not hosts or spread(hosts) <= within + TOLERANCE:
        return 0
    lowest_shares = sorted({share - within for host in hosts for share in _shares_after(host)})

    def needed(lowest: float) -> tuple[int, int]:
        leave = sum(host.departures(lowest + within) for host in hosts)
        return leave, sum(host.arrivals(lowest) for host in hosts)

    def come_more(lowest: float) -> bool:
        leave, come = needed(lowest)
        return come >= leave

    middle = bisect.bisect_left(lowest_shares, True, key=come_more)
    beside = lowest_shares[max(middle - 1, 0) : middle + 1]
    return min(NEVER, *(max(needed(lowest)) for lowest in beside))


def _shares_after(host: HostShare) -> Iterable[float]:
    """The shares of a host after its largest servers have left, one after the other."""
    largest = (size for size, count in host.leaving for _ in range(count))
    left = itertools.accumulate(largest, lambda used, size: used - size, initial=host.used)
    return (used / host.capacity for used in left)


def least_spread(hosts: Sequence[HostShare]) -> float:
    """No moves bring the spread below this.

    Some host stays above the mean, and some below; what no server can bring, or take away, stays.
    The amounts of the servers have a common divisor, by which alone the use of a host changes.
    """
    amounts = {size for host in hosts for size, _ in (*host.leaving, *host.coming)}
    if not amounts:
        return spread(hosts)
    unit, total = math.gcd(*amounts), sum(host.used for host in hosts)
    top = max(host.share for host in hosts)

    def fits_below(share: float) -> bool:
        return sum(_most_below(host, share, unit) for host in hosts) >= total

    def fits_above(share: float) -> bool:
        return sum(-_most_below(_mirrored(host), -share, unit) for host in hosts) <= total

    highest = max(_least(fits_below, top), *(_fixed(host) / host.capacity for host in hosts))
    reach = (_reach(host) / host.capacity for host in hosts)
    lowest = min(top - _least(lambda below: fits_above(top - below), top), *reach)
    return max(highest - lowest, 0.0)


def _mirrored(host: HostShare) -> HostShare:
    """What is used counts as negative: the least above a share is the most below its negative."""
    return HostShare(host.root, -host.used, host.capacity, host.coming, host.leaving)


def _fixed(host: HostShare) -> int:
    return host.used - sum(size * count for size, count in host.leaving)


def _reach(host: HostShare) -> int:
    return host.used + sum(size * count for size, count in host.coming)


def _most_below(host: HostShare, share: float, unit: int) -> int:
    """The most that may be used in steps of ``unit`` so that the share is not above this one."""
    steps = math.floor(((share + TOLERANCE) * host.capacity - host.used) / unit)
    return min(max(host.used + steps * unit, _fixed(host)), _reach(host))


def _least(holds: Callable[[float], bool], high: float) -> float:
    """The least number for which something holds, as it does for all larger ones up to ``high``."""
    low = 0.0
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low


def capacity_of(base: state.CloudState, root: str, name: str) -> int:
    """What may be used of a class in the tree of a host, without what it shares."""
    return sum(base.providers[uuid].inventories[name].capacity for uuid in _own(base, root, name))


def used_of(base: state.CloudState, root: str, name: str) -> int:
    """What is used of a class in the tree of a host."""
    return sum(base.used(uuid).get(name, 0) for uuid in _own(base, root, name))


def _own(base: state.CloudState, root: str, name: str) -> list[str]:
    providers = (base.providers[uuid] for uuid in base.tree[root])
    return [
        provider.uuid
        for provider in providers
        if name in provider.inventories and standard.SHARING_TRAIT not in provider.traits
    ]


def scarcest(base: state.CloudState, roots: Collection[str]) -> str:
    """The class that all hosts have, and of which the largest part is used; empty without one."""
    shares: Mapping[str, float] = {
        name: sum(used_of(base, root, name) for root in roots) / sum(capacity)
        for name in ORDINARY
        if all(capacity := [capacity_of(base, root, name) for root in roots])
    }
    return max(shares, key=lambda name: shares[name], default="")
