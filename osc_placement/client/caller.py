"""What every group of API methods stands on: version, requests, reading of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

from osc_placement import errors
from osc_placement.client import api_errors, query, transport
from osc_placement.microversion import FEATURES, Microversion, negotiate

T = TypeVar("T")


class Caller:
    """A transport and the microversion that requests go out with.

    ``requested`` None means: negotiate at the first use. A version given is strict, and so
    is the highest that both sides share when ``latest`` asks for it.
    """

    def __init__(
        self,
        transport: transport.Transport,
        requested: Microversion | None = None,
        *,
        latest: bool = False,
    ) -> None:
        self.transport = transport
        self._requested = requested
        self._latest = latest

    @property
    def pinned(self) -> bool:
        """Whether somebody asked for this version, rather than that it was negotiated."""
        return self._latest or self._requested is not None

    @property
    def microversion(self) -> Microversion:
        """The version in use. When negotiated: one GET of the version document, the first time."""
        if self._requested is not None:
            return self._requested
        return self.negotiated

    @property
    def negotiated(self) -> Microversion:
        """The highest version that client and server share, whatever is pinned."""
        try:
            return negotiate(*self.transport.versions())
        except ValueError as error:
            raise errors.PlacementError(f"{self.target}: {error}") from error

    @property
    def target(self) -> str:
        """What it talks to, for outcomes: endpoint, with cloud and region where known, or file."""
        return self.transport.target

    def at(self, version: Microversion) -> Self:
        """The same transport with another version."""
        return type(self)(self.transport, version)

    def require_feature(self, feature: str, what: str = "") -> None:
        """Raise UnsupportedVersion when the version in use lacks ``feature``."""
        needs, has = FEATURES[feature], self.microversion
        if has < needs:
            raise api_errors.UnsupportedVersion(feature, needs, has, what)

    def close(self) -> None:
        """Let go of connections and files; a later request opens them again."""
        self.transport.close()

    def _send(
        self,
        method: str,
        *segments: str,
        pairs: Iterable[tuple[str, str]] = (),
        body: Any = None,
    ) -> transport.ParsedResponse:
        url = "/" + "/".join(query.quote(segment) for segment in segments) + query.encode(pairs)
        return self.transport.send(method, url, version=self.microversion, body=body)

    def _get(
        self, *segments: str, pairs: Iterable[tuple[str, str]] = ()
    ) -> transport.ParsedResponse:
        return self._send("GET", *segments, pairs=pairs)


def parse(answer: transport.ParsedResponse, reader: Callable[[Any], T]) -> T:
    """The value that ``reader`` makes of an answer; UnexpectedResponse when it cannot."""
    try:
        return reader(answer.body)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise api_errors.UnexpectedResponse(
            answer.status,
            f"{answer.method} {answer.url}: the response is not a response of Placement",
            method=answer.method,
            url=answer.url,
        ) from error
