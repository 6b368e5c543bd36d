# SPDX-License-Identifier: Apache-2.0
"""Reads JSON that somebody else wrote: files, recordings, responses and options."""

from __future__ import annotations

import json
import os
import pathlib
import stat
from collections.abc import Iterable
from typing import Any

from osc_placement import errors

#: The largest file that is read, in bytes, and the deepest nesting of its lists and objects.
MAX_BYTES = 1 << 30
MAX_LEVELS = 100


class NotJson(errors.PlacementError, ValueError):
    """A text is not usable JSON; the message begins with its source, if it has one."""


def parse(text: bytes | str, source: str = "") -> Any:
    """The value of a JSON text in UTF-8. Errors: NotJson with ``source``, line and column."""
    prefix = f"{source}: " if source else ""
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise NotJson(f"{prefix}{errors.file_reason(error)}") from error
    except RecursionError:
        # Without the error as its cause: its traceback has a thousand levels.
        raise NotJson(f"{prefix}lists and objects are nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"{prefix}{error}") from error


def read(path: pathlib.Path) -> Any:
    """The value in a file. Errors: OSError; NotJson, which names the file."""
    value = parse(read_bytes(path), str(path))
    if _is_deeper(value, MAX_LEVELS):
        raise NotJson(f"{path}: lists and objects are nested in more than {MAX_LEVELS} levels")
    return value


def read_bytes(path: pathlib.Path) -> bytes:
    """The content of a regular file, a pipe or standard input, of at most MAX_BYTES.

    Errors: OSError; NotJson for a device, which may have no end, and for a larger file.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        is_device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
        if is_device and not _is_stdin(status):
            raise NotJson(f"{path}: a device and not a file")
        content = b"" if status.st_size > MAX_BYTES else file.read(MAX_BYTES + 1)
    if status.st_size > MAX_BYTES or len(content) > MAX_BYTES:
        raise NotJson(f"{path}: more than {MAX_BYTES >> 20} MiB")
    return content


def _is_stdin(status: os.stat_result) -> bool:
    try:
        return os.path.samestat(status, os.fstat(0)) and os.isatty(0)
    except OSError:
        return False


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested in more levels; without recursion."""
    level: list[Any] = [value]
    for _ in range(levels + 1):
        nested: list[Any] = []
        for item in level:
            children: Iterable[Any] = ()
            if isinstance(item, dict):
                children = item.values()
            elif isinstance(item, list):
                children = item
            nested += [child for child in children if isinstance(child, dict | list)]
        if not nested:
            return False
        level = nested
    return True
