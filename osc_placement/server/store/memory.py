"""A store that keeps nothing after the process ends."""

from __future__ import annotations

from osc_placement.engine import record


class MemoryStore:
    """The state itself is the only copy."""

    def load(self, part: object = None) -> record.Changes:
        """No records."""
        return record.Changes()

    def commit(self, changes: record.Changes) -> None:
        """Accept any change."""

    def close(self) -> None:
        """Nothing to close."""
