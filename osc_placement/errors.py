# SPDX-License-Identifier: Apache-2.0
"""The base errors of this package, and the collection of all errors of one input."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import pathlib
import re
import shlex
import sys
from collections.abc import Iterable, Iterator

#: The longest word, line and text of an error: a name has 200 characters, and a screen 60 lines.
MAX_WORD, MAX_LINE, MAX_LINES = 1000, 4000, 100

_LONG_WORD = re.compile(rf"\S{{{MAX_WORD + 1},}}")


def shortened(text: str, longest: int = MAX_LINE) -> str:
    """The text of an error without the middle of long names, lists and lines.

    The beginning says what is wrong, and the end what to do. Names and documents of strangers have
    any length. ``longest``: characters of a line.
    """
    if len(text) <= min(MAX_WORD, longest) and text.count("\n") < MAX_LINES:
        return text
    lines = text.split("\n")
    more = len(lines) - MAX_LINES
    short = (_LONG_WORD.sub(lambda word: _cut(word[0], MAX_WORD), line) for line in lines)
    kept = [_cut(line, longest) for line in itertools.islice(short, MAX_LINES)]
    return "\n".join([*kept, *([f"... and {more} more lines"] if more > 0 else [])])


def _cut(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters: its first three quarters and its end."""
    if len(text) <= limit:
        return text
    mark = f"...({len(text)} characters)..."
    first = limit * 3 // 4
    return f"{text[:first]}{mark}{text[first + len(mark) - limit :]}"


class PlacementError(Exception):
    """The base class of all errors that this package raises.

    No text is long: see ``shortened``.
    """

    #: Whether the request that failed is not sent again: its attempts are used up.
    is_final = False

    def __init__(self, *texts: object) -> None:
        clean = [shortened(text) if isinstance(text, str) else text for text in texts]
        super().__init__(*clean)
        # A second base may have an __init__ that leaves what __new__ got.
        self.args = tuple(clean)


def file_reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file cannot be read, without its path."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return error.strerror or str(error)


class InvalidInput(PlacementError):
    """The input is invalid; ``reasons`` has one message per error."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n".join(self.reasons))


class NotKnown(PlacementError):
    """A fact that cannot be had; the text says which one, why, and what would show it."""


class MissingPackage(PlacementError):
    """A package of an extra is not installed."""


@contextlib.contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Raise MissingPackage if an import of the block fails: ``what`` needs the ``extra``."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = f"{what} needs more packages ({error.name}): {_install(extra)}"
        raise MissingPackage(text) from error


def _install(extra: str) -> str:
    """The command that installs the packages of an extra where this program runs."""
    package = shlex.quote(f"osc-placement[{extra}]")
    folder = pathlib.Path(sys.prefix)
    if (folder / "pipx_metadata.json").exists():
        return f"run pipx runpip {shlex.quote(folder.name)} install {package}"
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None:
        return f"run uv pip install --python {python} {package}"
    return f"run {python} -m pip install {package}"


class InputErrors:
    """The errors of one input, collected over several steps and reported together."""

    def __init__(self, reasons: Iterable[str] = ()) -> None:
        self.reasons = list(reasons)

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def add(self, reason: str) -> None:
        """Add one error."""
        self.reasons.append(reason)

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect an InvalidInput of the block instead of raising it.

        Another error (such as a failed connection) is raised only if nothing was collected.
        """
        try:
            yield
        except InvalidInput as error:
            self.reasons += error.reasons
        except PlacementError:
            self.check()
            raise

    def check(self) -> None:
        """Raise InvalidInput with all distinct reasons, if there is any."""
        if self.reasons:
            raise InvalidInput(dict.fromkeys(self.reasons))
