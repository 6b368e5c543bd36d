"""The root errors of this package, and all errors of one input, reported together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator


class PlacementError(Exception):
    """Root of everything that this package raises on purpose."""


class InvalidInput(PlacementError):
    """What was asked makes no sense; ``reasons`` holds every fault, not only the first."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n".join(self.reasons))


class InputErrors:
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
        except InvalidInput as error:
            self.reasons += error.reasons
        except PlacementError:
            self.check()
            raise

    def check(self) -> None:
        """Raise InvalidInput with every reason, each once, if there is any."""
        if self.reasons:
            raise InvalidInput(dict.fromkeys(self.reasons))
