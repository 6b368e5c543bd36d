# SPDX-License-Identifier: Apache-2.0
"""How a workflow reads a cloud: parallel requests, progress, nova's host aggregates."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from osc_placement.plan import workers as plan_workers
from osc_placement.plan.progress import NullProgress, Progress
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates

LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class ReadContext:
    """What every workflow receives for reading.

    ``workers`` is the number of parallel requests; ``progress`` is informed of each read;
    ``names`` are those of nova's host aggregates, None without nova.
    """

    workers: int = plan_workers.DEFAULT
    progress: Progress = dataclasses.field(default_factory=NullProgress)
    names: NamedAggregates | None = None

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
