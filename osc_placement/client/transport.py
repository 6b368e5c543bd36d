"""How a request reaches Placement: keystoneauth's session, or a WSGI callable in this process.

The only module that knows keystoneauth and requests. ``api.Client`` is its only caller.
"""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import keystoneauth1.adapter
import keystoneauth1.exceptions
import keystoneauth1.session
import requests
import requests.adapters
import urllib3.exceptions

from osc_placement import errors, microversion
from osc_placement.client import api_errors

Response = requests.Response

SERVICE_TYPE = "placement"

#: Where the embedded server stands; no name is ever looked up for it.
EMBEDDED_URL = "http://placement.embedded"

#: The embedded server's identity: whoever may open the file may do everything.
_EMBEDDED_TOKEN = "admin"  # noqa: S105
_EMBEDDED_HEADERS = {"x-roles": "admin,service"}

_TAG = re.compile(r"<[^>]*>")

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class WsgiApp(Protocol):
    """A WSGI callable that holds a resource until it is closed."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any: ...

    def close(self) -> None: ...


class Answer(NamedTuple):
    """A successful HTTP answer; ``body`` is the parsed JSON, None where there is none."""

    status: int
    headers: Mapping[str, str]
    body: Any
    method: str
    url: str


class Transport:
    """Sends requests with a microversion and turns every failure into a PlacementError.

    ``place`` is what an operator calls the other side ("cloud prod, region RegionOne", or
    a file); without it the endpoint is named. Usable from many threads.
    """

    def __init__(self, adapter: keystoneauth1.adapter.Adapter, place: str | None = None) -> None:
        self._adapter = adapter
        self._place = place
        self._range: tuple[microversion.Microversion, microversion.Microversion] | None = None
        self._lock = threading.Lock()

    @property
    def target(self) -> str:
        """What it talks to: the endpoint with the cloud's name, or the file."""
        if self._adapter.endpoint_override == EMBEDDED_URL:
            return self._place or EMBEDDED_URL
        endpoint = self._adapter.get_endpoint() or "no endpoint"
        return f"{endpoint} ({self._place})" if self._place else str(endpoint)

    def versions(self) -> tuple[microversion.Microversion, microversion.Microversion]:
        """``(lowest, highest)`` microversion of the server. One GET the first time."""
        with self._lock:
            if self._range is None:
                self._range = _version_range(self.send("GET", "/"))
            return self._range

    def send(
        self,
        method: str,
        url: str,
        *,
        version: microversion.Microversion | None = None,
        body: Any = None,
    ) -> Answer:
        """Send one request. Errors: ConnectionFailed, OutcomeUnknown, ApiError and below."""
        response = self.request(method, url, version=version, body=body)
        check(response, method, url)
        return Answer(
            response.status_code, response.headers, _json_of(response, method, url), method, url
        )

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
        """Send one request and hand back whatever was answered, errors included.

        ``options`` go to keystoneauth's session. A read is sent again once when the
        connection breaks; a write never is.
        """
        sent = {"Accept": "application/json", **(headers or {})}
        if version is not None:
            sent["OpenStack-API-Version"] = f"placement {version}"
        if body is not None:
            options["json"] = body
        options["raise_exc"] = False
        try:
            return self._adapter.request(url, method, headers=sent, **options)
        except keystoneauth1.exceptions.ClientException as error:
            # A kept connection that the server has closed in the meantime looks like this.
            if method not in _READS or not was_sent(error):
                raise _failure(error, method, url) from error
        try:
            return self._adapter.request(url, method, headers=sent, **options)
        except keystoneauth1.exceptions.ClientException as error:
            raise _failure(error, method, url) from error

    def close(self) -> None:
        """Let go of connections and, when embedded, of the database; a later request opens anew."""
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
) -> Transport:
    """A transport to the placement service that an authenticated session's catalog names.

    ``endpoint`` overrides the catalog.
    """
    return Transport(
        keystoneauth1.adapter.Adapter(
            session,
            service_type=SERVICE_TYPE,
            region_name=region,
            interface=interface,
            endpoint_override=endpoint,
        ),
        place,
    )


def in_process(open_app: Callable[[], WsgiApp], place: str) -> Transport:
    """A transport to a WSGI callable in this process, opened at the first request."""
    import keystoneauth1.token_endpoint

    http = requests.Session()
    http.trust_env = False
    http.mount(EMBEDDED_URL, WsgiAdapter(open_app))
    session = keystoneauth1.session.Session(
        session=http,
        auth=keystoneauth1.token_endpoint.Token(EMBEDDED_URL, _EMBEDDED_TOKEN),
        additional_headers=dict(_EMBEDDED_HEADERS),
    )
    adapter = keystoneauth1.adapter.Adapter(session, endpoint_override=EMBEDDED_URL)
    return Transport(adapter, place)


class WsgiAdapter(requests.adapters.BaseAdapter):
    """Carries requests' requests to a WSGI callable, with no socket between."""

    def __init__(self, open_app: Callable[[], WsgiApp]) -> None:
        super().__init__()
        self._open_app = open_app
        self._app: WsgiApp | None = None
        self._lock = threading.Lock()

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Call the application and collect its answer."""
        head: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            head.update(status=status, headers=headers)

        parts = self._open()(_environ(request), start_response)
        try:
            content = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
        return _response(request, head["status"], head["headers"], content)

    def close(self) -> None:
        """Close the application, if one was opened."""
        with self._lock:
            app, self._app = self._app, None
        if app is not None:
            app.close()

    def _open(self) -> WsgiApp:
        with self._lock:
            if self._app is None:
                self._app = self._open_app()
            return self._app


def _environ(request: requests.PreparedRequest) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(request.url or "")
    body = request.body or b""
    content = body.encode() if isinstance(body, str) else bytes(body)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": urllib.parse.unquote_to_bytes(parts.path or "/").decode("latin-1"),
        "QUERY_STRING": parts.query,
        "SERVER_NAME": parts.hostname,
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": io.BytesIO(content),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    environ.update(_header_variables(request.headers.items()))
    return environ


def _header_variables(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    variables = {}
    for name, value in headers:
        variable = name.upper().replace("-", "_")
        prefix = "" if variable in {"CONTENT_TYPE", "CONTENT_LENGTH"} else "HTTP_"
        variables[prefix + variable] = value
    return variables


def _response(
    request: requests.PreparedRequest,
    status: str,
    headers: list[tuple[str, str]],
    content: bytes,
) -> requests.Response:
    response = requests.Response()
    code, _, response.reason = status.partition(" ")
    response.status_code = int(code)
    response.headers.update(headers)
    response.url = request.url or ""
    response.request = request
    response.raw = io.BytesIO(content)
    return response


def _version_range(
    answer: Answer,
) -> tuple[microversion.Microversion, microversion.Microversion]:
    try:
        document = answer.body["versions"][0]
        return (
            microversion.Microversion.parse(document["min_version"]),
            microversion.Microversion.parse(document["max_version"]),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise api_errors.UnexpectedAnswer(
            answer.status,
            f"{answer.url}: the answer is no version document of Placement",
            method=answer.method,
            url=answer.url,
        ) from error


def _json_of(response: requests.Response, method: str, url: str) -> Any:
    if not response.content:
        return None
    try:
        return json.loads(response.content)
    except ValueError as error:
        raise api_errors.UnexpectedAnswer(
            response.status_code,
            f"{method} {url}: the answer is not JSON but: {_first_line(response)}",
            method=method,
            url=url,
        ) from error


def check(response: requests.Response, method: str, url: str) -> None:
    """Raise the ApiError that an answer of 400 or more stands for."""
    if response.status_code >= 400:
        raise _refusal(response, method, url)


def _refusal(response: requests.Response, method: str, url: str) -> api_errors.ApiError:
    fault = _fault_of(response)
    if fault is None:
        seen = _first_line(response) or response.reason or "an empty answer"
        detail, code, request_id = f"{method} {url}: {seen}", None, None
    else:
        detail = str(fault["detail"]).strip()
        code, request_id = fault.get("code"), fault.get("request_id")
    return api_errors.from_status(
        response.status_code, detail, code=code, request_id=request_id, method=method, url=url
    )


def _fault_of(response: requests.Response) -> dict[str, Any] | None:
    """The error object of Placement's JSON, None when the body is anything else.

    Tokens are refused before Placement, by keystonemiddleware: ``{"error": {"message": ...}}``.
    """
    try:
        answer = json.loads(response.content)
        fault = {"detail": answer["error"]["message"]} if "error" in answer else answer["errors"][0]
    except (ValueError, LookupError, TypeError):
        return None
    return fault if isinstance(fault, dict) and "detail" in fault else None


def _first_line(response: requests.Response) -> str:
    """The first line that says anything outside of a page's tags."""
    lines = (_TAG.sub(" ", line).strip() for line in response.text.splitlines())
    return next((line for line in lines if line), "")[:200]


def _failure(
    error: keystoneauth1.exceptions.ClientException, method: str, url: str
) -> errors.PlacementError:
    if not isinstance(error, keystoneauth1.exceptions.ConnectionError):
        return api_errors.ConnectionFailed(str(error))
    if method in _READS or not was_sent(error):
        return api_errors.ConnectionFailed(f"Cannot reach Placement: {_short(error)}")
    return api_errors.OutcomeUnknown(
        0,
        f"{method} {url}: the connection broke before an answer came: {_short(error)}",
        method=method,
        url=url,
    )


def was_sent(error: BaseException) -> bool:
    """Whether the request may have reached a server, as far as the cause tells."""
    if not isinstance(error, keystoneauth1.exceptions.ConnectionError):
        return False
    if isinstance(
        error.__context__, (requests.exceptions.ConnectTimeout, requests.exceptions.SSLError)
    ):
        return False
    return not isinstance(
        _reason(error),
        (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError),
    )


def _reason(error: BaseException) -> object:
    """What urllib3 says, of what requests says, of what keystoneauth says; None if nothing."""
    cause = error.__context__
    return getattr(cause.args[0], "reason", None) if cause is not None and cause.args else None


def _short(error: keystoneauth1.exceptions.ClientException) -> str:
    """The text up to the repetition of itself that urllib3 adds, and the reason."""
    reason = _reason(error)
    if reason is None:
        return str(error)
    address, _, _ = str(error).partition(": HTTP")
    return f"{address}: {str(reason).rpartition(': ')[2]}"
