"""The client: one method per request of the Placement API."""

from __future__ import annotations

from typing import Any

from osc_placement import microversion
from osc_placement.client import allocation_calls, catalog_calls, provider_calls, transport

UNCHANGED = provider_calls.UNCHANGED


class Client(
    provider_calls.ProviderCalls,
    allocation_calls.AllocationCalls,
    catalog_calls.CatalogCalls,
):
    """The Placement HTTP API; one request per method, never repeated.

    A method that needs a later microversion than the one in use raises UnsupportedVersion
    before any request. Other errors: ApiError, ConnectionFailed and, for writes,
    OutcomeUnknown.
    """

    @property
    def api_version(self) -> str:
        """The version in use, for plugins that use upstream's client; unpinned at most 1.29."""
        if self.pinned:
            return str(self.microversion)
        return str(min(self.microversion, microversion.UNPINNED))

    def request(
        self, method: str, url: str, version: str | None = None, **options: Any
    ) -> transport.Response:
        """Send any request, for plugins that use upstream's client.

        ``version`` overrides ``api_version``; ``options`` are passed to keystoneauth's session.
        Errors: as for all methods.
        """
        body = options.pop("json", None)
        response = self.transport.request(
            method, url, version=version or self.api_version, body=body, **options
        )
        transport.check(response, method, url)
        return response
