"""The log of the server as a process: one entry a line, whatever a request holds."""

from __future__ import annotations

import logging
import re
import sys

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Control characters, and what else some program takes for the end of a line.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Formatter(logging.Formatter):
    """Escapes every control character; the lines of a traceback are indented."""

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


def configure() -> None:
    """Warnings and errors to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
