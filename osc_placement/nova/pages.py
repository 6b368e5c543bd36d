"""Nova's listings, page by page, at the best compute API version that a nova supports."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from osc_placement.nova import api

T = TypeVar("T")

#: Entries per request: nova's own limit.
_PAGE = 1000


def read_all(
    nova: api.Nova,
    path: str,
    versions: Sequence[str],
    query: Mapping[str, str],
    key: str,
    read: Callable[[Any], T],
) -> list[T]:
    """``read(item)`` for each item of all pages of a listing, in nova's order.

    ``versions`` are compute API versions, the preferred one first; ``key`` is the field of the
    response that holds the items, and ``{key}_links`` the link to the next page.
    Requests: one GET per 1000 items. Errors: as ``ask``; PlacementError when nova is older than
    the last version, or when an item lacks a field.
    """
    found: list[T] = []
    marker: dict[str, str] = {}
    while True:
        url = f"{path}?{urllib.parse.urlencode({**query, 'limit': str(_PAGE), **marker})}"
        body, version = ask_best(nova, url, versions)
        versions = (version,)
        with api.parsing(url):
            items = body[key]
            found += map(read, items)
            if not items or not has_next(body.get(f"{key}_links") or ()):
                return found
            marker = {"marker": str(items[-1].get("uuid") or items[-1]["id"])}


def has_next(links: Iterable[Mapping[str, str]]) -> bool:
    """Whether the links of a page name a next page."""
    return any(link["rel"] == "next" for link in links)


def ask_best(nova: api.Nova, path: str, versions: Sequence[str]) -> tuple[Any, str]:
    """The response at the first version that this nova supports, and that version."""
    for version in versions[:-1]:
        try:
            return nova.ask(path, version), version
        except api.NovaRefused as error:
            if error.status != 406:
                raise
    return api.ask_or_unsupported(nova, path, versions[-1]), versions[-1]
