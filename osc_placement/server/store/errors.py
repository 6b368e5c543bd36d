# SPDX-License-Identifier: Apache-2.0
"""Errors of a store. Each text names the file, the reason and the remedy."""

from __future__ import annotations

from osc_placement.errors import PlacementError

#: Problems that an error text lists.
MAX_LISTED = 20


def listed(problems: list[str]) -> str:
    """The problems for an error text; only their number beyond the first ones."""
    shown = problems[:MAX_LISTED]
    if len(problems) > len(shown):
        shown.append(f"… and {len(problems) - len(shown)} more")
    return "; ".join(shown)


class StoreError(PlacementError):
    """Base of the errors of a store; nothing was changed."""


class NotADatabase(StoreError):
    """The file is not a database, is damaged, or belongs to another program."""


class NewerVersion(StoreError):
    """A newer version of this program wrote the file."""


class InUse(StoreError):
    """Another process has the file open."""


class NotASnapshot(StoreError):
    """The file is not a snapshot, or not the one that is expected."""


class NotWritable(StoreError):
    """The file or its folder is not writable."""


class NotEmpty(StoreError):
    """A document cannot be loaded into a state with records."""


class DocumentInvalid(StoreError):
    """A document is invalid; ``problems`` lists everything."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"not a placement state: {listed(problems)}")
        self.problems = problems
