"""What can go wrong between a caller and Placement, by what the caller can do about it.

Every failure of this package is a PlacementError; its text is for an operator.
"""

from __future__ import annotations

import re

from osc_placement import errors, microversion

#: Error codes that the API gives from 1.23 on.
CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_IN_USE = "placement.inventory.inuse"

#: Statuses after which a write may have been carried out.
IN_FLIGHT = frozenset({500, 502, 503, 504})

_RULE = re.compile(r"placement:[\w:]+")
_FOR_SERVICES = frozenset({"placement:reshaper:reshape"})


class UnsupportedVersion(errors.PlacementError):
    """``feature`` (a key of microversion.FEATURES) needs more than the version in use.

    ``what`` names the option or the request that asked for it.
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


class ConnectionFailed(errors.PlacementError):
    """Nobody answered, and nothing can have been carried out."""


class ApiError(errors.PlacementError):
    """Placement, or something on the way to it, refused.

    ``status`` is the HTTP status; ``code`` the API's error code, None below 1.23;
    ``detail`` the server's text; ``request_id`` what its log calls the request.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        request_id: str | None = None,
        method: str = "",
        url: str = "",
    ) -> None:
        self.status, self.detail, self.code = status, detail, code
        self.request_id, self.method, self.url = request_id, method, url
        super().__init__(detail)

    def __str__(self) -> str:
        known = f" (HTTP {self.status})" if self.status else ""
        if self.request_id and self.status >= 500:
            known += f" (Request-ID: {self.request_id})"
        return f"{_essence(self.detail)}{known}"


class Forbidden(ApiError):
    """403: Placement's policy does not give this user ``rule``, the right to do that."""

    @property
    def rule(self) -> str | None:
        """The policy rule's name, when the answer tells it."""
        found = _RULE.search(self.detail)
        return found[0] if found else None

    def __str__(self) -> str:
        if self.rule is None:
            return super().__str__()
        if _essence(self.detail) == self.rule:
            return (
                f"{self.rule} needs a token of a project, and this one is of a domain or of the"
                f" system (HTTP {self.status})"
            )
        roles = "service" if self.rule in _FOR_SERVICES else "admin or service"
        return f"{super().__str__()}: by default that takes the role {roles}"


class NotFound(ApiError):
    """404: what the request is about is not there."""


class NotAcceptable(ApiError):
    """406: the server does not speak the microversion."""


class Conflict(ApiError):
    """409, for a reason that looking again does not cure."""


class GenerationConflict(Conflict):
    """409: somebody else wrote in between; observe again, then decide again."""


class InventoryInUse(Conflict):
    """409: allocations use the inventory that was to go."""


class OutcomeUnknown(ApiError):
    """A write was sent and its outcome is unknown: it may have been carried out.

    The connection was cut after sending (``status`` is 0), or 500, 502, 503 or 504 came back.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}: it may have been carried out all the same, so look first"


class UnexpectedAnswer(ApiError):
    """An answer that is not Placement's JSON: a proxy's HTML page, an empty body."""


def _essence(detail: str) -> str:
    """The server's text on one line, without the sentence on the status before it."""
    return " ".join((detail.partition("\n\n")[2] or detail).split())


def from_status(
    status: int,
    detail: str,
    *,
    code: str | None = None,
    request_id: str | None = None,
    method: str = "",
    url: str = "",
) -> ApiError:
    """The error that fits an HTTP status and Placement's error code or, below 1.23, its text."""
    kind = _kind(status, code, detail, writing=method not in {"GET", "HEAD", "OPTIONS"})
    return kind(status, detail, code=code, request_id=request_id, method=method, url=url)


def _kind(status: int, code: str | None, detail: str, *, writing: bool) -> type[ApiError]:
    if status == 409:
        return _conflict(code, detail.lower())
    if status in IN_FLIGHT and writing:
        return OutcomeUnknown
    return {403: Forbidden, 404: NotFound, 406: NotAcceptable}.get(status, ApiError)


def _conflict(code: str | None, text: str) -> type[Conflict]:
    # DELETE of one inventory answers concurrent_update where it means that it is in use.
    if code == INVENTORY_IN_USE or ("inventory for" in text and "in use" in text):
        return InventoryInUse
    if code == CONCURRENT_UPDATE:
        return GenerationConflict
    if code is None and ("generation conflict" in text or "generation already changed" in text):
        return GenerationConflict
    return Conflict


class UnknownProvider(errors.InvalidInput):
    """Names that no provider has, or that more than one has; ``reasons`` names each."""
