# SPDX-License-Identifier: Apache-2.0
"""How a long task reports its progress."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ChangeEvent(NamedTuple):
    """One change of a run has ended, or its attempt ``attempt`` failed and another one follows.

    ``outcome`` is the status of its result, or RETRY. ``request_id`` is that of a failed request.
    """

    kind: str
    uuid: str
    name: str
    outcome: str
    reason: str = ""
    request_id: str = ""
    attempt: int = 1


#: The outcome of an attempt that another one follows.
RETRY = "retry"


class Progress(Protocol):
    """Receives the progress of a long task."""

    def start(self, what: str, total: int) -> None:
        """``total`` steps of ``what`` (a gerund, as in "reading inventories") start."""

    def advance(self) -> None:
        """One step has ended."""

    def note(self, event: ChangeEvent) -> None:
        """A change has ended or is tried again. Called in many threads."""


class NullProgress:
    """Ignores the progress."""

    def start(self, what: str, total: int) -> None:
        """Do nothing."""

    def advance(self) -> None:
        """Do nothing."""

    def note(self, event: ChangeEvent) -> None:
        """Do nothing."""
