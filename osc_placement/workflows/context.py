"""How a workflow reads a cloud: parallel requests, progress, nova's host aggregates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from osc_placement.nova import values
from osc_placement.plan import guards
from osc_placement.plan.progress import NullProgress, Progress

#: Reads nova's host aggregates. Called only for an aggregate that is not given as a UUID.
HostAggregates = Callable[[], Sequence[values.HostAggregate]]


@dataclasses.dataclass(frozen=True, slots=True)
class ReadContext:
    """What every workflow receives for reading.

    ``workers`` is the number of parallel requests; ``progress`` is informed of each read;
    ``host_aggregates`` is None without nova.
    """

    workers: int = guards.WORKERS
    progress: Progress = dataclasses.field(default_factory=NullProgress)
    host_aggregates: HostAggregates | None = None
