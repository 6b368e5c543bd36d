"""What a long task reports to the program that shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Hears how a long task gets on; ``expect`` begins a part of it."""

    def expect(self, what: str, total: int) -> None:
        """``total`` steps of ``what`` (a gerund, as in "reading inventories") begin."""

    def advance(self) -> None:
        """One step is done."""


class NullProgress:
    """Nobody listens."""

    def expect(self, what: str, total: int) -> None:
        """Hear it and do nothing."""

    def advance(self) -> None:
        """Hear it and do nothing."""
