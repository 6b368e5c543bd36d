"""Collecting faults, so that an operator hears of all of them at once: commands and workflows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from osc_placement.client import errors


class Faults:
    """Reasons why a request makes no sense, gathered over several steps."""

    def __init__(self, reasons: Iterable[str] = ()) -> None:
        self.reasons = list(reasons)

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def add(self, reason: str) -> None:
        """One more reason."""
        self.reasons.append(reason)

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Keep what an InvalidInput of the block says instead of raising it.

        When the block fails otherwise (nobody answers), what is wrong already is told rather.
        """
        try:
            yield
        except errors.InvalidInput as error:
            self.reasons += error.reasons
        except errors.PlacementError:
            self.check()
            raise

    def check(self) -> None:
        """Raise InvalidInput with every reason, each once, if there is any."""
        if self.reasons:
            raise errors.InvalidInput(dict.fromkeys(self.reasons))
