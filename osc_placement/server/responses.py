"""The successful responses that a handler can build."""

from __future__ import annotations

import email.utils
import functools
import json
import time
from collections.abc import Iterable
from typing import Any

import orjson
import webob

from osc_placement.server.context import JSON, RequestContext


def json_response(
    context: RequestContext,
    payload: Any,
    status: int = 200,
    updated: Iterable[float] | None = None,
) -> webob.Response:
    """A JSON response.

    ``updated`` are the update times of the records in it; the latest one becomes
    last-modified. None means now, an empty ``updated`` means no such header.
    """
    return encoded_response(context, [encode(payload)], status, updated)


def encoded_response(
    context: RequestContext,
    parts: list[bytes],
    status: int = 200,
    updated: Iterable[float] | None = None,
) -> webob.Response:
    """A response from the parts of an encoded JSON document; see ``json_response``.

    The parts are sent one by one: joining large ones takes longer than to encode them.
    """
    length = str(sum(map(len, parts)))
    headers = [("Content-Type", JSON), ("Content-Length", length)]
    response = webob.Response(status=status, app_iter=parts, headerlist=headers)
    set_dates(context, response, updated)
    return response


def empty_response(
    context: RequestContext, status: int = 204, path: str | None = None
) -> webob.Response:
    """A response without a body; ``path`` becomes its location."""
    response = webob.Response(status=status, headerlist=[])
    if path is not None:
        response.location = context.url(path)
    return response


def set_dates(
    context: RequestContext, response: webob.Response, updated: Iterable[float] | None = None
) -> None:
    """Set last-modified and cache-control, which exist since 1.15; see ``json_response``."""
    if not context.at_least(15):
        return
    latest = time.time() if updated is None else max(updated, default=None)
    if latest is not None:
        response.headerlist.append(("last-modified", _date(int(latest))))
    response.headerlist.append(("cache-control", "no-cache"))


@functools.lru_cache(maxsize=1 << 12)
def _date(seconds: int) -> str:
    """The date of HTTP; many records change in the same second."""
    return email.utils.formatdate(seconds, usegmt=True)


def encode(payload: Any) -> bytes:
    """Encode as JSON; the standard library takes integers of any size, orjson does not."""
    try:
        return orjson.dumps(payload)
    except TypeError:
        return json.dumps(payload).encode()
