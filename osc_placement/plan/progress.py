# SPDX-License-Identifier: Apache-2.0
"""How a long task reports its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of a long task."""

    def start(self, what: str, total: int) -> None:
        """``total`` steps of ``what`` (a gerund, as in "reading inventories") start."""

    def advance(self) -> None:
        """One step has ended."""


class NullProgress:
    """Ignores the progress."""

    def start(self, what: str, total: int) -> None:
        """Do nothing."""

    def advance(self) -> None:
        """Do nothing."""
