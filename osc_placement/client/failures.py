# SPDX-License-Identifier: Apache-2.0
"""Why a request got no response, in the words of an operator. Pure.

The libraries repeat each other's texts, with names of their classes and numbers of the operating
system; ``--debug`` shows them.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator

import requests
import urllib3.exceptions

from osc_placement import address

_CLOSED = "{place} closed the connection before its response was complete"

#: The first of these that is among the causes of a failure explains it.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "no address is known for {place}: check its name, and DNS"),
    (
        ssl.SSLCertVerificationError,
        "the certificate of {place} is not accepted ({cause.verify_message}): give the file of its"
        " CA with --os-cacert, or in clouds.yaml as cacert",
    ),
    (ssl.SSLError, "{place} does not answer with TLS: check http or https in its address"),
    (ConnectionRefusedError, "{place} refuses connections: check that its service runs there"),
    (ConnectionError, _CLOSED),
    (http.client.IncompleteRead, _CLOSED),
    (TimeoutError, "{place} did not answer in time"),
    (requests.exceptions.Timeout, "{place} did not answer in time"),
    (urllib3.exceptions.DecodeError, "{place} sends a damaged response"),
    (http.client.HTTPException, "{place} does not answer with HTTP: check its address"),
    (ValueError, "{place} sends a damaged response: {cause}"),
)


def text_of(error: BaseException) -> str:
    """Why a request failed; the text of the error itself if it is not one of a connection."""
    causes = list(causes_of(error))
    failed = [item for item in causes if isinstance(item, requests.exceptions.RequestException)]
    explained = next((item for item in failed if item.args and isinstance(item.args[0], str)), None)
    if explained or not failed:
        return address.in_message(str(explained or error))
    place = _place(failed)
    for kind, reason in _REASONS:
        cause = next((item for item in causes if isinstance(item, kind)), None)
        if cause is not None:
            return reason.format(place=place, cause=cause)
    reasons = [item.strerror for item in causes if isinstance(item, OSError) and item.strerror]
    return f"{place}: {reasons[0] if reasons else 'the connection broke'}"


def _place(failed: list[requests.exceptions.RequestException]) -> str:
    """Scheme, host and port of a failed request, or its proxy."""
    url = next((item.request.url for item in failed if item.request is not None), None)
    place = address.server_of(url or "") or "the service"
    if any(isinstance(item, requests.exceptions.ProxyError) for item in failed):
        return f"the proxy before {place} (http_proxy, https_proxy)"
    return place


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """An error, and all that it was raised from or contains, the outermost first."""
    waiting, seen = [error], set[int]()
    for cause in waiting:
        if id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            inner = (cause.__cause__, cause.__context__, getattr(cause, "reason", None))
            contained = (*inner, getattr(cause, "original_error", None), *cause.args)
            waiting += [item for item in contained if isinstance(item, BaseException)]
