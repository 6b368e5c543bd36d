# SPDX-License-Identifier: Apache-2.0
"""The errors of Placement's API: one class per reaction of the caller.

Every error of this package is a PlacementError; its text is for the operator. The errors also
derive from the classes of osc-lib, keystoneauth and Python that osc-placement 4 raised, so that
programs which catch those catch these.
"""

from __future__ import annotations

import re
from typing import Any

import keystoneauth1.exceptions
from osc_lib import exceptions

from osc_placement import address, errors, microversion
from osc_placement.model import recording

#: Error codes of Placement, from microversion 1.23.
CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_IN_USE = "placement.inventory.inuse"

#: Statuses of a write after which its outcome is unknown.
IN_FLIGHT = frozenset({500, 502, 503, 504})

#: Statuses of a caller without a valid token or without rights: other requests get them too.
ACCESS_DENIED = frozenset({401, 403})

REQUEST_ID_HEADER = "x-openstack-request-id"

_GENERAL = (
    "The server could not comply with the request since it is either malformed or otherwise"
    " incorrect."
)
_RULE = re.compile(r"placement:[\w:]+")
_SERVICE_RULES = frozenset({"placement:reshaper:reshape"})


class UnsupportedVersion(errors.PlacementError, exceptions.CommandError, ValueError):
    """``feature`` (a key of microversion.FEATURES) needs a later version than the one in use.

    ``what`` names the option or the request that needs the feature.
    """

    def __init__(
        self,
        feature: str,
        needs: microversion.Microversion,
        has: microversion.Microversion,
        what: str = "",
    ) -> None:
        self.feature, self.needs, self.has = feature, needs, has
        named = f"{what}, {feature}" if what else feature
        super().__init__(
            f"Operation or argument is not supported with version {has};"
            f" requires at least version {needs} ({named})"
        )


class ConnectionFailed(
    errors.PlacementError, exceptions.CommandError, keystoneauth1.exceptions.ConnectFailure
):
    """The service could not be reached; the request was not carried out."""


class TimedOut(ConnectionFailed):
    """The server did not answer in time, and nothing can have changed; a retry does not help."""


class StoppedReading(errors.PlacementError, exceptions.CommandError):
    """A service failed so often in a row that a command reads nothing more from it."""


class TooLarge(errors.PlacementError, exceptions.CommandError):
    """The response of a read is larger than the client accepts."""


class ApiError(errors.PlacementError, exceptions.CommandError):
    """The service, or a proxy before it, answered with an error.

    ``status`` is the HTTP status, 0 without a response; ``error_code`` the API's error code, None
    below 1.23; ``detail`` the server's text; ``request_id`` the x-openstack-request-id, by
    which the server's log names the request; ``retry_after`` the seconds to wait before a retry.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        error_code: str | None = None,
        request_id: str | None = None,
        retry_after: float = 0.0,
        method: str = "",
        url: str = "",
    ) -> None:
        detail = errors.shortened(detail)
        self.status, self.detail, self.error_code = status, detail, error_code
        self.request_id, self.retry_after = request_id, retry_after
        self.method, self.url = method, url
        super().__init__(detail)

    def __str__(self) -> str:
        return f"{_without_preamble(self.detail)}{self._reference}"

    @property
    def _reference(self) -> str:
        """`` (HTTP 409) (Request-ID: req-...)``, as far as known; the first is upstream's."""
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{status} (Request-ID: {self.request_id})" if self.request_id else status


class BadRequest(ApiError, exceptions.BadRequest):
    """400: the service refuses what the request says."""


class Unauthorized(ApiError, exceptions.Unauthorized):
    """401: the token is missing or no longer valid."""


class Forbidden(ApiError, exceptions.Forbidden):
    """403: Placement's policy does not grant this user ``rule``."""

    @property
    def rule(self) -> str | None:
        """The name of the policy rule, if the response contains it."""
        match = _RULE.search(self.detail)
        return match[0] if match else None

    def __str__(self) -> str:
        if self.rule is None:
            return super().__str__()
        if _without_preamble(self.detail) == self.rule:
            return (
                f"{super().__str__()}: this needs a project-scoped token; this token has the scope"
                " of a domain or of the system"
            )
        roles = "service" if self.rule in _SERVICE_RULES else "admin or service"
        return f"{super().__str__()}: by default this needs the role {roles}"


class Redirected(ApiError):
    """The server redirects a write, or a read to another server; ``target`` is the URL."""

    def __init__(self, status: int, target: str, *, method: str, url: str) -> None:
        self.target = target
        super().__init__(
            status,
            f"{method} {address.in_message(url)}: the server redirects to {address.shown(target)},"
            " which was not followed because it would send credentials or the change elsewhere; set"
            " the address of the service to the right URL",
            method=method,
            url=url,
        )


def concerns_all(error: ApiError | recording.NotRead) -> bool:
    """True if other requests would fail for the same reason: no token, no right, a wrong URL."""
    return error.status in ACCESS_DENIED or isinstance(error, Redirected)


class NotFound(ApiError, exceptions.NotFound):
    """404: the resource of the request does not exist."""


class Conflict(ApiError, exceptions.Conflict):
    """409 for a reason that a retry does not resolve."""

    #: What a command adds to the error: how to remove the cause.
    next_step = ""

    def __str__(self) -> str:
        return f"{super().__str__()}{self.next_step}"


class GenerationConflict(Conflict):
    """409: the generation has changed; read again, then decide again."""


class InventoryInUse(Conflict):
    """409: allocations use the inventory that the request deletes."""


class OutcomeUnknown(ApiError):
    """A write was sent and its outcome is unknown: it may have been carried out.

    Either the connection broke after sending (``status`` is 0), or the response has a status
    of IN_FLIGHT.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}: the request may have been carried out; check before a retry"


class UnexpectedResponse(ApiError):
    """A response without Placement's JSON, such as the HTML page of a proxy."""


def request_id_of(response: Any) -> str | None:
    """The request id in the headers of an HTTP response; None without one."""
    request_id: str | None = (getattr(response, "headers", None) or {}).get(REQUEST_ID_HEADER)
    return request_id


def _without_preamble(detail: str) -> str:
    """The server's text on one line, without the general sentence before its blank line.

    Blanks stay as upstream's plugin prints them.
    """
    return (detail.partition("\n\n")[2] or detail).strip().replace("\n", " ")


def from_status(
    status: int, detail: str, *, error_code: str | None = None, method: str = "", **fields: Any
) -> ApiError:
    """The error for an HTTP status and Placement's error code or, below 1.23, its text.

    ``fields`` are the other parameters of ApiError.
    """
    kind = _kind(status, error_code, detail, writing=method not in {"GET", "HEAD", "OPTIONS"})
    return kind(status, detail, error_code=error_code, method=method, **fields)


_KINDS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
}


def _kind(status: int, code: str | None, detail: str, *, writing: bool) -> type[ApiError]:
    if status == 409:
        return _conflict(code, detail.lower())
    if status in IN_FLIGHT and writing:
        return OutcomeUnknown
    return _KINDS.get(status, ApiError)


def _conflict(code: str | None, text: str) -> type[Conflict]:
    # DELETE of one inventory answers concurrent_update for an inventory in use.
    if code == INVENTORY_IN_USE or ("inventory for" in text and "in use" in text):
        return InventoryInUse
    if code == CONCURRENT_UPDATE:
        return GenerationConflict
    if code is None and ("generation conflict" in text or "generation already changed" in text):
        return GenerationConflict
    return Conflict


class UnknownProvider(errors.InvalidInput):
    """Names that no provider has, or that several have; one of ``reasons`` per name."""


def one_line(detail: str) -> str:
    """Placement's reason without its general sentence and line breaks, real or escaped."""
    text = " ".join(detail.replace("\\n", "\n").split())
    return text.removeprefix(_GENERAL).strip()
