# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTP: their session, their limits, and what a failure says.

keystoneauth's own session follows every redirect with the token, and at a login with the password;
it reads a response of any size, for any time. requests reads proxies, netrc and the
certificates to trust from the environment at each request, and keeps ten connections, so that
further workers would open a connection for each request.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import keystoneauth1.adapter
import keystoneauth1.exceptions
import keystoneauth1.session
import requests
import requests.adapters
import urllib3
import urllib3.exceptions

from osc_placement import address, errors, microversion
from osc_placement.client import api_errors, failures, retry
from osc_placement.client.local import LocalPlacement
from osc_placement.model import json_text

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Connections to one server that stay open.
CONNECTIONS = 100

#: A whole response may take this many times the timeout of its parts; without a timeout, seconds.
WHOLE_RESPONSE = 5
WITHOUT_TIMEOUT = 300.0

#: The largest response, in bytes after decompression.
LARGEST_RESPONSE = 256 * 1024 * 1024

READS = frozenset({"GET", "HEAD", "OPTIONS"})

_REDIRECTS = frozenset({301, 302, 303, 305, 307, 308})
_CHUNK = 256 * 1024

Response = requests.Response

SERVICE_TYPE = "placement"

#: Seconds to wait for a connection, and by default for each part of a response.
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0

MAX_REDIRECTS = 5

#: The URL of the reference server; it is never resolved.
EMBEDDED_URL = "http://placement.embedded"

#: How often a request is sent that is refused with 429.
_REFUSALS = 20

_BEFORE_SENDING = (
    requests.exceptions.ConnectTimeout,
    requests.exceptions.SSLError,
    requests.exceptions.ProxyError,
    requests.exceptions.InvalidURL,
)


class _Reported(logging.Filter):
    """Drops what the error of a request says: the traceback of a damaged header, and a warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        is_reported = record.name.startswith("keystoneauth") and record.levelno >= logging.WARNING
        return not is_reported or LOG.isEnabledFor(logging.DEBUG)


for _name in ("urllib3.connection", "keystoneauth.discover"):
    logging.getLogger(_name).addFilter(_Reported())


class Identity(NamedTuple):
    """What a target is, for comparisons: the URL and region of a service, or a file."""

    url: str = ""
    region: str = ""
    file: str = ""

    @property
    def place(self) -> str:
        """The URL or the file."""
        return self.url or self.file

    def may_be(self, other: Identity) -> bool:
        """Whether both are the same service or file; a missing region is any region."""
        is_elsewhere = self.region and other.region and self.region != other.region
        return self.place == other.place and not is_elsewhere


class Target(str):
    """The operator's text for a target: the endpoint with the cloud's name, or the file.

    Only ``identity`` is compared: the name of a cloud is one operator's, and any text may be part
    of the name of a file.
    """

    identity: Identity

    @classmethod
    def service(cls, endpoint: str, name: str | None, region: str | None) -> Target:
        """A service; ``name`` is the operator's. Of the URL only what a person may see is kept."""
        url = address.shown(endpoint)
        target = cls(f"{url} ({name})" if name else url)
        target.identity = Identity(url=url.rstrip("/"), region=region or "")
        return target

    @classmethod
    def local(cls, file: str) -> Target:
        """A file, by its absolute path, or what names a database."""
        target = cls(file)
        target.identity = Identity(file=file)
        return target


def identity_of(target: str) -> Identity:
    """The identity of a target; a text without one is the name of a file."""
    return target.identity if isinstance(target, Target) else Identity(file=target)


class ParsedResponse(NamedTuple):
    """A successful response; ``body`` is the parsed JSON, None for an empty body.

    ``seconds``: from the request until the response began.
    """

    status: int
    headers: Mapping[str, str]
    body: Any
    method: str
    url: str
    seconds: float = 0.0


class Answers:
    """The answers of reads; within ``reading_once`` an equal read has the first answer.

    A final error is an answer too. ``repeats``: whether ``retry.read`` sends a read again before
    its error is final.
    """

    def __init__(self, *, repeats: bool = True) -> None:
        self._repeats = repeats
        self._answers: dict[object, Any] | None = None

    @contextlib.contextmanager
    def reading_once(self) -> Iterator[None]:
        """Within the outermost block, no read is sent again after its answer or its last error."""
        outer = self._answers
        self._answers = {} if outer is None else outer
        try:
            yield
        finally:
            self._answers = outer

    def of(self, key: object, send: Callable[[], T]) -> T:
        """The answer to a read, or its error: an earlier one, or that of ``send``."""
        if self._answers is None:
            return send()
        answers = self._answers
        answer = answers.get(key)
        if isinstance(answer, errors.PlacementError) and answer.is_final:
            # Its traceback would keep the variables of every reader.
            raise answer.with_traceback(None)
        if key not in answers or isinstance(answer, errors.PlacementError):
            try:
                answers[key] = send()
            except errors.PlacementError as error:
                error.is_final = error.is_final or not self._repeats
                answers[key] = error
                raise
        result: T = answers[key]
        return result


class Transport:
    """Sends requests with a microversion and turns every failure into a PlacementError.

    ``place`` is the operator's name of the target ("cloud prod, region RegionOne", or a
    file). Safe to use from several threads.
    """

    def __init__(
        self,
        adapter: keystoneauth1.adapter.Adapter,
        place: str | None = None,
        timeout: float = READ_TIMEOUT,
        local: Callable[[], LocalPlacement | None] = lambda: None,
    ) -> None:
        self._adapter = adapter
        #: The Placement in this process that answers the requests; None for a service.
        self.local = local
        self._place = place
        self._timeout = timeout
        # A report names the target also when the token can no longer be renewed.
        self._target: Target | None = None
        self.answers = Answers()
        #: Whether a write was sent.
        self.has_written = False
        self.pace = retry.Pace()
        self._range: tuple[microversion.Microversion, microversion.Microversion] | None = None
        self._lock = threading.Lock()

    @property
    def target(self) -> Target:
        """The endpoint with the cloud's name, or the file. Authenticates the first time.

        Errors: PlacementError for an address that is no endpoint.
        """
        if self._target is None:
            self._target = self._find_target()
        return self._target

    def _find_target(self) -> Target:
        if self._adapter.endpoint_override == EMBEDDED_URL:
            return Target.local(self._place or EMBEDDED_URL)
        endpoint = self._adapter.get_endpoint()
        fault = address.fault_of_endpoint(str(endpoint)) if endpoint else ""
        if fault:
            raise errors.PlacementError(fault)
        return Target.service(
            str(endpoint or "no endpoint"), self._place, self._adapter.region_name
        )

    def at(self, endpoint: str) -> Transport:
        """A transport to another Placement, over the same session. Sends nothing."""
        return over_session(self._adapter.session, endpoint=endpoint, timeout=self._timeout)

    def versions(self) -> tuple[microversion.Microversion, microversion.Microversion]:
        """``(lowest, highest)`` microversion of the server. Requests: one GET, the first time."""
        with self._lock:
            if self._range is None:
                self._range = retry.read(lambda: _version_range(self.send("GET", "/")))
            return self._range

    def send(
        self,
        method: str,
        url: str,
        *,
        version: microversion.Microversion | None = None,
        body: Any = None,
    ) -> ParsedResponse:
        """Send one request. Errors: ConnectionFailed; OutcomeUnknown; other ApiErrors."""

        def parsed() -> ParsedResponse:
            response = self.request(method, url, version=version, body=body)
            check(response, method, url)
            content = _json_of(response, method, url)
            seconds = response.elapsed.total_seconds()
            return ParsedResponse(
                response.status_code, response.headers, content, method, url, seconds
            )

        return self.answers.of((url, version), parsed) if method == "GET" else parsed()

    def request(
        self,
        method: str,
        url: str,
        *,
        version: microversion.Microversion | str | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> requests.Response:
        """Send one request and return the response, errors included.

        ``options`` are passed to keystoneauth's session. When the connection breaks, a read
        is repeated once; a write is never repeated. A redirect is followed for a read and
        within the same origin only, by ``session``.
        Errors: ConnectionFailed, TimedOut; OutcomeUnknown for a write; Redirected.
        """
        sent = {"Accept": "application/json", **(headers or {})}
        if version is not None:
            sent["OpenStack-API-Version"] = f"placement {version}"
        if body is not None:
            options["json"] = body
        self.has_written = self.has_written or method not in READS
        options |= {
            "raise_exc": False,
            "redirect": MAX_REDIRECTS if is_prepared(self._adapter.session) else False,
            "timeout": (CONNECT_TIMEOUT, self._timeout),
        }
        response = self._at_pace(method, url, headers=sent, **options)
        if 300 <= response.status_code < 400:
            target = response.headers.get("location", "an unknown place")
            raise api_errors.Redirected(response.status_code, target, method=method, url=url)
        LOG.debug(
            "%s %s (%s): HTTP %s, %s",
            method,
            url,
            version or "no microversion",
            response.status_code,
            api_errors.request_id_of(response) or "no request id",
        )
        return response

    def _at_pace(self, method: str, url: str, **options: Any) -> requests.Response:
        """Send a request when it is its turn, and again after 429: it was not carried out.

        A limit of the rate is given ``retry.LIMIT`` seconds.
        """
        end = time.monotonic() + retry.LIMIT
        for pause in retry.backoff(_REFUSALS):
            with self.pace.turn():
                response = self._send_once_or_twice(method, url, **options)
            if response.status_code not in retry.OVERLOADED:
                self.pace.answered()
                return response
            self.pace.refused(max(pause, min(retry_after(response), retry.MAX_RETRY_AFTER)))
            if response.status_code != retry.TOO_MANY or time.monotonic() > end:
                return response
        return response

    def _send_once_or_twice(self, method: str, url: str, **options: Any) -> requests.Response:
        try:
            return self._send_authenticated(method, url, **options)
        except api_errors.ConnectionFailed:
            # Of a login: it says why, and nothing was sent.
            raise
        except keystoneauth1.exceptions.ClientException as error:
            # A kept-alive connection that the server has closed fails like this.
            is_final = is_timeout(error) or is_too_large(error) or not was_sent(error)
            if method not in READS or is_final:
                raise self._failure(error, method, url) from error
            LOG.debug("%s %s: repeated, the connection broke: %s", method, url, error)
            try:
                return self._send_authenticated(method, url, **options)
            except keystoneauth1.exceptions.ClientException as again:
                raise self._failure(again, method, url) from again

    def _send_authenticated(self, method: str, url: str, **options: Any) -> requests.Response:
        """Send a request, and again if its token has expired and another thread renews it.

        keystoneauth renews a token in one of the threads that receive a 401, and returns the 401
        in the others. A request with an expired token was not carried out.
        Errors: those of ``target``, before anything is sent.
        """
        _ = self.target
        response = self._adapter.request(url, method, **options)
        if response.status_code != 401:
            return response
        sent = response.request.headers.get("X-Auth-Token")
        if sent is None or self._adapter.get_token() == sent:
            return response
        return self._adapter.request(url, method, **options)

    def _failure(
        self, error: keystoneauth1.exceptions.ClientException, method: str, url: str
    ) -> errors.PlacementError:
        if isinstance(error, keystoneauth1.exceptions.Unauthorized):
            # Not ConnectionFailed: retries could lock the account.
            return api_errors.Unauthorized(401, refused_login(error), method=method, url=url)
        if not isinstance(error, keystoneauth1.exceptions.ConnectionError):
            return api_errors.ConnectionFailed(address.in_message(str(error)))
        reason = self._slow(error) if is_timeout(error) else failures.text_of(error)
        if method not in READS and was_sent(error):
            return api_errors.OutcomeUnknown(
                0,
                f"{method} {url}: the connection broke before the response: {reason}",
                method=method,
                url=url,
            )
        if is_timeout(error):
            return api_errors.TimedOut(f"{method} {url}: {reason}")
        if is_too_large(error):
            return api_errors.TooLarge(f"{method} {url}: {reason}")
        if was_sent(error):
            return api_errors.ConnectionFailed(f"{method} {url}: the connection broke: {reason}")
        return api_errors.ConnectionFailed(f"Cannot reach Placement: {reason}")

    def _slow(self, error: BaseException) -> str:
        if not was_sent(error):
            return f"no connection within {CONNECT_TIMEOUT:g} s"
        if any(isinstance(cause, TooSlow) for cause in failures.causes_of(error)):
            limit = WHOLE_RESPONSE * self._timeout
            return (
                f"no complete response within {limit:g} s, {WHOLE_RESPONSE} times"
                " --os-placement-timeout"
            )
        return f"no response within {self._timeout:g} s (--os-placement-timeout)"

    def close(self) -> None:
        """Close connections and, in process, the database; the next request reopens them."""
        session = self._adapter.session
        if isinstance(session, keystoneauth1.session.Session):
            session.session.close()


def over_session(
    session: keystoneauth1.session.Session,
    *,
    region: str | None = None,
    interface: str | None = None,
    endpoint: str | None = None,
    place: str | None = None,
    timeout: float = READ_TIMEOUT,
) -> Transport:
    """A transport to the placement service in the catalog of an authenticated session.

    ``endpoint`` overrides the catalog. ``timeout``: seconds to wait for each part of a
    response. The session is prepared for many requests to one server.
    """
    prepare(session)
    return Transport(
        keystoneauth1.adapter.Adapter(
            session,
            service_type=SERVICE_TYPE,
            region_name=region,
            interface=interface,
            endpoint_override=endpoint,
        ),
        place,
        timeout,
    )


def _version_range(
    response: ParsedResponse,
) -> tuple[microversion.Microversion, microversion.Microversion]:
    try:
        document = response.body["versions"][0]
        return (
            microversion.Microversion.parse(document["min_version"]),
            microversion.Microversion.parse(document["max_version"]),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise api_errors.UnexpectedResponse(
            response.status,
            f"{response.url}: the response is not Placement's version document",
            method=response.method,
            url=response.url,
        ) from error


def _json_of(response: requests.Response, method: str, url: str) -> Any:
    if not response.content:
        return None
    try:
        return json_text.parse(response.content)
    except ValueError as error:
        raise api_errors.UnexpectedResponse(
            response.status_code,
            f"{method} {url}: {not_placement_hint(response.url, response.content)}"
            f"the response is not JSON but: {first_line(response.text)}",
            request_id=api_errors.request_id_of(response),
            method=method,
            url=url,
        ) from error


def check(response: requests.Response, method: str, url: str) -> None:
    """Raise the ApiError for a status of 400 or more."""
    if response.status_code >= 400:
        raise _refusal(response, method, url)


def _refusal(response: requests.Response, method: str, url: str) -> api_errors.ApiError:
    document = _error_document(response)
    if document is None:
        text = first_line(response.text) or response.reason or "an empty response"
        foreign = not_placement_hint(response.url, response.content)
        if response.status_code >= 500:
            # A proxy in front of Placement answers with a page of its own when Placement is down.
            foreign = f"{address.server_of(response.url)} answers: "
        document = {"detail": f"{method} {url}: {foreign}{text}"}
        if is_foreign_404(response):
            return api_errors.UnexpectedResponse(404, document["detail"], method=method, url=url)
    elif response.status_code >= 500 or response.status_code in retry.OVERLOADED:
        document = {**document, "detail": f"{method} {url}: {document['detail']}"}
    refusal = api_errors.from_status(
        response.status_code,
        str(document["detail"]).strip(),
        error_code=document.get("code"),
        request_id=document.get("request_id") or api_errors.request_id_of(response),
        retry_after=retry_after(response),
        method=method,
        url=url,
    )
    refusal.is_final = response.status_code == retry.TOO_MANY
    return refusal


def is_foreign_404(response: Any) -> bool:
    """Whether a 404 without JSON is of something before the service: no object is gone for it."""
    return response.status_code == 404 and not response.content.lstrip().startswith(b"{")


def retry_after(response: Any) -> float:
    """The seconds of the header Retry-After; 0 without the header, and for a date."""
    value = (getattr(response, "headers", None) or {}).get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0


def _error_document(response: requests.Response) -> dict[str, Any] | None:
    """The error object of Placement's JSON, None for any other body.

    keystonemiddleware refuses tokens before Placement with ``{"error": {"message": ...}}``.
    """
    try:
        body = json_text.parse(response.content)
        document = {"detail": body["error"]["message"]} if "error" in body else body["errors"][0]
    except (ValueError, LookupError, TypeError):
        return None
    return document if isinstance(document, dict) and "detail" in document else None


def is_timeout(error: BaseException) -> bool:
    """Whether keystoneauth's error comes from a timeout of requests."""
    return isinstance(error.__context__, requests.exceptions.Timeout)


def is_too_large(error: BaseException) -> bool:
    """Whether keystoneauth's error comes from a response that is too large."""
    return isinstance(error.__context__, ResponseTooLarge)


def was_sent(error: BaseException) -> bool:
    """Whether the request may have reached a server, by the cause of the error."""
    if not isinstance(error, keystoneauth1.exceptions.ConnectionError):
        return False
    if isinstance(error.__context__, _BEFORE_SENDING):
        return False
    # urllib3's reason is in one of the causes.
    reasons = (getattr(cause, "reason", None) for cause in failures.causes_of(error))
    return not isinstance(
        next((reason for reason in reasons if isinstance(reason, Exception)), None),
        (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError),
    )


class TooSlow(requests.exceptions.ReadTimeout):
    """A response was not complete in time."""


class ResponseTooLarge(requests.exceptions.RequestException):
    """A response is larger than LARGEST_RESPONSE."""


class Session(requests.Session):
    """A session with the settings, adapters and cookies of another one."""

    def __init__(self, other: requests.Session) -> None:
        super().__init__()
        for name in self.__attrs__:
            setattr(self, name, getattr(other, name))
        self._settings: dict[object, Mapping[str, Any]] = {}

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Complete a request. Errors: PlacementError for an address that is not valid."""
        # The errors of the libraries show it as it is.
        fault = address.fault(str(request.url))
        if fault:
            raise errors.PlacementError(fault)
        try:
            return super().prepare_request(request)
        except requests.exceptions.InvalidURL:
            fault = f"{address.shown(str(request.url))} is not a valid address"
            raise errors.PlacementError(fault) from None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request; read its response, within the limits of time and size.

        Errors: those of requests; TooLarge; Redirected, for a redirect that would send the token
        or a change elsewhere; ConnectionFailed, for a login that keystone does not answer.
        """
        streams, begin = options.get("stream"), time.monotonic()
        try:
            response = super().send(request, **{**options, "stream": True})
            if response.status_code < http.HTTPStatus.OK:
                # The connection now has another protocol.
                response.close()
                raise ValueError(f"the server answers with HTTP {response.status_code}")
            if not streams:
                _read(response, begin + _whole(options.get("timeout")))
        except requests.exceptions.InvalidURL:
            # That of the request was checked before.
            text = "the address of its proxy (http_proxy, https_proxy) is not valid"
            raise requests.exceptions.InvalidURL(text) from None
        except requests.exceptions.RequestException as error:
            # keystoneauth puts its text into the message of every failed request and login.
            raise _explained(error, request) from error
        except (ValueError, http.client.HTTPException) as error:
            # http.client raises them for a damaged head or chunk.
            failed = requests.exceptions.ConnectionError(error, request=request)
            raise _explained(failed, request) from error
        _check_redirect(request, response)
        _check_login(request, response)
        return response

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: keystoneauth follows the redirects that ``send`` accepts."""

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        """The settings of a request as a dictionary; they do not change within a process."""
        parts = urllib.parse.urlsplit(url)
        key = parts.scheme, parts.netloc, tuple((proxies or {}).items()), stream, verify, cert
        if key not in self._settings:
            self._settings[key] = super().merge_environment_settings(
                url, proxies, stream, verify, cert
            )
        return dict(self._settings[key])


def prepare(session: keystoneauth1.session.Session) -> None:
    """Prepare keystoneauth's own session; sessions and adapters of other classes stay."""
    if type(session.session) is not requests.Session:
        return
    for prefix, adapter in list(session.session.adapters.items()):
        if type(adapter) is keystoneauth1.session.TCPKeepAliveAdapter:
            adapter = keystoneauth1.session.TCPKeepAliveAdapter(pool_maxsize=CONNECTIONS)
            session.session.mount(prefix, adapter)
    session.session = Session(session.session)


def is_prepared(session: Any) -> bool:
    """Whether the redirects and responses of keystoneauth's session are checked."""
    return isinstance(getattr(session, "session", None), Session)


def _explained(
    error: requests.exceptions.RequestException, request: requests.PreparedRequest
) -> requests.exceptions.RequestException:
    """An error of the same class with a text for an operator."""
    error.request = error.request or request
    return type(error)(failures.text_of(error), request=request)


def _whole(timeout: Any) -> float:
    """The seconds for a whole response: of requests' ``timeout``, a number or (connect, read)."""
    read = timeout[1] if isinstance(timeout, tuple) else timeout
    return WHOLE_RESPONSE * read if isinstance(read, int | float) else WITHOUT_TIMEOUT


def _read(response: requests.Response, end: float) -> None:
    """Read the body until ``end``, a time of the monotonic clock, and not more than the limit.

    Errors: those of requests; TooSlow, ResponseTooLarge.
    """
    parts, size = [], 0
    try:
        while part := response.raw.read1(_CHUNK, decode_content=True):
            size += len(part)
            if size > LARGEST_RESPONSE:
                response.close()
                raise ResponseTooLarge(
                    f"the response is larger than {LARGEST_RESPONSE // 1024**2} MiB", response=None
                )
            parts.append(part)
            if time.monotonic() > end:
                response.close()
                raise TooSlow("the response is not complete")
    except urllib3.exceptions.ReadTimeoutError as error:
        raise requests.exceptions.ReadTimeout(error, request=response.request) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        if isinstance(error, requests.exceptions.RequestException):
            raise
        raise requests.exceptions.ConnectionError(error, request=response.request) from error
    # requests has no other way to keep a body that was read in parts.
    response._content = b"".join(parts)


def _check_redirect(request: requests.PreparedRequest, response: requests.Response) -> None:
    """Make the target of a redirect absolute. Errors: Redirected, if it must not be followed.

    A write is never followed, and a read within scheme, host and port. A login, and what is read
    before it, also from http to https of the same host: keystone is often behind such a redirect.
    """
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or location is None:
        return
    url, method = str(request.url), str(request.method)
    if _is_login(request) or method in READS:
        # Of an address that is not valid.
        with contextlib.suppress(ValueError):
            target = urllib.parse.urljoin(url, location)
            here, there = _origin(url), _origin(target)
            is_upgrade = (here[0], there[0]) == ("http", "https") and here[1] == there[1]
            if here == there or (is_upgrade and not _has_token(request)):
                response.headers["location"] = target
                return
    raise api_errors.Redirected(response.status_code, location, method=method, url=url)


def _has_token(request: requests.PreparedRequest) -> bool:
    return "X-Auth-Token" in request.headers or "Authorization" in request.headers


def _is_login(request: requests.PreparedRequest) -> bool:
    path = urllib.parse.urlsplit(str(request.url)).path
    return path.endswith("/tokens") and not _has_token(request)


def _check_login(request: requests.PreparedRequest, response: requests.Response) -> None:
    """Name keystone in an error of a login, which would look like one of the service.

    A wrong password (401) stays keystoneauth's own error. Errors: ConnectionFailed.
    """
    status = response.status_code
    if status < 400 or status == 401 or not _is_login(request):
        return
    document = _error_document(response) or {"detail": response.reason}
    request_id = api_errors.request_id_of(response)
    raise api_errors.ConnectionFailed(
        f"keystone at {address.server_of(str(request.url))} fails at the login:"
        f" {document['detail']} (HTTP {status})"
        f"{f' (Request-ID: {request_id})' if request_id else ''}: check keystone and its log"
    )


def refused_login(error: keystoneauth1.exceptions.Unauthorized) -> str:
    """Why keystone refuses a login, without the status."""
    reason = address.in_message(str(error.message)).replace(" (HTTP 401)", "")
    return f"keystone refuses the login: {reason}"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port. Errors: ValueError for an invalid host or port."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


_TAG = re.compile(r"<[^>]*>")


def not_placement_hint(url: str, content: bytes) -> str:
    """For an HTML page, the beginning of a message that names the endpoint; otherwise empty."""
    if not content.lstrip().startswith(b"<"):
        return ""
    return f"{address.server_of(url)} answers with an HTML page and is not Placement; "


def first_line(text: str) -> str:
    """The first line with text outside HTML tags."""
    lines = (_TAG.sub(" ", line).strip() for line in text.splitlines())
    return next((line for line in lines if line), "")[:200]
