# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: from the environ to a handler, and from an error to a response.

Clients can observe the order of the checks: token, microversion, path, method, size and media
types, policy, then what the handler reads.
"""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import microversion_parse
import webob
from webob import acceptparse, exc

from osc_placement import microversion
from osc_placement.engine import errors, record
from osc_placement.errors import needs_extra
from osc_placement.server import auth, context, http_errors, policy, routes
from osc_placement.server.auth import AuthConfigInvalid
from osc_placement.server.store import document, repository, sqlite
from osc_placement.server.store.errors import StoreError

LOG = logging.getLogger(__name__)

SERVICE_TYPE = "placement"
_VERSIONS = [f"1.{minor}" for minor in range(microversion.MAXIMUM.minor + 1)]

#: Authentication strategies.
NOAUTH2 = "noauth2"
KEYSTONE = "keystone"
STRATEGIES = (NOAUTH2, KEYSTONE)


class App:
    """The Placement API over a repository.

    ``database``, ``tables`` and ``users`` are empty: they are those of openstack-placement in
    process (``client.local``).
    """

    database = ""
    tables = None
    users: Sequence[str] = ()

    def __init__(
        self,
        state: repository.Repository,
        allows: policy.Policy | None = None,
        cors_allowed_origins: Sequence[str] = (),
        config_file: str | None = None,
        request_limits: context.Limits | None = None,
        saved_cloud: sqlite.StoredCloud | None = None,
    ) -> None:
        self.repository = state
        #: The snapshot in the database file; None for a state that was not saved from a cloud.
        self.saved_cloud = saved_cloud
        self.limits = request_limits or context.Limits()
        self._authenticate = auth.keystone if config_file else auth.noauth2
        self._allows = allows or policy.defaults()
        self._wsgi: Callable[[dict[str, Any], Any], Iterable[bytes]] = self._handle
        if config_file:
            self._wsgi = auth.keystone_middleware(self._handle, config_file)
        if cors_allowed_origins:
            self._wsgi = _with_cors(self._wsgi, cors_allowed_origins)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        # The versions are known without any record.
        if environ.get("PATH_INFO") != "/":
            self.repository.open()
        return self._wsgi(environ, start_response)

    def _handle(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        response = self.respond(webob.Request(environ))
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug(
                "%s %s %s?%s: %s",
                response.headers["x-openstack-request-id"],
                environ["REQUEST_METHOD"],
                environ.get("PATH_INFO"),
                environ.get("QUERY_STRING"),
                response.status_int,
            )
        body: Iterable[bytes] = response(environ, start_response)
        return body

    def load_for_writing(self) -> str:
        """Nothing to add: a state has all standard names. No note."""
        return ""

    def close(self) -> None:
        """Close the store."""
        self.repository.close()

    def export(self) -> dict[str, Any]:
        """The whole state as a document that ``load`` accepts."""
        with self.repository.read() as state:
            return document.dump_document(state)

    def respond(self, request: webob.Request) -> webob.Response:
        """The response to one request; never raises."""
        environ = request.environ
        request_id = f"req-{uuid.uuid4()}"
        identity = self._authenticate(environ)
        if identity is None and environ.get("PATH_INFO") != "/":
            return _finish(_unauthorized(request), request_id, None)
        version = None
        try:
            version = _parse_version(environ.get("HTTP_OPENSTACK_API_VERSION"))
            response = self._answer(request, version, identity)
        except Exception as error:  # noqa: BLE001 - one request must not end the server
            # A traceback would keep all that the request has read until a garbage collection.
            http_error = _http_error(error, request_id).with_traceback(None)
            response = http_errors.response(http_error, environ, request_id, version)
            return _finish(response, request_id, version, http_error.varies)
        return _finish(response, request_id, version)

    def _answer(
        self,
        request: webob.Request,
        version: microversion.Microversion,
        identity: auth.RequestIdentity | None,
    ) -> webob.Response:
        _check_content_type(request)
        route, params = _route(request)
        _check_request(request, route, version)
        request_context = context.RequestContext(
            request=request,
            version=version,
            identity=identity or auth.RequestIdentity(None, None),
            repository=self.repository,
            allows=self._allows,
            params=params,
            rule=route.rule,
            limits=self.limits,
        )
        if route.rule and not route.authorizes_itself:
            request_context.authorize()
        try:
            return route.handler(request_context)
        except errors.EngineError as error:
            fields = {**params, **request_context.error_fields}
            raise http_errors.from_engine(error, route.operation, fields) from error


def create_app(
    database: str | None = None,
    *,
    auth: str = NOAUTH2,
    config_file: str | None = None,
    policy_file: str | None = None,
    legacy_rbac: bool = False,
    first_generation: int = 0,
    cors_allowed_origins: Sequence[str] = (),
    load: Any = None,
    request_limits: context.Limits | None = None,
    lazily: bool = False,
) -> App:
    """A Placement on the SQLite file ``database``, or in memory if it is None.

    ``load`` is a state document (see ``store.document``) for an empty Placement. With ``auth``
    noauth2 a token names its user; with keystone, a keystone validates it (section
    ``[keystone_authtoken]`` of ``config_file``). Roles default to secure RBAC as in Placement;
    ``legacy_rbac`` lets admin do everything. Providers and consumers start at ``first_generation``.
    ``cors_allowed_origins`` are the origins that browsers may send requests from.
    ``request_limits`` are the limits of requests for allocation candidates. ``lazily``: the records
    of the database are read at the first request, which then raises StoreError for a damaged one.

    Raises StoreError for an unusable database or document, AuthConfigInvalid for ``config_file``,
    PolicyFileInvalid for ``policy_file``.
    """
    if auth not in STRATEGIES or (auth == KEYSTONE) != (config_file is not None):
        raise AuthConfigInvalid(
            f"authentication {auth} {'with' if config_file else 'without'} a config file: use"
            f" {NOAUTH2} without one, or {KEYSTONE} with one"
        )
    changes = document.load_document(load) if load is not None else record.Changes()
    if policy_file is None:
        allows = policy.defaults(legacy_rbac)
    else:
        allows = policy.from_file(policy_file, routes.RULES, legacy_rbac)
    store = None if database is None else sqlite.SqliteStore(database)
    saved_cloud = None if store is None else store.saved_cloud
    try:
        state = repository.Repository(store, first_generation, lazily=lazily)
        if changes:
            state.load(changes)
        return App(state, allows, cors_allowed_origins, config_file, request_limits, saved_cloud)
    except BaseException:
        if store is not None:
            store.close()
        raise


def _with_cors(app: auth.Wsgi, allowed_origins: Sequence[str]) -> auth.Wsgi:
    """The application with CORS headers for the allowed origins, by oslo.middleware."""
    with needs_extra("server", "--cors-allowed-origin"):
        from oslo_middleware import cors
    options = {"allowed_origin": list(allowed_origins), "allow_headers": ["openstack-api-version"]}
    return cors.CORS(app, options)


def _http_error(error: Exception, request_id: str) -> http_errors.HttpError:
    if isinstance(error, http_errors.HttpError):
        return error
    if isinstance(error, StoreError):
        LOG.error("%s: %s", request_id, error)
        return http_errors.HttpError(503, str(error))
    LOG.error("%s: unexpected failure", request_id, exc_info=error)
    return http_errors.HttpError(500, "The server failed unexpectedly; its log has more.")


@functools.lru_cache(maxsize=256)
def _parse_version(header: str | None) -> microversion.Microversion:
    headers = {} if header is None else {"openstack-api-version": header}
    try:
        version = microversion_parse.extract_version(headers, SERVICE_TYPE, _VERSIONS)
    except ValueError as error:
        supported = {
            "max_version": str(microversion.MAXIMUM),
            "min_version": str(microversion.MINIMUM),
        }
        raise http_errors.HttpError(
            406, f"Invalid microversion: {error}", more=supported
        ) from error
    except TypeError as error:
        raise http_errors.HttpBadRequest(f"Invalid microversion: {error}") from error
    return microversion.Microversion(version.major, version.minor)


def _route(request: webob.Request) -> tuple[routes.Route, Mapping[str, str]]:
    matched = routes.match(_decoded(request.environ.get("PATH_INFO", "")))
    if matched is None:
        raise http_errors.HttpError(404, varies=False)
    methods, params = matched
    if request.method not in methods:
        raise http_errors.HttpError(
            405,
            "The method specified is not allowed for this resource.",
            headers={"allow": ", ".join(methods)},
        )
    return methods[request.method], params


def _decoded(path: str) -> str:
    """A path of WSGI, which has one character per byte; not decoded if it is not UTF-8."""
    try:
        return path.encode("latin-1").decode()
    except UnicodeError:
        return path


def _check_request(
    request: webob.Request, route: routes.Route, version: microversion.Microversion
) -> None:
    """Every check that does not need the content of the request."""
    if route.media_types_first:
        _check_media_types(request, route, version)
    if version.minor < route.since:
        raise http_errors.HttpError(405 if route.hidden_as_method else 404)
    _check_media_types(request, route, version)


def _check_content_type(request: webob.Request) -> None:
    if _content_length(request) and not request.environ.get("CONTENT_TYPE"):
        raise http_errors.HttpError(
            400, "content-type header required when content-length > 0", varies=False
        )


def _content_length(request: webob.Request) -> int:
    text = request.environ.get("CONTENT_LENGTH") or "0"
    # int() alone accepts a sign, blanks and underscores; a number of any size is not needed.
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise http_errors.HttpBadRequest("content-length header must be an integer")
    return int(text)


def _check_media_types(
    request: webob.Request, route: routes.Route, version: microversion.Microversion
) -> None:
    """Raise for a body that is not declared as JSON, and for a client that does not accept JSON."""
    has_body = request.method in ("POST", "PUT")
    if has_body and (route.body_below is None or version.minor < route.body_below):
        media_type = request.content_type or None
        if media_type != context.JSON:
            raise http_errors.HttpError(
                415, f"The media type {media_type} is not supported, use {context.JSON}"
            )
    if request.method != "GET" or route.any_accept:
        return
    accepted = request.environ.get("HTTP_ACCEPT")
    if accepted and not _accepts_json(accepted):
        raise http_errors.HttpError(406, "Only application/json is provided")


@functools.lru_cache(maxsize=256)
def _accepts_json(header: str) -> bool:
    """Whether an accept header allows JSON; parsing it takes longer than to read a record."""
    return bool(acceptparse.create_accept_header(header).acceptable_offers([context.JSON]))


def _unauthorized(request: webob.Request) -> webob.Response:
    if request.environ.get("HTTP_ACCEPT") in http_errors.ANY_MEDIA_TYPE:
        request = webob.Request({**request.environ, "HTTP_ACCEPT": context.JSON})
    return request.get_response(exc.HTTPUnauthorized())


def _finish(
    response: webob.Response,
    request_id: str,
    version: microversion.Microversion | None,
    varies: bool = True,
) -> webob.Response:
    """Add the headers that every response has."""
    headers = response.headerlist
    headers.append(("x-openstack-request-id", request_id))
    if version is not None:
        headers.append(("openstack-api-version", f"{SERVICE_TYPE} {version}"))
        if varies:
            headers.append(("vary", "openstack-api-version"))
    return response
