# SPDX-License-Identifier: Apache-2.0
"""A generated request, sent to an application without a socket."""

from __future__ import annotations

import webob

from osc_placement import server
from tests.support.sequences import compare, generate


def send(app: server.App, request: generate.Request) -> compare.Answer:
    """The response of an application."""
    blank = webob.Request.blank(request.path, method=request.method, headers=request.sent_headers)
    if request.body is not None:
        blank.body = request.body
    response = blank.get_response(app)
    return compare.read(response.status_int, response.headers, response.body)
