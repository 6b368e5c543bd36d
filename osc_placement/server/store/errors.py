"""Errors of a store. Each text names the file, the reason and the remedy."""

from __future__ import annotations


class StoreError(Exception):
    """Base of the errors of a store; nothing was changed."""


class NotADatabase(StoreError):
    """The file is not a database, is damaged, or belongs to another program."""


class NewerVersion(StoreError):
    """A newer version of this program wrote the file."""


class InUse(StoreError):
    """Another process has the file open."""


class NotWritable(StoreError):
    """The file or its folder is not writable."""


class NotEmpty(StoreError):
    """A document cannot be loaded into a state with records."""


class DocumentInvalid(StoreError):
    """A document is invalid; ``problems`` lists everything."""

    def __init__(self, problems: list[str]) -> None:
        shown = problems[:20]
        if len(problems) > len(shown):
            shown.append(f"… and {len(problems) - len(shown)} more")
        super().__init__("not a placement state: " + "; ".join(shown))
        self.problems = problems
