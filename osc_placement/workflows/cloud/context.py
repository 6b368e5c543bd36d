# SPDX-License-Identifier: Apache-2.0
"""How a workflow reads a cloud: parallel requests, progress, nova's host aggregates."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from osc_placement.nova import values
from osc_placement.plan import workers as plan_workers
from osc_placement.plan.progress import NullProgress, Progress

LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: Reads nova's host aggregates. Called only for an aggregate that is not given as a UUID.
HostAggregates = Callable[[], Sequence[values.HostAggregate]]


@dataclasses.dataclass(frozen=True, slots=True)
class ReadContext:
    """What every workflow receives for reading.

    ``workers`` is the number of parallel requests; ``progress`` is informed of each read;
    ``host_aggregates`` is None without nova.
    """

    workers: int = plan_workers.DEFAULT
    progress: Progress = dataclasses.field(default_factory=NullProgress)
    host_aggregates: HostAggregates | None = None

    def each(self, read: Callable[[T], R], items: Collection[T], title: str = "") -> Iterator[R]:
        """``read`` of every item, ``workers`` at a time; the results in the order of the items.

        Progress is shown under ``title``; without one it is not shown.
        """
        if title and items:
            self.progress.start(title, len(items))
        for result in plan_workers.each(read, items, self.workers):
            if title:
                self.progress.advance()
            yield result
