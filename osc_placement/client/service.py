# SPDX-License-Identifier: Apache-2.0
"""Requests to the other services of a cloud, under the rules for Placement's requests."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import keystoneauth1.exceptions
import keystoneauth1.session

from osc_placement import address, errors
from osc_placement.client import api_errors, failures, retry, transport
from osc_placement.model import json_text

LOG = logging.getLogger(__name__)

T = TypeVar("T")


#: Who may read servers, ports, images and flavors of all projects.
_NEEDED = "an admin of the project"


class ServiceRefused(api_errors.ApiError):
    """A service answered with an error status. Of a refused right, the log at -v has the rule."""

    #: The name of the service in messages.
    service = ""
    #: Whether its own errors may be pages.
    sends_pages = False

    def __init__(
        self, status: int, detail: str, *, method: str = "GET", url: str = "", **fields: Any
    ) -> None:
        text = f"{self.service}, {method} {url.partition('?')[0]}: {detail}"
        super().__init__(status, text, method=method, url=url, **fields)
        if status == 403:
            LOG.info("%s refuses a request: %s", self.service, super().__str__())

    def __str__(self) -> str:
        return missing_right(self.service) if self.status == 403 else super().__str__()


def missing_right(service: str, needed: str = _NEEDED) -> str:
    """The sentence about requests that a policy refuses, the same for all of a service."""
    return f"missing permission in {service}: by default this needs {needed} (the rules: -v)"


def send(
    connection: Any,
    proxy: str,
    method: str,
    path: str,
    refused: type[ServiceRefused],
    **options: Any,
) -> tuple[Any, Mapping[str, str]]:
    """Send a request over an openstacksdk connection; return the parsed JSON and the headers.

    ``proxy`` is the connection's attribute for the service: "compute". ``options`` are passed to
    its ``request``. A read is sent again while the service fails.
    Errors: ``refused``; ConnectionFailed, TooLarge; OutcomeUnknown for a write that may have been
    carried out; Redirected.
    """
    session = getattr(connection, "session", None)
    if isinstance(session, keystoneauth1.session.Session):
        transport.prepare(session)
    once = functools.partial(_send_once, connection, proxy, method, path, refused, **options)
    return retry.read(once) if method in transport.READS else once()


def _send_once(
    connection: Any,
    proxy: str,
    method: str,
    path: str,
    refused: type[ServiceRefused],
    **options: Any,
) -> tuple[Any, Mapping[str, str]]:
    try:
        response = _adapter(connection, proxy).request(path, method, raise_exc=False, **options)
    except errors.PlacementError:
        raise
    except keystoneauth1.exceptions.Unauthorized as error:
        # Retries could lock the account.
        raise refused(401, transport.refused_login(error), method=method, url=path) from error
    except Exception as error:  # The SDK's and keystoneauth's errors have no common root.
        reason = failures.text_of(error)
        if method not in transport.READS and transport.was_sent(error):
            text = f"{refused.service}, {method} {path.partition('?')[0]}: {reason}"
            raise api_errors.OutcomeUnknown(0, text, method=method, url=path) from error
        raise _unreachable(error)(f"cannot reach {refused.service}: {reason}") from error
    status, request_id = response.status_code, api_errors.request_id_of(response)
    LOG.debug("%s %s %s: HTTP %s, %s", refused.service, method, path, status, request_id)
    detail = _reason(response) if status >= 400 else "the response is not JSON"
    if status < 400:
        with contextlib.suppress(ValueError):
            return json_text.parse(response.content), getattr(response, "headers", {})
    about: dict[str, Any] = {"request_id": request_id, "method": method, "url": path}
    if transport.is_foreign_404(response) and not refused.sends_pages:
        text = f"{refused.service}, {method} {path.partition('?')[0]}: the response is not JSON"
        raise api_errors.UnexpectedResponse(status, text, **about)
    failure = refused(status, detail, retry_after=transport.retry_after(response), **about)
    # A write whose success cannot be read may have been carried out.
    if method not in transport.READS and (status < 400 or status in api_errors.IN_FLIGHT):
        raise api_errors.OutcomeUnknown(status, failure.detail, **about)
    raise failure


def _adapter(connection: Any, proxy: str) -> Any:
    """The connection's adapter for a service. Requests: its versions, the first time.

    Errors: those of the SDK and of keystoneauth. The SDK drops why it cannot read the versions, so
    the endpoint is asked for the reason.
    """
    try:
        return getattr(connection, proxy)
    except Exception as error:  # As in `_send_once`.
        config, session = connection.config, connection.session
        place = {"interface": config.get_interface(proxy), "region_name": config.get_region_name()}
        url = config.get_endpoint(proxy) or session.get_endpoint(service_type=proxy, **place)
        session.get(url)
        raise LookupError(f"{address.shown(url)} names no API: check the catalog") from error


def _unreachable(error: Exception) -> type[errors.PlacementError]:
    """The kind of an error of the SDK or of keystoneauth without a response."""
    if transport.is_too_large(error):
        return api_errors.TooLarge
    return api_errors.TimedOut if transport.is_timeout(error) else api_errors.ConnectionFailed


def _reason(response: Any) -> str:
    """The message of the service's error document, or the HTTP reason."""
    try:
        document = next(iter(json_text.parse(response.content).values()))
        return " ".join(str(document["message"]).split())
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return str(response.reason or "no reason is named")


def pages(
    service: str, key: str, ask: Callable[[Mapping[str, str]], tuple[str, Any]]
) -> Iterator[tuple[str, Sequence[Any]]]:
    """``(path, items)`` of each page of a listing of nova, neutron or glance.

    ``ask`` sends the GET of a page with these parameters besides, and returns its path and the
    response; ``key`` is the field of the items, and ``{key}_links`` has the link to the next page.
    Requests: one GET per page. Errors: those of ``ask``; PlacementError for a malformed page, and
    for a page that ends where an earlier one ended: such a listing has no end.
    """
    markers: set[str] = set()
    marker: dict[str, str] = {}
    while True:
        path, body = ask(marker)
        following = next_marker(service, path, key, body, markers)
        yield path, body[key]
        if not following:
            return
        marker = {"marker": following}


def next_marker(service: str, path: str, key: str, body: Any, markers: set[str]) -> str:
    """The last item of a page, as the marker of the next page; empty after the last page.

    ``markers`` are those of the pages before, to which this one is added. Errors: as ``pages``.
    """
    with parsing(service, path):
        items = body[key]
        has_next = any(link["rel"] == "next" for link in body.get(f"{key}_links") or ())
        if has_next and not items:
            raise errors.PlacementError(f"{service}'s listing {path} has a page without entries")
        last = str(items[-1].get("uuid") or items[-1]["id"]) if has_next else ""
    if last in markers:
        raise errors.PlacementError(
            f"{service}'s listing {path.partition('?')[0]} has no end: two of its pages end with"
            f" {last}"
        )
    markers.update(filter(None, (last,)))
    return last


@contextlib.contextmanager
def parsing(service: str, path: str) -> Iterator[None]:
    """Turn a missing or malformed field of a response into a PlacementError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise errors.PlacementError(
            f"{service}'s response to {path.partition('?')[0]} lacks a field{_field(error)}"
        ) from error


class _WrongType(TypeError):
    """A field has a value of another type."""


def _field(error: BaseException) -> str:
    """The end of a message: the field that an error names, if it is not the text of Python."""
    if isinstance(error, KeyError):
        return f": {error.args[0]}"
    return f": {error}" if isinstance(error, _WrongType | ValueError) else ", or has another form"


def checked(value: T) -> T:
    """A dataclass that was made of a response, whose fields have the types of their annotations.

    Errors: TypeError, which names the field.
    """
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        for name, has_type in _tests(kind):
            if not has_type(getattr(value, name)):
                raise _WrongType(f"{name} is {getattr(value, name)!r:.60}")
    return value


@functools.cache
def _tests(kind: type) -> Sequence[tuple[str, Callable[[Any], bool]]]:
    """``(field, whether a value has its type)`` of a dataclass."""
    return [(name, _test(hint)) for name, hint in typing.get_type_hints(kind).items()]


def _test(hint: Any) -> Callable[[Any], bool]:
    """Whether a value has this type; made once for each annotation: clouds have many servers."""
    kind, arguments = typing.get_origin(hint), typing.get_args(hint)
    tests = [_test(argument) for argument in arguments if argument is not Ellipsis]
    if kind is types.UnionType:
        if all(
            isinstance(argument, type) and not dataclasses.is_dataclass(argument)
            for argument in arguments
        ):
            return lambda value: isinstance(value, arguments)
        return lambda value: any(test(value) for test in tests)
    if hint is Any:
        return lambda _: True
    if kind is None:
        has_fields = dataclasses.is_dataclass(hint)
        return lambda value: isinstance(value, hint) and (not has_fields or checked(value) is value)
    if len(tests) == 1:
        return lambda value: isinstance(value, kind) and all(map(tests[0], value))
    if kind is tuple:
        return lambda value: (
            isinstance(value, kind)
            and all(test(item) for test, item in zip(tests, value, strict=True))
        )
    names, values = tests
    return lambda value: (
        isinstance(value, kind)
        and all(names(name) and values(item) for name, item in value.items())
    )
