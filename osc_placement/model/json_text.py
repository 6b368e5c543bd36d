# SPDX-License-Identifier: Apache-2.0
"""Reads JSON that somebody else wrote: files, recordings, responses and options."""

from __future__ import annotations

import io
import json
import math
import pathlib
import re
import stat
from typing import Any, BinaryIO

from osc_placement import errors

#: The largest file that is read, in bytes, and the deepest nesting of its lists and objects.
MAX_BYTES = 1 << 30
MAX_LEVELS = 100
_TOO_LARGE = f"{{}}: more than {MAX_BYTES >> 20} MiB"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


class NotJson(errors.PlacementError, ValueError):
    """A text is not usable JSON; the message begins with its source, if it has one."""


def parse(text: bytes | str, source: str = "") -> Any:
    """The value of a JSON text in UTF-8. Errors: NotJson with ``source``, line and column."""
    prefix = f"{source}: " if source else ""
    try:
        text = text if isinstance(text, str) else text.decode()
        value: Any = json.loads(text, parse_float=_finite, parse_constant=_finite)
        if _SURROGATE.search(text):
            # Half of a pair is no text: it could not be written anywhere.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise NotJson(f"{prefix}{errors.file_reason(error)}") from error
    except RecursionError:
        # Without the error as its cause: its traceback has a thousand levels.
        raise NotJson(f"{prefix}lists and objects are nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"{prefix}{error}") from error
    return value


def _finite(text: str) -> float:
    """A number that is written with a point or an exponent. Errors: ValueError."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def read(path: pathlib.Path) -> Any:
    """The value in a file. Errors: OSError; NotJson, which names the file."""
    return parse(LimitedFile(io.BytesIO(read_bytes(path)), str(path)).read(), str(path))


class LimitedFile:
    """An open file of JSON, whose ``read`` counts the levels of lists and objects.

    A parser can need memory in the square of their number, and other code can follow only some.
    """

    def __init__(self, file: BinaryIO, source: str) -> None:
        self._file, self._source = file, source
        self._level = 0
        self._in_string = self._after_backslash = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Errors: OSError; NotJson with more than MAX_LEVELS."""
        part = self._file.read(size)
        text = _ESCAPED.sub(b"", b"\\" * self._after_backslash + part)
        self._after_backslash = text.endswith(b"\\")
        pieces = text.split(b'"')
        for bracket in _BRACKETS.findall(b"".join(pieces[self._in_string :: 2])):
            self._level += 1 if bracket in b"[{" else -1
            if self._level > MAX_LEVELS:
                reason = f"lists and objects are nested in more than {MAX_LEVELS} levels"
                raise NotJson(f"{self._source}: {reason}")
        self._in_string ^= len(pieces) % 2 == 0
        return part


def read_bytes(path: pathlib.Path) -> bytes:
    """The content of a regular file or a pipe, of at most MAX_BYTES.

    Errors: OSError; NotJson for a device, which may have no end, and for a larger file.
    """
    check_file(path)
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise NotJson(_TOO_LARGE.format(path))
    return content


def check_file(path: pathlib.Path) -> None:
    """Refuse what a library should not read to its end. Errors: as ``read_bytes``."""
    status = path.stat()
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        raise NotJson(f"{path}: a device and not a file")
    if status.st_size > MAX_BYTES:
        raise NotJson(_TOO_LARGE.format(path))
