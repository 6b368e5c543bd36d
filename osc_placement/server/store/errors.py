"""Why a store cannot be opened or written. Each text names the file and what to do."""

from __future__ import annotations


class StoreError(Exception):
    """Base of what can be wrong with a store; nothing was changed."""


class NotADatabase(StoreError):
    """The file is no database, is damaged, or is some other program's."""


class NewerVersion(StoreError):
    """The file was written by a newer version of this program."""


class InUse(StoreError):
    """Another process has the file open."""


class NotWritable(StoreError):
    """The file, or the folder that it is to be made in, cannot be written."""


class NotEmpty(StoreError):
    """A document is to be loaded where something is already."""


class DocumentInvalid(StoreError):
    """A document that is to be loaded is faulty; ``problems`` names every place."""

    def __init__(self, problems: list[str]) -> None:
        shown = problems[:20]
        if len(problems) > len(shown):
            shown.append(f"… and {len(problems) - len(shown)} more")
        super().__init__("not a placement state: " + "; ".join(shown))
        self.problems = problems
