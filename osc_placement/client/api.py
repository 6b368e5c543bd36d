"""The client: every request of the Placement API as one method.

Commands and workflows call this; nothing here decides, retries or prints.
"""

from __future__ import annotations

from osc_placement.client import allocation_calls, catalog_calls, provider_calls

UNCHANGED = provider_calls.UNCHANGED


class Client(
    provider_calls.ProviderCalls,
    allocation_calls.AllocationCalls,
    catalog_calls.CatalogCalls,
):
    """The Placement HTTP API as Python calls; one method per request.

    A method that needs more than the microversion in use raises UnsupportedVersion before
    it sends anything. Everything else that fails is an errors.ApiError, an
    errors.ConnectionFailed or, for writes, an errors.AnswerLost.
    """
