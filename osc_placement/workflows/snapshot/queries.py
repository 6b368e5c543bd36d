"""Allocation candidates queries from an access log, a list or a recording. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any

from osc_placement import microversion

#: Allocation requests, each as canonical text: answers are compared as sets.
Candidates = frozenset[str]

_LOGGED = re.compile(r"(?:\"(?P<method>[A-Z]+) )?\S*/allocation_candidates\?(?P<query>[^\s\"']+)")
_LOGGED_VERSION = re.compile(r"\bmicroversion: (?P<version>\d+\.\d+)")
_PLAIN = re.compile(r"\??(?P<query>[\w%]+=\S*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A distinct query; ``version`` is empty if its source does not name one.

    ``count``: how often the source has it. ``answer`` is the last recorded one, None without a
    recording.
    """

    text: str
    version: str = ""
    count: int = 1
    answer: Candidates | None = None

    @property
    def limit(self) -> int | None:
        """The most candidates that the query accepts; None without a limit."""
        values = [value for name, value in urllib.parse.parse_qsl(self.text) if name == "limit"]
        return int(values[-1]) if values and values[-1].isdigit() else None

    @property
    def unlimited(self) -> str:
        """The query without its limit, which would hide lost candidates."""
        parts = [part for part in self.text.split("&") if not part.startswith("limit=")]
        return "&".join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The distinct queries of a file in the order of their first appearance.

    ``ignored`` counts the lines without a query.
    """

    queries: Sequence[Query]
    ignored: int


def parse(lines: Iterable[str]) -> Source:
    """Read lines of an access log, plain queries and lines of a recording, also mixed.

    Empty lines and lines that begin with ``#`` are skipped.
    """
    found: dict[tuple[str, str], Query] = {}
    ignored = 0
    for line in map(str.strip, lines):
        if not line or line.startswith("#"):
            continue
        query = _of_line(line)
        if query is None:
            ignored += 1
            continue
        key = query.text, query.version
        known = found.get(key)
        if known is not None:
            query = dataclasses.replace(query, count=known.count + 1)
        found[key] = query
    return Source(list(found.values()), ignored)


def record(text: str, version: str, body: Any) -> str:
    """One line of a recording; ``body`` is the response to the query."""
    answer = sorted(candidates(body))
    return json.dumps({"query": text, "version": version, "candidates": answer}) + "\n"


def candidates(body: Any) -> Candidates:
    """The allocation requests of a response, without the order of providers and classes."""
    return frozenset(
        json.dumps(_resources(item["allocations"]), sort_keys=True, separators=(",", ":"))
        for item in body["allocation_requests"]
    )


def _resources(allocations: Any) -> dict[str, Any]:
    """``{provider uuid: {class: amount}}``, from the form of any microversion."""
    if isinstance(allocations, list):
        return {item["resource_provider"]["uuid"]: item["resources"] for item in allocations}
    return {uuid: item["resources"] for uuid, item in allocations.items()}


def _of_line(line: str) -> Query | None:
    if line.startswith("{"):
        return _recorded(line)
    logged = _LOGGED.search(line)
    if logged is not None:
        if logged["method"] not in (None, "GET"):
            return None
        version = _LOGGED_VERSION.search(line)
        return Query(logged["query"], version["version"] if version else "")
    plain = _PLAIN.fullmatch(line)
    return Query(plain["query"]) if plain else None


def _recorded(line: str) -> Query | None:
    try:
        document = json.loads(line)
        version = str(document["version"])
        microversion.Microversion.parse(version)
        answer = frozenset(map(str, document["candidates"]))
        return Query(str(document["query"]), version, answer=answer)
    except (ValueError, LookupError, TypeError):
        return None
