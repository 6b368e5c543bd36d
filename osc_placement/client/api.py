"""The client: every request of the Placement API as one method.

Commands and workflows call this; nothing here decides, retries or prints.
"""

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
    """The Placement HTTP API as Python calls; one method per request.

    A method that needs more than the microversion in use raises UnsupportedVersion before
    it sends anything. Everything else that fails is an errors.ApiError, an
    errors.ConnectionFailed or, for writes, an errors.OutcomeUnknown.
    """

    @property
    def api_version(self) -> str:
        """The version in use as text, for plugins that build on upstream's client.

        Unpinned it is no more than 1.29, as it was there.
        """
        if self.pinned:
            return str(self.microversion)
        return str(min(self.microversion, microversion.UNPINNED))

    def request(
        self, method: str, url: str, version: str | None = None, **options: Any
    ) -> transport.Response:
        """Any request, for plugins that build on upstream's client: a path and a response.

        ``version`` overrides ``api_version``; ``options`` go to keystoneauth's session. Errors
        are this package's ApiError and its kin.
        """
        body = options.pop("json", None)
        response = self.transport.request(
            method, url, version=version or self.api_version, body=body, **options
        )
        transport.check(response, method, url)
        return response
