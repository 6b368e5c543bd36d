# SPDX-License-Identifier: Apache-2.0
"""The version document."""

from __future__ import annotations

import webob

from osc_placement import microversion
from osc_placement.server.context import RequestContext, json_response


def show(context: RequestContext) -> webob.Response:
    """The supported microversions; needs no token."""
    version = {
        "id": "v1.0",
        "max_version": str(microversion.MAXIMUM),
        "min_version": str(microversion.MINIMUM),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return json_response(context, {"versions": [version]})
