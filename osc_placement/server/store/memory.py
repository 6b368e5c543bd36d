"""A store that keeps nothing beyond the life of the process."""

from __future__ import annotations

from osc_placement.engine import record


class MemoryStore:
    """The state itself is the only copy."""

    def load(self) -> record.Changes:
        """Nothing: an empty Placement."""
        return record.Changes()

    def commit(self, changes: record.Changes) -> None:
        """Agree to any change."""

    def close(self) -> None:
        """Nothing is held open."""
