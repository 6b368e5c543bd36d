"""One request on its way through the server, and the answers that a handler can give."""

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
from osc_placement.server import auth, faults, policy
from osc_placement.server.schemas import validation
from osc_placement.server.store import repository

JSON = "application/json"


@dataclasses.dataclass
class Call:
    """What a handler gets: the request, who asks, at which version, and the state.

    ``params`` are the variable parts of the path, ``facts`` what else an error's text
    may tell.
    """

    request: webob.Request
    version: microversion.Microversion
    identity: auth.Identity
    repository: repository.Repository
    enforcer: policy.Enforcer
    params: Mapping[str, str]
    rule: str
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)

    def at_least(self, minor: int) -> bool:
        """Whether the request's microversion is 1.``minor`` or later."""
        return self.version.minor >= minor

    def authorize(self, target: Mapping[str, Any] | None = None) -> None:
        """Raises Forbidden unless the policy allows this call on ``target``."""
        self.enforcer.authorize(self.rule, self.identity, target)

    def body(self, schema: validation.Schema) -> Any:
        """The request's JSON, valid by ``schema``."""
        try:
            document = json.loads(self.request.body)
            _check_text(self.request.body, document)
        except (ValueError, RecursionError) as error:
            raise faults.BadRequest(f"Malformed JSON: {error}") from error
        schema.check(document, "JSON does not validate: ")
        return document

    @functools.cached_property
    def query(self) -> multidict.MultiDict[str, str]:
        """The query string's values; of a repeated one the last counts."""
        try:
            return self.request.GET
        except UnicodeDecodeError as error:
            raise faults.BadRequest("The query string is not UTF-8.") from error

    def checked_query(self, schema: validation.Schema) -> multidict.MultiDict[str, str]:
        """The query string's values, valid by ``schema``."""
        schema.check(dict(self.query), "Invalid query string parameters: ")
        return self.query

    def url(self, path: str) -> str:
        """The absolute URL of a path of this server."""
        return f"{self.request.application_url}{path}"


def _check_text(body: bytes, document: Any) -> None:
    """Raises ValueError for strings that are no text: halves of surrogate pairs."""
    if b"\\ud" in body or b"\\uD" in body:
        json.dumps(document, ensure_ascii=False).encode()


def answer(
    call: Call, payload: Any, status: int = 200, updated: Iterable[float] | None = None
) -> webob.Response:
    """JSON; from 1.15 with last-modified.

    That is the latest of ``updated``, now where none is given; an empty ``updated``
    gives no such header.
    """
    return answer_encoded(call, encode(payload), status, updated)


def answer_encoded(
    call: Call, body: bytes, status: int = 200, updated: Iterable[float] | None = None
) -> webob.Response:
    """The same for what is JSON already."""
    response = webob.Response(status=status, body=body, content_type=JSON, charset=None)
    stamp(call, response, updated)
    return response


def empty(call: Call, status: int = 204, path: str | None = None) -> webob.Response:
    """An answer without a body, with the location of ``path`` where one is given."""
    response = webob.Response(status=status)
    response.content_type = None
    if path is not None:
        response.location = call.url(path)
    return response


def stamp(call: Call, response: webob.Response, updated: Iterable[float] | None = None) -> None:
    """Set last-modified and cache-control, which exist from 1.15 on."""
    if not call.at_least(15):
        return
    latest = time.time() if updated is None else max(updated, default=None)
    if latest is not None:
        response.headers["last-modified"] = email.utils.formatdate(latest, usegmt=True)
    response.headers["cache-control"] = "no-cache"


def encode(payload: Any) -> bytes:
    """JSON as bytes; what the fast encoder cannot say goes to the standard library."""
    try:
        return orjson.dumps(payload)
    except TypeError:
        return json.dumps(payload).encode()
