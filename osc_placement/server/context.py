# SPDX-License-Identifier: Apache-2.0
"""What a handler receives and returns.

It receives one request with its microversion, identity, limits and state, and returns one of the
responses at the end of this module.
"""

from __future__ import annotations

import dataclasses
import email.utils
import functools
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import webob
from webob import multidict

from osc_placement import microversion
from osc_placement.engine.candidates.forest import Strategy
from osc_placement.server import auth, http_errors, policy, validation
from osc_placement.server.store import repository

JSON = "application/json"
#: Values of a body: they take many times the memory of its text.
MAX_VALUES = 200_000


@dataclasses.dataclass
class RequestContext:
    """One request.

    ``params`` are the variable parts of the path. ``error_fields`` are further values for
    the text of an error, which a handler sets before it calls the engine.
    """

    request: webob.Request
    version: microversion.Microversion
    identity: auth.RequestIdentity
    repository: repository.Repository
    allows: policy.Policy
    params: Mapping[str, str]
    rule: str
    limits: Limits
    error_fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    def authorize(self, target: Mapping[str, Any] | None = None) -> None:
        """Raise HttpError 403 unless the policy allows this request on ``target``."""
        # A token has project scope, or none; Placement accepts no other scope.
        if self.identity.system_scope or self.identity.domain_id:
            raise http_errors.HttpError(403, self.rule, varies=False)
        if not self.allows(self.rule, self.identity, target or {}):
            text = f"Policy does not allow {self.rule} to be performed."
            raise http_errors.HttpError(403, text, varies=False)

    def body(self, schemas: validation.Schemas) -> Any:
        """The request's JSON document; raises HttpBadRequest unless it is valid by its schema."""
        body = self.request.body_file.read()
        if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
            raise http_errors.HttpBadRequest(f"The document has more than {MAX_VALUES} values.")
        try:
            # Not json.loads(body): it accepts other encodings, and surrogates in UTF-8.
            document = json.loads(body.decode())
            _check_text(body, document)
        except (ValueError, RecursionError) as error:
            raise http_errors.HttpBadRequest(f"Malformed JSON: {error}") from error
        schema = validation.at(schemas, self.version.minor)
        schema.check(document, "JSON does not validate: ")
        return document

    @functools.cached_property
    def query(self) -> multidict.MultiDict[str, str]:
        """The parameters of the query string; the last value of a repeated one counts."""
        try:
            return self.request.GET
        except UnicodeDecodeError as error:
            raise http_errors.HttpBadRequest(f"{http_errors.INVALID_QUERY}{error}") from error

    def checked_query(self, schemas: validation.Schemas) -> multidict.MultiDict[str, str]:
        """The query parameters; raises HttpBadRequest unless they are valid by their schema."""
        schema = validation.at(schemas, self.version.minor)
        schema.check(dict(self.query.items()), http_errors.INVALID_QUERY)
        return self.query

    def url(self, path: str) -> str:
        """The absolute URL of a path of this server."""
        return f"{self.request.application_url}{path}"


def _check_text(body: bytes, document: Any) -> None:
    """Raise ValueError for strings that contain an unpaired surrogate."""
    if b"\\ud" in body or b"\\uD" in body:
        json.dumps(document, ensure_ascii=False).encode()


@dataclasses.dataclass
class Limits:
    """Limits of an allocation candidates request.

    ``search_seconds`` is the time of its search, ``response_bytes`` the size of its response,
    ``candidates`` the number of candidates of a query without ``limit``. The search ends after
    ``max_candidates`` candidates, None for all, and finds them in the order of ``strategy``.
    """

    search_seconds: float = 5.0
    response_bytes: int = 64 * 1024 * 1024
    candidates: int = 200_000
    max_candidates: int | None = None
    strategy: Strategy = Strategy.DEPTH_FIRST

    def check_size(self, size: int) -> None:
        """Raise HttpBadRequest for a response with more bytes than the limit."""
        if size > self.response_bytes:
            raise http_errors.HttpBadRequest(
                f"The response has more than {self.response_bytes} bytes. Set a lower limit."
            )


def json_response(
    context: RequestContext,
    payload: Any,
    status: int = 200,
    updated: Iterable[float] | None = None,
) -> webob.Response:
    """A JSON response; a ``payload`` that is a list of bytes is the encoded text, in parts.

    ``updated`` are the update times of the records in it; the latest one becomes
    last-modified. None means now, an empty ``updated`` means no such header.
    """
    parts = payload if isinstance(payload, list) else [encode(payload)]
    headers = [("Content-Type", JSON), ("Content-Length", str(sum(map(len, parts))))]
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
    if not microversion.supports(context.version, "last-modified"):
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
