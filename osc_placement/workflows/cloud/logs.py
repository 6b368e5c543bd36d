# SPDX-License-Identifier: Apache-2.0
"""Reads logs, also compressed ones: their lines, and the queries of candidates in them."""

from __future__ import annotations

import bz2
import collections
import contextlib
import dataclasses
import gzip
import io
import lzma
import pathlib
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from osc_placement import errors

#: The beginning of a compressed file, and what opens it.
_COMPRESSED: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}

#: The most bytes that count as one line.
_LONGEST = 1 << 20


def lines(path: pathlib.Path) -> Iterator[str]:
    """The lines of a log, one after the other; ``-`` is standard input.

    Errors: PlacementError, which names the file.
    """
    try:
        with _opened(path) as file:
            while line := file.readline(_LONGEST):
                if b"\0" in line:
                    raise errors.PlacementError(f"{path} cannot be read: it is binary, and no log")
                yield line.decode(errors="replace").rstrip("\r\n")
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = "its compressed data is damaged or not complete"
        if isinstance(error, OSError) and error.errno is not None:
            reason = errors.file_reason(error)
        raise errors.PlacementError(f"{path} cannot be read: {reason}") from error


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[BinaryIO]:
    """The content. Errors: OSError; PlacementError for a device, which may have no end."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise errors.PlacementError(f"{path} cannot be read: a device and not a file")
    with path.open("rb") as file:
        begin = file.peek(8)
        opens = (how for magic, how in _COMPRESSED.items() if begin.startswith(magic))
        decompress = next(opens, None)
        # A buffer: their own readline is slow.
        yield file if decompress is None else io.BufferedReader(decompress(file))


_PATH = "/allocation_candidates?"
#: What precedes the path on its line, from the method on, and the query. A comma that follows it,
#: as in the log of nova-scheduler, is none of it.
_METHOD = re.compile(r'"(?P<method>[A-Z]+) \S*$')
_LOGGED = re.compile(r"[^\s\"']+(?<!,)")
#: What a debug log has of one request: keystoneauth's two lines, and that of urllib3.
_LOGGER = re.compile("REQ: curl|GET call to|urllib3")
_LOGGED_VERSION = re.compile(r"\bmicroversion: (?P<version>\d+\.\d+)")
_PLAIN = re.compile(r"\??(?P<query>[\w%]+=\S*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A distinct query; ``version`` is empty if its source does not name one.

    ``count``: how often the source has it.
    """

    text: str
    version: str = ""
    count: int = 1

    @property
    def unlimited(self) -> str:
        """The query without its limit, which would hide lost candidates."""
        parts = [part for part in self.text.split("&") if not part.startswith("limit=")]
        return "&".join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class QuerySource:
    """The distinct queries of a file in the order of their first appearance.

    ``ignored`` counts the lines without a query.
    """

    queries: list[Query]
    ignored: int


def parse(texts: Iterable[str]) -> QuerySource:
    """Read lines of logs and plain queries, also mixed.

    A request counts once, although a debug log of nova-scheduler has it from several loggers.
    Empty lines and lines that begin with ``#`` are skipped.
    """
    counts: dict[Query, collections.Counter[str]] = {}
    ignored = 0
    for line in map(str.strip, texts):
        if not line or line.startswith("#"):
            continue
        query = logged_query(line) or _plain_query(line)
        if query is None:
            ignored += 1
            continue
        logger = _LOGGER.search(line)
        counts.setdefault(query, collections.Counter())[logger[0] if logger else ""] += 1
    queries = [
        dataclasses.replace(query, count=max(by_logger.values()))
        for query, by_logger in counts.items()
    ]
    return QuerySource(queries, ignored)


def logged_query(line: str) -> Query | None:
    """The query of allocation candidates that a line of a log has."""
    before, path, rest = line.partition(_PATH)
    text = _LOGGED.match(rest) if path else None
    method = _METHOD.search(before[-200:])
    if text is None or (method and method["method"] != "GET"):
        return None
    version = _LOGGED_VERSION.search(rest)
    return Query(text[0], version["version"] if version else "")


def _plain_query(line: str) -> Query | None:
    plain = None if _PATH in line else _PLAIN.fullmatch(line)
    return Query(plain["query"]) if plain else None
