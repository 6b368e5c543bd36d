# SPDX-License-Identifier: Apache-2.0
"""How often a request fits while any hosts may fail and their servers still find room. Pure.

An upper bound: after the failure of some hosts, their servers and all requests share the others.
The lower bound is a placement of requests for which every failure was tried: the requests on the
failed hosts move, the others stay. With servers of one size both are equal.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence

from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.search import placing
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.moving.places import Moves, Placement, Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Reserve:
    """How many requests fit with ``failures`` hosts in reserve: from ``least`` to ``most``.

    ``unsafe`` are the root UUIDs of hosts whose servers do not find room even without a request.
    ``is_complete`` is False if the time did not suffice to try every failure.
    """

    failures: int
    least: int
    most: int
    unsafe: tuple[str, ...] = ()
    is_complete: bool = True


def capacity_with_failures(
    moves: Moves, wanted: Wanted, hosts: Sequence[str], failures: int, most: int | None = None
) -> Reserve:
    """How often a request fits while any ``failures`` of the hosts may fail, up to ``most``."""
    return _Search(moves, wanted, hosts, failures).count(most)


class _Search:
    def __init__(self, moves: Moves, wanted: Wanted, hosts: Sequence[str], failures: int) -> None:
        self._moves, self._wanted, self._kind = moves, wanted, wanted.kind
        self._failures = min(failures, len(hosts))
        # Failures of the hosts with the most servers first: they give the lowest bound early.
        self._hosts = sorted(hosts, key=lambda root: -len(moves.servers_on([root])))

    def count(self, most: int | None) -> Reserve:
        upper = self._most_after(())
        upper = upper if most is None else min(upper, most)
        try:
            for failed in self._all_failures():
                upper = _largest(upper, functools.partial(self._fits_after, failed))
                if upper < 0:
                    return Reserve(self._failures, 0, 0, failed)
            # After some failure not even the present servers fit: then no request is safe.
            least = max(_largest(upper, self._is_safe), 0)
        except SearchTooLong:
            return Reserve(self._failures, 0, upper, is_complete=False)
        return Reserve(self._failures, least, upper)

    def _all_failures(self) -> Iterator[tuple[str, ...]]:
        return itertools.combinations(self._hosts, self._failures)

    def _fits_after(self, failed: Sequence[str], number: int) -> bool:
        """Whether the servers of failed hosts and ``number`` requests fit on the others."""
        self._moves.budget.check()
        moved = self._moves.servers_on(failed)
        first = self._moves.first_fit(failed, moved)
        if len(first) == len(moved) and self._most_after(failed, moved, first) >= number:
            return True
        return self._moves.place(failed, moved, [self._wanted] * number) is not None

    def _most_after(
        self,
        failed: Sequence[str],
        moved: Sequence[servers.PlacedServer] = (),
        placement: Placement | None = None,
    ) -> int:
        left = self._moves.free(failed, moved)
        for option in (placement or {}).values():
            for slot, amount in option.amounts.items():
                left[slot] -= amount
        count = placing.most(self._moves.options_of(self._kind, failed), left)
        return count.least if failed else count.most

    def _is_safe(self, number: int) -> bool:
        return any(
            self._survives(chosen)
            for chosen in (self._spread(number), self._packed(number))
            if chosen is not None
        )

    def _survives(self, chosen: Sequence[placing.Option]) -> bool:
        """Whether requests with these options, and all servers, survive every failure."""
        base = self._moves.base
        for failed in self._all_failures():
            self._moves.budget.check()
            lost: list[placing.Option] = []
            stay: list[placing.Option] = []
            for option in chosen:
                trees = {base.providers[uuid].root_uuid for uuid, _ in option.amounts}
                (lost if trees & set(failed) else stay).append(option)
            requests = [self._wanted] * len(lost)
            if self._moves.place(failed, None, requests, stay) is None:
                return False
        return True

    def _spread(self, number: int) -> list[placing.Option] | None:
        """Options for requests that are placed where the most room is."""
        left = self._moves.free((), ())
        heap = [
            (-option.repeats(left), at, option)
            for at, option in enumerate(self._moves.options_of(self._kind, ()))
        ]
        heapq.heapify(heap)
        chosen: list[placing.Option] = []
        while heap and len(chosen) < number:
            room, at, option = heapq.heappop(heap)
            current = option.repeats(left)
            if current == 0:
                continue
            if -room == current:
                chosen.append(option)
                for slot, amount in option.amounts.items():
                    left[slot] -= amount
            heapq.heappush(heap, (-option.repeats(left), at, option))
        return chosen if len(chosen) == number else None

    def _packed(self, number: int) -> list[placing.Option] | None:
        """Options for requests that fill one host after the other."""
        left = self._moves.free((), ())
        most = placing.most(self._moves.options_of(self._kind, ()), left)
        chosen = [option for option, times in most.chosen for _ in range(times)]
        return chosen[:number] if len(chosen) >= number else None


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to ``most`` that holds, if all smaller ones do; -1 for none."""
    if holds(most):
        return most
    return bisect.bisect_left(range(most), True, key=lambda number: not holds(number)) - 1
