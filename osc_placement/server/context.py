"""What a handler receives: one request with its version, identity and state."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import webob
from webob import multidict

from osc_placement import microversion
from osc_placement.server import auth, fragments, http_errors, limits, policy
from osc_placement.server.schemas import validation
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
    identity: auth.Identity
    repository: repository.Repository
    enforcer: policy.Enforcer
    params: Mapping[str, str]
    rule: str
    limits: limits.Limits
    fragments: fragments.Fragments
    error_fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    def at_least(self, minor: int) -> bool:
        """Whether the request's microversion is 1.``minor`` or later."""
        return self.version.minor >= minor

    def authorize(self, target: Mapping[str, Any] | None = None) -> None:
        """Raise Forbidden unless the policy allows this request on ``target``."""
        self.enforcer.authorize(self.rule, self.identity, target)

    def body(self, schema: validation.Schema) -> Any:
        """The request's JSON document; raises BadRequest unless it is valid by ``schema``."""
        body = self.request.body_file.read()
        if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
            raise http_errors.BadRequest(f"The document has more than {MAX_VALUES} values.")
        try:
            # Not json.loads(body): it accepts other encodings, and surrogates in UTF-8.
            document = json.loads(body.decode())
            _check_text(body, document)
        except (ValueError, RecursionError) as error:
            raise http_errors.BadRequest(f"Malformed JSON: {error}") from error
        schema.check(document, "JSON does not validate: ")
        return document

    @functools.cached_property
    def query(self) -> multidict.MultiDict[str, str]:
        """The parameters of the query string; the last value of a repeated one counts."""
        try:
            return self.request.GET
        except UnicodeDecodeError as error:
            raise http_errors.BadRequest(f"{http_errors.INVALID_QUERY}{error}") from error

    def checked_query(self, schema: validation.Schema) -> multidict.MultiDict[str, str]:
        """The query parameters; raises BadRequest unless they are valid by ``schema``."""
        schema.check(dict(self.query.items()), http_errors.INVALID_QUERY)
        return self.query

    def url(self, path: str) -> str:
        """The absolute URL of a path of this server."""
        return f"{self.request.application_url}{path}"


def _check_text(body: bytes, document: Any) -> None:
    """Raise ValueError for strings that contain an unpaired surrogate."""
    if b"\\ud" in body or b"\\uD" in body:
        json.dumps(document, ensure_ascii=False).encode()
