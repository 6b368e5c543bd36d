"""The base class of all API methods: microversion, requests, parsing of responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from osc_placement import errors
from osc_placement.client import api_errors, query, saved_cloud, transport
from osc_placement.microversion import FEATURES, Microversion, negotiate

T = TypeVar("T")


class Caller:
    """A transport and the microversion of its requests.

    ``requested`` None: negotiate at the first use. ``latest``: use the highest version that
    client and server share, and treat it as pinned.
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
        """Whether the operator chose the version; otherwise it is negotiated."""
        return self._latest or self._requested is not None

    @property
    def microversion(self) -> Microversion:
        """The version in use. Requests: one GET, the first time, if it is negotiated."""
        if self._requested is not None:
            return self._requested
        return self.negotiated

    @property
    def negotiated(self) -> Microversion:
        """The highest version that client and server share, also when a version is pinned."""
        try:
            return negotiate(*self.transport.versions())
        except ValueError as error:
            raise errors.PlacementError(f"{self.target}: {error}") from error

    @property
    def target(self) -> transport.Target:
        """The endpoint with the names of cloud and region, or the database file."""
        return self.transport.target

    @property
    def origin(self) -> str:
        """The cloud of which the target is a snapshot; empty for a service and for other files."""
        found = saved_cloud.find(self.transport)
        return errors.without_credentials(found.origin) if found else ""

    def require_owners(self) -> None:
        """Refuse a snapshot that was saved without owners. Errors: PlacementError."""
        found = saved_cloud.find(self.transport)
        if found and not found.has_owners:
            raise errors.PlacementError(
                f"{self.target} is a snapshot without the owners of consumers, which this command"
                " compares: save it again without --without-owners"
            )

    @property
    def has_recording(self) -> bool:
        """Whether ``recording`` has responses."""
        found = saved_cloud.find(self.transport)
        return found is not None and found.has_recording

    def recording(self) -> Mapping[str, Any]:
        """The responses of nova and neutron in a snapshot, ``{"GET /path": body}``; or empty."""
        found = saved_cloud.find(self.transport)
        return found.recording() if found else {}

    def at(self, version: Microversion) -> Self:
        """A client of the same transport with another version."""
        return type(self)(self.transport, version)

    def require_feature(self, feature: str, what: str = "") -> None:
        """Raise UnsupportedVersion when the version in use lacks ``feature``."""
        needs, has = FEATURES[feature], self.microversion
        if has < needs:
            raise api_errors.UnsupportedVersion(feature, needs, has, what)

    def close(self) -> None:
        """Close connections and files; the next request reopens them."""
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


def parse(response: transport.ParsedResponse, reader: Callable[[Any], T]) -> T:
    """``reader(body)``; UnexpectedResponse when the body has another shape."""
    try:
        return reader(response.body)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise api_errors.UnexpectedResponse(
            response.status,
            f"{response.method} {response.url}: the response is not a response of Placement",
            method=response.method,
            url=response.url,
        ) from error
