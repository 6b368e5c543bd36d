"""What a snapshot file contains, and whether it is still as it was saved."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from osc_placement.server.store import snapshot
from osc_placement.workflows.snapshot import file


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """``metadata`` is None for a database that was not saved from a cloud.

    ``state_hash`` is equal for equal states, regardless of generations. ``is_unchanged``: the
    file has the state that was saved. ``recorded`` are the requests to nova and neutron whose
    responses the file holds.
    """

    metadata: snapshot.Metadata | None
    counts: snapshot.Counts
    state_hash: str
    is_unchanged: bool
    notes: Sequence[snapshot.Note]
    recorded: Sequence[str]


def summarize(path: pathlib.Path) -> Summary:
    """Read the whole file once. Errors: PlacementError, which names it."""
    with file.opened(path) as opened:
        metadata = opened.metadata
        digest = opened.state_hash(generations=True)
        return Summary(
            metadata,
            opened.counts(),
            opened.state_hash(),
            metadata is None or metadata.digest == digest,
            opened.notes(),
            opened.recorded_requests(),
        )
