# SPDX-License-Identifier: Apache-2.0
"""The log of the server process, one line per entry."""

from __future__ import annotations

import logging
import re
import sys

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Control characters, and other characters that some programs treat as line ends.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class LogFormatter(logging.Formatter):
    """Escapes control characters and indents the lines of a traceback."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return escape(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "\n".join(f"    {escape(line)}" for line in lines)


def escape(text: str) -> str:
    """The text without control characters: a line feed becomes ``\\x0a``."""
    return _UNSAFE.sub(_escaped, text)


def configure(*, debug: bool = False) -> None:
    """Log warnings and errors to stderr; with ``debug``, everything of this project."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    if debug:
        logging.getLogger("osc_placement").setLevel(logging.DEBUG)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
