# SPDX-License-Identifier: Apache-2.0
"""``SessionClient`` of upstream's ``osc_placement.http``, for plugins that import it. Deprecated.

The next release removes this module: use ``client_manager.osc_placement``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as http_errors, session as sessions
from osc_lib import exceptions

from osc_placement import microversion

warnings.warn(
    "osc_placement.http is deprecated and will be removed in osc-placement 6: use"
    " client_manager.osc_placement",
    DeprecationWarning,
    stacklevel=2,
)

_NEGOTIATE = "1"
_NOT_ACCEPTABLE = 406

_ERRORS: dict[int, type[exceptions.ClientException]] = {
    400: exceptions.BadRequest,
    401: exceptions.Unauthorized,
    403: exceptions.Forbidden,
    404: exceptions.NotFound,
    409: exceptions.Conflict,
}


class SessionClient:
    """Requests with a session of keystoneauth.

    ``ks_filter`` selects the endpoint, with ``service_type``; version "1" is replaced by 1.29, or
    by the server's highest version if that is lower.

    Requests: for version "1" one GET of the version document.
    """

    def __init__(
        self, session: sessions.Session, ks_filter: dict[str, Any], api_version: str = "1.0"
    ) -> None:
        self.session, self.ks_filter = session, ks_filter
        self.negotiate_api_version(api_version)

    def request(self, method: str, url: str, **kwargs: Any) -> Any:
        """Send one request; ``version`` overrides ``api_version``.

        Errors: osc-lib's for 400, 401, 403, 404 and 409, CommandError with (status, text) for
        another 4xx, and keystoneauth's.
        """
        version = kwargs.pop("version", self.api_version)
        headers = {
            **(kwargs.pop("headers", None) or {}),
            "OpenStack-API-Version": f"{self.ks_filter['service_type']} {version}",
            "Accept": "application/json",
        }
        try:
            return self.session.request(
                url, method, headers=headers, endpoint_filter=self.ks_filter, **kwargs
            )
        except http_errors.HTTPClientError as error:
            status = error.http_status
            text = str(error).removesuffix(f" (HTTP {status})")
            detail = _first_error(error.response).get("detail") or text
            if status in _ERRORS:
                raise _ERRORS[status](status, detail) from error
            raise exceptions.CommandError((status, detail)) from error

    def negotiate_api_version(self, api_version: str) -> None:
        """Set ``api_version``."""
        self.api_version = api_version
        if api_version != _NEGOTIATE:
            return
        self.api_version = str(microversion.UNPINNED)
        response = self.request("GET", "/", raise_exc=False)
        if response.status_code == _NOT_ACCEPTABLE:
            self.api_version = _first_error(response).get("max_version") or self.api_version


def _first_error(response: Any) -> Mapping[str, Any]:
    """The first error of a response; empty without Placement's JSON."""
    try:
        error = response.json()["errors"][0]
    except (AttributeError, LookupError, TypeError, ValueError):
        return {}
    return error if isinstance(error, dict) else {}
