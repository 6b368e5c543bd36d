"""Cross-origin requests, by oslo.middleware; imported only if an origin is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


def wrap(app: Wsgi, allowed_origins: Sequence[str]) -> Wsgi:
    """The application with CORS headers for the allowed origins."""
    from oslo_middleware import cors

    wrapped: Wsgi = cors.CORS(
        app,
        {
            "allowed_origin": list(allowed_origins),
            "allow_headers": ["openstack-api-version"],
        },
    )
    return wrapped
