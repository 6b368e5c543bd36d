# SPDX-License-Identifier: Apache-2.0
"""Requests to an application without a socket."""

from __future__ import annotations

import json
from typing import Any

import webob

from osc_placement import server


def ask(
    app: server.App, path: str, method: str = "GET", body: Any = None, **headers: str
) -> webob.Response:
    """The response to a request of admin at 1.39; ``x_roles="reader"`` sets a header.

    ``body`` is a document, or its text as bytes.
    """
    sent = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    request = webob.Request.blank(path, method=method, headers=sent)
    if body is not None:
        request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.content_type = "application/json"
    return request.get_response(app)
